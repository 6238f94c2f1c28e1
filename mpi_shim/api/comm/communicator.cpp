// SPDX-License-Identifier: Apache-2.0
// Communicators: queries, creation, freeing.
#include <algorithm>
#include <functional>

#include "mpi_shim/api/forward.hpp"
#include "mpi_shim/coll/algorithms/algorithms.hpp"
#include "mpi_shim/coll/run.hpp"
#include "mpi_shim/comm/creation/creation.hpp"
#include "mpi_shim/info/info.hpp"

namespace mpi_shim::api {
namespace {

template <class T, class Ask>
int ask(Call& call, MPI_Comm handle, T* result, Ask&& ask) {
  return call.answer(result, std::invoke(ask, std::as_const(*call.comm(handle))));
}

int dup(Call& call, MPI_Comm comm, MPI_Info info, MPI_Comm* newcomm) {
  comm::Communicator* const parent = call.comm(comm);
  call.info(info);
  *newcomm = MPI_COMM_NULL;  // the value after an error of a copy callback
  return hand_out(call, duplicate(call.process().communicators(), *parent), newcomm);
}

int idup(Call& call, MPI_Comm comm, MPI_Info info, MPI_Comm* newcomm, MPI_Request* request) {
  comm::Communicator* const parent = call.comm(comm);
  call.info(info);
  Request* started = nullptr;
  call.finish(start_duplicating(call.process().communicators(), *parent, newcomm, started));
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
  }
}

/// Whether a message or a collective on the communicator is not complete.
bool is_pending(comm::Communicator& comm) {
  return comm.engine().has_pending(comm.user()) || comm.vci().scheduler().has_pending(comm);
}

/// MPI_Comm_free, and with `wait` MPI_Comm_disconnect, which first waits for pending communication of all ranks.
int release(Call& call, MPI_Comm* comm, bool wait) {
  comm::Communicator* const communicator = call.comm(*comm);
  if (communicator->is_predefined()) call.fail(MPI_ERR_COMM, "a predefined communicator cannot be freed");
  if (wait) {
    communicator->engine().wait_until([&] { return !is_pending(*communicator); },
                                      "in MPI_Comm_disconnect for pending communication");
    call.finish(coll::run(*communicator, [&](auto& schedule) { build_barrier(schedule); }));
  }
  call.finish(communicator->attributes.clear(*comm));
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

OPAL_MPI_CALL(Comm_dup, (Call & call, MPI_Comm comm, MPI_Comm* newcomm)) {
  return dup(call, comm, MPI_INFO_NULL, newcomm);
}
OPAL_MPI_CALL(Comm_idup, (Call & call, MPI_Comm comm, MPI_Comm* newcomm, MPI_Request* request)) {
  return idup(call, comm, MPI_INFO_NULL, newcomm, request);
}
// The library ignores all hints of communicators, so MPI_Comm_get_info reports none.
OPAL_MPI_CALL(Comm_set_info, (Call & call, MPI_Comm comm, MPI_Info info)) {
  call.comm(comm);
  call.info(info);
  return MPI_SUCCESS;
}

OPAL_MPI_CALL(Comm_get_info, (Call & call, MPI_Comm comm, MPI_Info* info_used)) {
  call.comm(comm);
  return call.answer_info({}, info_used);
}

OPAL_MPI_CALL(Comm_split, (Call & call, MPI_Comm comm, int color, int key, MPI_Comm* newcomm)) {
  comm::Communicator* const parent = call.comm(comm);
  if (color < 0 && color != MPI_UNDEFINED) {
    call.fail(MPI_ERR_ARG, "argument color is " + std::to_string(color) + ", but colours are 0 or more");
  }
  return hand_out(call, split(call.process().communicators(), *parent, color, key), newcomm);
}

OPAL_MPI_CALL(Comm_split_type,
              (Call & call, MPI_Comm comm, int split_type, int key, MPI_Info info, MPI_Comm* newcomm)) {
  comm::Communicator* const parent = call.comm(comm);
  call.info(info);
  int color = MPI_UNDEFINED;
  if (split_type == MPI_COMM_TYPE_SHARED || names_shared_memory(split_type, info)) {
    // The color is the first process of the job on this host.
    color = static_cast<int>(call.process().job().client().local_peers().front());
  } else if (split_type != MPI_UNDEFINED && split_type != MPI_COMM_TYPE_HW_GUIDED &&
             split_type != MPI_COMM_TYPE_HW_UNGUIDED && split_type != MPI_COMM_TYPE_RESOURCE_GUIDED) {
    call.fail(MPI_ERR_ARG, "argument split_type is none of MPI_COMM_TYPE_*");
  }  // guided and unguided types: the result is MPI_COMM_NULL, since the library knows no other resource
  return hand_out(call, split(call.process().communicators(), *parent, color, key), newcomm);
}

OPAL_MPI_CALL(Comm_create, (Call & call, MPI_Comm comm, MPI_Group group, MPI_Comm* newcomm)) {
  comm::Communicator* const parent = call.comm(comm);
  const auto members = call.group(group);
  check_subset(call, *parent, *members);
  return hand_out(call, create(call.process().communicators(), *parent, members), newcomm);
}

OPAL_MPI_CALL(Comm_create_group, (Call & call, MPI_Comm comm, MPI_Group group, int tag, MPI_Comm* newcomm)) {
  comm::Communicator* const parent = call.intracomm(comm);
  const auto members = call.group(group);
  call.send_tag(tag);
  check_subset(call, *parent, *members);
  return hand_out(call, create_group(call.process().communicators(), *parent, members, tag), newcomm);
}

OPAL_MPI_CALL(Comm_compare, (Call & call, MPI_Comm comm1, MPI_Comm comm2, int* result)) {
  const comm::Communicator* const first = call.comm(comm1, "comm1");
  const comm::Communicator* const second = call.comm(comm2, "comm2");
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
