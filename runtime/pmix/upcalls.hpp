// SPDX-License-Identifier: Apache-2.0
// runtime/pmix/upcalls.hpp — the upcalls: the C functions that libpmix calls for requests of clients.
// Threads: upcalls run in libpmix's thread; each copies its arguments, posts to the loop and returns.  The loop serves
// the request and answers through in_libpmix_thread().  The other functions run in the loop's thread unless stated.
#pragma once
#include <pmix_server.h>
#include <atomic>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "runtime/event/loop.hpp"
#include "runtime/pmix/cluster.hpp"
#include "runtime/pmix/info_list.hpp"
#include "runtime/pmix/name_service.hpp"
#include "runtime/pmix/server.hpp"

namespace runtime::pmix {

/// The state of the Server.  Only the loop's thread uses it, except `membership`.
struct Core {
  enum class Membership : std::uint8_t { outside, member, left };

  Core(event::Loop& event_loop, JobDescription description, ServerUser& its_user)
      : loop(event_loop),
        job(std::move(description)),
        membership(job.ranks),
        host_of(job.ranks),
        user(its_user),
        names(event_loop) {
    for (std::uint32_t index = 0; index < job.hosts.size(); ++index) {
      for (const std::uint32_t rank : job.hosts[index].ranks) host_of.at(rank) = index;
    }
  }
  [[nodiscard]] pmix_proc_t proc(pmix_rank_t rank) const {
    pmix_proc_t proc;
    PMIX_LOAD_PROCID(&proc, job.job_id.c_str(), rank);
    return proc;
  }

  event::Loop& loop;
  const JobDescription job;
  /// By rank; `outside` for ranks of other hosts.  libpmix's thread sets `member`, the loop's thread sets `left`.
  std::vector<std::atomic<Membership>> membership;
  std::vector<std::uint32_t> host_of;  ///< by rank
  Cluster* cluster = nullptr;          ///< null: no other hosts
  ServerUser& user;
  InfoList settings;  ///< libpmix keeps pointers into what it was started with
  NameService names;
  struct Modex {
    unsigned rank;
    Cluster::Data answer;
  };
  std::map<std::uintptr_t, Modex> modexes;  ///< requests to libpmix for data of ranks of this host, by number
  std::uintptr_t last_modex = 0;            ///< the number of the last one
  std::vector<event::Callback> deferred;    ///< answers delayed until the end of a dying rank is reported
};

/// Answers the requests for data of ranks of this host that have ended without a commit; libpmix answers the others.
void end_modexes_of_ended_ranks();

/// Registers the handler that calls ServerUser::on_disconnected.
void hear_of_lost_connections();

/// Sends an event to the clients of this host.  `source`: the process that the event is about.
void notify_clients(pmix_status_t event, const pmix_proc_t& source, pmix_data_range_t range, InfoList about);

/// The table of upcalls for PMIx_server_init().  All later upcalls use `core`, which must live until the process ends.
pmix_server_module_t* upcalls(Core& core) noexcept;

}  // namespace runtime::pmix
