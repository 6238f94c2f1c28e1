// SPDX-License-Identifier: Apache-2.0
// mpi_shim/api/coll/collective.hpp — defines the six forms of a collective function (blocking, non-blocking,
// persistent; counts of int and of MPI_Count) from one implementation.
//   int bcast(Call& call, const Form& form, void* buffer, MPI_Count count, ..., MPI_Comm comm) {
//     ... checks ...
//     return form.run(call, *communicator, [&](coll::Schedule& schedule) { ... });
//   }
//   OPAL_MPI_COLLECTIVE(Bcast, bcast, bcast)      // MPI_Bcast, MPI_Ibcast, ... call the function bcast()
#pragma once
#include "mpi_shim/api/forward.hpp"
#include "mpi_shim/api/p2p/arguments.hpp"
#include "mpi_shim/coll/algorithms/inter.hpp"
#include "mpi_shim/coll/host/team.hpp"
#include "mpi_shim/coll/run.hpp"

namespace mpi_shim::api {

/// This process's part in a collective with a root.
struct RootPart {
  bool is_root;     ///< this process is the root: the arguments of the root are significant
  bool takes_part;  ///< false for root MPI_PROC_NULL: only the arguments root and comm are significant

  RootPart(const comm::Communicator& comm, int root) noexcept
      : is_root(comm.is_inter() ? root == MPI_ROOT : root == comm.rank()), takes_part(root != MPI_PROC_NULL) {}
};

/// The form of the function that the application called, with the arguments that only this form has.
struct Form {
  enum class Kind { blocking, nonblocking, persistent };
  Kind kind = Kind::blocking;
  MPI_Request* request = nullptr;
  MPI_Info info = MPI_INFO_NULL;  ///< persistent form: hints; the handle is checked, all hints are ignored

  /// As run() below, but the blocking form first calls `share(HostTeam&)` if the communicator has a host team.  If
  /// the returned Outcome has a value, share() has done the collective; else run() below does it by messages, with the
  /// steps of `build_inter(Schedule&, const TwoSides&)` on an intercommunicator.
  template <class Share, class Build, class BuildInter>
  int run(Call& call, comm::Communicator& comm, Share&& share, Build&& build, BuildInter&& build_inter) const {
    if (kind == Kind::blocking) {
      if (coll::HostTeam* const team = coll::HostTeam::for_collective(call.process().job(), comm)) {
        if (const coll::HostTeam::Outcome outcome = share(*team)) return call.finish(*outcome);
      }
    }
    return run(call, comm, [&](coll::Schedule& schedule) {
      comm.is_inter() ? build_inter(schedule, coll::TwoSides{comm.own_side(), comm.other_side()}) : build(schedule);
    });
  }

  /// Calls `build(Schedule&)`, which adds the steps of this process.  The blocking form executes the schedule; the
  /// others store its request in *request, and the non-blocking one starts it.  Returns the return value of the MPI
  /// function.
  template <class Build>
  int run(Call& call, comm::Communicator& comm, Build&& build) const {
    if (kind == Kind::blocking) return call.finish(coll::run(comm, build));
    call.pointer(request, "request");
    call.info(info);
    coll::Schedule& schedule = comm.vci().scheduler().begin(comm);
    build(schedule);
    schedule.keep();
    return hand_over(schedule, kind == Kind::persistent ? Start::later : Start::now, comm.mpi_handle(), request);
  }
};

}  // namespace mpi_shim::api

#define OPAL_MPI_KIND_OF_FORM(...) Form::Kind::__VA_ARGS__
#define OPAL_MPI_COLLECTIVE_FORM(name, kind, arguments, function, ...)                              \
  OPAL_MPI_FUNCTION(int, name, OPAL_MPI_PARAMETERS_##name) {                                        \
    return Call::run("MPI_" #name, [&](Call& call) {                                                \
      return function(call, Form{OPAL_MPI_KIND_OF_FORM kind} arguments __VA_OPT__(, ) __VA_ARGS__); \
    });                                                                                             \
  }

/// The three forms with counts of one type; `suffix` is _c or nothing.
#define OPAL_MPI_COLLECTIVE_OF(Upper, lower, suffix, ...)                                                             \
  OPAL_MPI_COLLECTIVE_FORM(Upper##suffix, (blocking), OPAL_MPI_ARGUMENTS_##Upper##suffix, __VA_ARGS__)                \
  OPAL_MPI_COLLECTIVE_FORM(I##lower##suffix, (nonblocking, request), OPAL_MPI_ARGUMENTS_##Upper##suffix, __VA_ARGS__) \
  OPAL_MPI_COLLECTIVE_FORM(Upper##_init##suffix, (persistent, request, info), OPAL_MPI_ARGUMENTS_##Upper##suffix,     \
                           __VA_ARGS__)

#define OPAL_MPI_COLLECTIVE(Upper, lower, ...)        \
  OPAL_MPI_COLLECTIVE_OF(Upper, lower, , __VA_ARGS__) \
  OPAL_MPI_COLLECTIVE_OF(Upper, lower, _c, __VA_ARGS__)
