// SPDX-License-Identifier: Apache-2.0
// Communicators: queries, creation, freeing.
#include <algorithm>
#include <functional>

#include "mpi_shim/abi/forward.hpp"
#include "mpi_shim/api/call.hpp"
#include "mpi_shim/coll/algorithms/bcast.hpp"
#include "mpi_shim/coll/run.hpp"
#include "mpi_shim/comm/creation/creation.hpp"
#include "mpi_shim/info/info.hpp"

namespace mpi_shim::api {
namespace {

template <class T, class Ask>
int ask(const char* function, MPI_Comm handle, T* result, Ask&& ask) {
  Call call{function};
  const comm::Communicator* const communicator = call.comm(handle);
  return call.answer(result, "result", [&] { return std::invoke(ask, *communicator); });
}

int dup(const char* function, MPI_Comm comm, MPI_Info info, MPI_Comm* newcomm) {
  Call call{function};
  comm::Communicator* const parent = call.comm(comm);
  call.info(info);
  call.pointer(newcomm, "newcomm");
  if (call.failed()) return call.error();
  *newcomm = MPI_COMM_NULL;  // the value after an error of a copy callback
  return hand_out(call, duplicate(call.process().communicators(), *parent), newcomm);
}

int idup(const char* function, MPI_Comm comm, MPI_Info info, MPI_Comm* newcomm, MPI_Request* request) {
  Call call{function};
  comm::Communicator* const parent = call.comm(comm);
  call.info(info);
  call.pointer(newcomm, "newcomm");
  call.pointer(request, "request");
  if (call.failed()) return call.error();
  Request* started = nullptr;
  if (const int error = start_duplicating(call.process().communicators(), *parent, newcomm, started);
      error != MPI_SUCCESS) {
    return call.finish(error);
  }
  *request = started->mpi_handle();
  return MPI_SUCCESS;
}

/// Whether a guided split names mpi_shared_memory, the only resource type that the library knows.
bool names_shared_memory(int split_type, MPI_Info info) {
  if (split_type != MPI_COMM_TYPE_HW_GUIDED && split_type != MPI_COMM_TYPE_RESOURCE_GUIDED) return false;
  const auto* const hints = handle::find<info::Info>(info);
  const std::string* const type = hints != nullptr ? hints->find("mpi_hw_resource_type") : nullptr;
  return type != nullptr && *type == "mpi_shared_memory";
}

/// Checks that all members belong to the local group of the communicator.
void check_subset(Call& call, const comm::Communicator& comm, const comm::Group& members) {
  for (const int process : members.processes()) {
    if (comm.group()->rank_of(process) != MPI_UNDEFINED) continue;
    call.fail(MPI_ERR_GROUP, "argument group has a process that is not in argument comm");
    return;
  }
}

/// Whether a message or a collective on the communicator is not complete.
bool is_pending(comm::Communicator& comm) {
  return comm.engine().has_pending(comm.user()) || comm.vci().scheduler().has_pending(comm);
}

/// MPI_Comm_free, and with `wait` MPI_Comm_disconnect, which first waits for pending communication of all ranks.
int release(const char* function, MPI_Comm* comm, bool wait) {
  Call call{function};
  comm::Communicator* const communicator = call.comm(call.at(comm, "comm"));
  if (call.failed()) return call.error();
  if (communicator->is_predefined()) return call.fail(MPI_ERR_COMM, "a predefined communicator cannot be freed");
  if (wait) {
    communicator->engine().wait_until([&] { return !is_pending(*communicator); },
                                      "in MPI_Comm_disconnect for pending communication");
    if (const int error = coll::run(*communicator, [&](auto& schedule) { build_barrier(schedule); });
        error != MPI_SUCCESS)
      return call.finish(error);
  }
  if (const int error = communicator->attributes.clear(*comm); error != MPI_SUCCESS) return call.finish(error);
  call.process().communicators().free(*communicator);
  *comm = MPI_COMM_NULL;
  return MPI_SUCCESS;
}

}  // namespace

OPAL_MPI_FORWARD(Comm_rank, ask, &comm::Communicator::rank)
OPAL_MPI_FORWARD(Comm_size, ask, &comm::Communicator::size)
OPAL_MPI_FORWARD(Comm_test_inter, ask, &comm::Communicator::is_inter)
OPAL_MPI_FORWARD(Comm_group, ask, [](const comm::Communicator& comm) { return new_handle(comm.group()); })
OPAL_MPI_FORWARD(Comm_dup_with_info, dup)
OPAL_MPI_FORWARD(Comm_idup_with_info, idup)
OPAL_MPI_FORWARD(Comm_free, release, false)
OPAL_MPI_FORWARD(Comm_disconnect, release, true)

OPAL_MPI_FUNCTION(int, Comm_dup, (MPI_Comm comm, MPI_Comm* newcomm)) {
  return dup("MPI_Comm_dup", comm, MPI_INFO_NULL, newcomm);
}
OPAL_MPI_FUNCTION(int, Comm_idup, (MPI_Comm comm, MPI_Comm* newcomm, MPI_Request* request)) {
  return idup("MPI_Comm_idup", comm, MPI_INFO_NULL, newcomm, request);
}
// The library ignores all hints of communicators, so MPI_Comm_get_info reports none.
OPAL_MPI_FUNCTION(int, Comm_set_info, (MPI_Comm comm, MPI_Info info)) {
  Call call{"MPI_Comm_set_info"};
  call.comm(comm);
  call.info(info);
  return call.error();
}

OPAL_MPI_FUNCTION(int, Comm_get_info, (MPI_Comm comm, MPI_Info* info_used)) {
  Call call{"MPI_Comm_get_info"};
  call.comm(comm);
  return call.answer_info({}, info_used);
}

OPAL_MPI_FUNCTION(int, Comm_split, (MPI_Comm comm, int color, int key, MPI_Comm* newcomm)) {
  Call call{"MPI_Comm_split"};
  comm::Communicator* const parent = call.comm(comm);
  call.pointer(newcomm, "newcomm");
  if (color < 0 && color != MPI_UNDEFINED) {
    call.fail(MPI_ERR_ARG, "argument color is " + std::to_string(color) + ", but colours are 0 or more");
  }
  if (call.failed()) return call.error();
  return hand_out(call, split(call.process().communicators(), *parent, color, key), newcomm);
}

OPAL_MPI_FUNCTION(int, Comm_split_type, (MPI_Comm comm, int split_type, int key, MPI_Info info, MPI_Comm* newcomm)) {
  Call call{"MPI_Comm_split_type"};
  comm::Communicator* const parent = call.comm(comm);
  call.pointer(newcomm, "newcomm");
  call.info(info);
  int color = MPI_UNDEFINED;
  if (split_type == MPI_COMM_TYPE_SHARED || (!call.failed() && names_shared_memory(split_type, info))) {
    // The color is the first process of the job on this host.
    if (!call.failed()) color = static_cast<int>(call.process().job().client().local_peers().front());
  } else if (split_type != MPI_UNDEFINED && split_type != MPI_COMM_TYPE_HW_GUIDED &&
             split_type != MPI_COMM_TYPE_HW_UNGUIDED && split_type != MPI_COMM_TYPE_RESOURCE_GUIDED) {
    call.fail(MPI_ERR_ARG, "argument split_type is none of MPI_COMM_TYPE_*");
  }  // guided and unguided types: the result is MPI_COMM_NULL, since the library knows no other resource
  if (call.failed()) return call.error();
  return hand_out(call, split(call.process().communicators(), *parent, color, key), newcomm);
}

OPAL_MPI_FUNCTION(int, Comm_create, (MPI_Comm comm, MPI_Group group, MPI_Comm* newcomm)) {
  Call call{"MPI_Comm_create"};
  comm::Communicator* const parent = call.comm(comm);
  const auto members = call.group(group);
  call.pointer(newcomm, "newcomm");
  if (call.failed()) return call.error();
  check_subset(call, *parent, *members);
  if (call.failed()) return call.error();
  return hand_out(call, create(call.process().communicators(), *parent, members), newcomm);
}

OPAL_MPI_FUNCTION(int, Comm_create_group, (MPI_Comm comm, MPI_Group group, int tag, MPI_Comm* newcomm)) {
  Call call{"MPI_Comm_create_group"};
  comm::Communicator* const parent = call.intracomm(comm);
  const auto members = call.group(group);
  call.send_tag(tag);
  call.pointer(newcomm, "newcomm");
  if (call.failed()) return call.error();
  check_subset(call, *parent, *members);
  if (call.failed()) return call.error();
  return hand_out(call, create_group(call.process().communicators(), *parent, members, tag), newcomm);
}

OPAL_MPI_FUNCTION(int, Comm_compare, (MPI_Comm comm1, MPI_Comm comm2, int* result)) {
  Call call{"MPI_Comm_compare"};
  const comm::Communicator* const first = call.comm(comm1, "comm1");
  const comm::Communicator* const second = call.comm(comm2, "comm2");
  call.pointer(result, "result");
  if (call.failed()) return call.error();
  if (first == second) {
    *result = MPI_IDENT;
  } else if (first->is_inter() != second->is_inter()) {
    *result = MPI_UNEQUAL;
  } else {
    int groups = first->group()->compare(*second->group());
    if (first->is_inter()) {
      // The result is the worse of the two comparisons: IDENT < SIMILAR < UNEQUAL.
      groups = std::max(groups, first->sides().other->compare(*second->sides().other));
    }
    *result = groups == MPI_IDENT ? MPI_CONGRUENT : groups;
  }
  return MPI_SUCCESS;
}

}  // namespace mpi_shim::api
