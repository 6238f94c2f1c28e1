// SPDX-License-Identifier: Apache-2.0
// runtime/pmix/upcalls.hpp — the functions libpmix calls when clients want something, as its table of C functions.
// They run in libpmix's thread: each copies its arguments, posts to the loop and returns; the loop answers, by way of
// in_libpmix_thread().
#pragma once
#include <pmix_server.h>
#include <atomic>

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "runtime/event/loop.hpp"
#include "runtime/pmix/cluster.hpp"
#include "runtime/pmix/info_list.hpp"
#include "runtime/pmix/name_service.hpp"
#include "runtime/pmix/server.hpp"

namespace runtime::pmix {

/// What the upcalls work on, in the loop's thread.
struct Core {
  enum class Membership : std::uint8_t { outside, member, left };

  Core(event::Loop& event_loop, JobDescription description, Host& its_host)
      : loop(event_loop),
        job(std::move(description)),
        membership(job.ranks),
        host_of(job.ranks),
        host(its_host),
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
  /// Index = rank; of other hosts' ranks `outside`.  libpmix's thread sets `member`, the loop's `left`.
  std::vector<std::atomic<Membership>> membership;
  std::vector<std::uint32_t> host_of;                      ///< index = rank
  std::uint64_t contexts = 0;                              ///< ids of groups that this host has proposed
  std::map<std::string, std::vector<pmix_proc_t>> groups;  ///< that exist and have members on this host
  Cluster* cluster = nullptr;                              ///< null: no other hosts
  Host& host;
  NameService names;
  std::vector<event::Callback> deferred;  ///< answers that wait for a dying rank's end to be reported
};

/// Runs `call`, which answers a client, in libpmix's thread.  Most answers of libpmix 4.2 (op_cbfunc, lookup_cbfunc,
/// query_cbfunc of its pmix_server.c) change the queue of the client's connection without a lock, and its thread does,
/// too. A call that deregisters no resources does nothing but call back from that thread.
void in_libpmix_thread(std::function<void()> call);

/// Answers a client's request, the second one with `infos`, if there are any.
void reply(pmix_op_cbfunc_t answer, void* cookie, pmix_status_t status);
void reply(pmix_info_cbfunc_t answer, void* cookie, pmix_status_t status, std::unique_ptr<InfoList> infos = nullptr);

/// From libpmix's thread: `work` in the loop's.
void meet_later(std::function<void(Core& core)> work);

/// Answers when all `members`, wherever they are, have arrived at `what`, with the data of all their hosts behind each
/// other.  Those of this host have; but libpmix counts a rank whose connection broke as arrived, which it did not.
void join_fence(const std::string& what, const std::vector<pmix_proc_t>& members, std::string data,
                Cluster::Data answer);

/// From now on Host::on_disconnected is called.
void hear_of_lost_connections();

/// The upcall for groups.
pmix_status_t group(pmix_group_operation_t operation, char* name, const pmix_proc_t* procs, size_t nprocs,
                    const pmix_info_t* directives, size_t ndirectives, pmix_info_cbfunc_t answer, void* cookie);

/// The upcall for questions about the job: what is known here without asking other hosts.
pmix_status_t query(pmix_proc_t* asker, pmix_query_t* queries, size_t nqueries, pmix_info_cbfunc_t answer,
                    void* cookie);

/// Makes questions safe for libpmix 4.2.2, which looks at them before the upcall: a rank without a job's name, on which
/// it crashes, is one of `job`.  PMIX_ERR_BAD_PARAM for what it would crash on, too, and makes no sense.
pmix_status_t make_safe(std::span<pmix_query_t> queries, const std::string& job);

/// The job's name; from any thread, when the server has been started.
const std::string& job_name() noexcept;

/// Asks libpmix what `rank` of this host has committed.
void local_modex(const Core& core, unsigned rank, Cluster::Data answer);

/// Tells the clients of this host; `source` is the process that it is about.
void notify_clients(pmix_status_t event, const pmix_proc_t& source, pmix_data_range_t range, InfoList about);

/// Tells the clients of all hosts what no rank has raised.
void raise_everywhere(const Core& core, pmix_status_t event, InfoList about);

/// An event of another host's client, for ours.
void deliver(const Core& core, const PackedEvent& event);

/// libpmix's table.  `core` is used by every later upcall of this process and must live as long as it.
pmix_server_module_t* upcalls(Core& core) noexcept;

}  // namespace runtime::pmix
