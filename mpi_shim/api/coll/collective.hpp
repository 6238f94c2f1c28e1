// SPDX-License-Identifier: Apache-2.0
// mpi_shim/api/coll/collective.hpp — the six forms of a collective function (blocking, non-blocking, persistent; counts
// of int and of MPI_Count) out of one implementation.
//   template <class Count> int bcast(const Form& form, void* buffer, Count count, ..., MPI_Comm comm) {
//     Call call{form.function};  ... checks ...
//     return form.run(call, *communicator, [&](coll::Schedule& schedule) { ... });
//   }
//   #define OPAL_MPI_BCAST(Count, Displacement) void* buffer, Count count, ..., MPI_Comm comm
//   OPAL_MPI_COLLECTIVE(Bcast, bcast, OPAL_MPI_BCAST, buffer, count, ..., comm)
#pragma once
#include "mpi_shim/abi/function.hpp"
#include "mpi_shim/api/call.hpp"
#include "mpi_shim/coll/algorithms/inter.hpp"
#include "mpi_shim/coll/host/team.hpp"
#include "mpi_shim/coll/run.hpp"

namespace mpi_shim::api {

/// An intercommunicator's sides, for its collectives.
inline coll::TwoSides sides_of(const comm::Communicator& comm) { return {comm.own_side(), comm.other_side()}; }

/// This process's part in a collective with a root.
struct RootPart {
  bool is_root;     ///< has the root's arguments
  bool takes_part;  ///< false with MPI_PROC_NULL: no argument but root and comm counts

  RootPart(const comm::Communicator& comm, int root) noexcept
      : is_root(comm.is_inter() ? root == MPI_ROOT : root == comm.rank()), takes_part(root != MPI_PROC_NULL) {}
};

/// Which form was called.
struct Form {
  enum class Kind { blocking, nonblocking, persistent };
  const char* function;
  Kind kind = Kind::blocking;
  MPI_Request* request = nullptr;
  MPI_Info info = MPI_INFO_NULL;  ///< hints of a persistent one, of which none is known

  /// As run() below; a blocking one has `share(HostTeam&)` do it in shared memory, where there is a team and it can.
  template <class Share, class Build>
  int run(Call& call, comm::Communicator& comm, Share&& share, Build&& build) const {
    if (kind == Kind::blocking) {
      if (coll::HostTeam* const team = comm.host_team.find(call.process().job(), comm)) {
        if (const coll::HostTeam::Outcome outcome = share(*team)) return call.finish(*outcome);
      }
    }
    return run(call, comm, build);
  }

  /// Has `build(Schedule&)` write down what this process does, and runs it, starts it, or hands it out.
  template <class Build>
  int run(Call& call, comm::Communicator& comm, Build&& build) const {
    if (kind == Kind::blocking) return call.finish(coll::run(comm, build));
    call.pointer(request, "request");
    call.info(info);
    if (call.failed()) return call.error();
    coll::Schedule& schedule = comm.vci().scheduler().begin(comm);
    build(schedule);
    schedule.keep_types();
    if (kind == Kind::persistent) {
      schedule.set_persistent(comm.mpi_handle());
    } else {
      schedule.set_comm(comm.mpi_handle());
      schedule.start();
    }
    *request = schedule.mpi_handle();
    return MPI_SUCCESS;
  }
};

}  // namespace mpi_shim::api

#define OPAL_MPI_COLLECTIVE(Upper, lower, PARAMETERS, ...)                                                  \
  OPAL_MPI_FUNCTION(int, Upper, (PARAMETERS(int, int))) { return lower(Form{"MPI_" #Upper}, __VA_ARGS__); } \
  OPAL_MPI_FUNCTION(int, Upper##_c, (PARAMETERS(MPI_Count, MPI_Aint))) {                                    \
    return lower(Form{"MPI_" #Upper "_c"}, __VA_ARGS__);                                                    \
  }                                                                                                         \
  OPAL_MPI_COLLECTIVE_STARTED(Upper, lower, PARAMETERS, __VA_ARGS__)

#define OPAL_MPI_COLLECTIVE_STARTED(Upper, lower, PARAMETERS, ...)                                                  \
  OPAL_MPI_FUNCTION(int, I##lower, (PARAMETERS(int, int), MPI_Request * request)) {                                 \
    return lower(Form{"MPI_I" #lower, Form::Kind::nonblocking, request}, __VA_ARGS__);                              \
  }                                                                                                                 \
  OPAL_MPI_FUNCTION(int, I##lower##_c, (PARAMETERS(MPI_Count, MPI_Aint), MPI_Request * request)) {                  \
    return lower(Form{"MPI_I" #lower "_c", Form::Kind::nonblocking, request}, __VA_ARGS__);                         \
  }                                                                                                                 \
  OPAL_MPI_FUNCTION(int, Upper##_init, (PARAMETERS(int, int), MPI_Info info, MPI_Request * request)) {              \
    return lower(Form{"MPI_" #Upper "_init", Form::Kind::persistent, request, info}, __VA_ARGS__);                  \
  }                                                                                                                 \
  OPAL_MPI_FUNCTION(int, Upper##_init_c, (PARAMETERS(MPI_Count, MPI_Aint), MPI_Info info, MPI_Request * request)) { \
    return lower(Form{"MPI_" #Upper "_init_c", Form::Kind::persistent, request, info}, __VA_ARGS__);                \
  }
