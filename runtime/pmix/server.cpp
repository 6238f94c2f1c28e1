// SPDX-License-Identifier: Apache-2.0
#include "runtime/pmix/server.hpp"

#include <ifaddrs.h>
#include <pmix_server.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "opal/core/environment.hpp"
#include "runtime/pmix/status.hpp"
#include "runtime/pmix/upcalls.hpp"

namespace runtime::pmix {
namespace {

// Up to this many ranks libpmix's store `hash` starts faster; above, its store in shared memory answers faster.
constexpr unsigned kSmallJob = 16;

/// libpmix connects by IPv4 only, and takes the loopback interface where there is one.
bool has_ipv4() {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return true;
  bool found = false;
  for (const ifaddrs* each = all; each != nullptr; each = each->ifa_next) {
    found = found || (each->ifa_addr != nullptr && each->ifa_addr->sa_family == AF_INET);
  }
  ::freeifaddrs(all);
  return found;
}

void set_default(const char* name, const char* value) { ::setenv(name, value, 0); }

}  // namespace

Server::Server(std::unique_ptr<Core> core) noexcept : core_(std::move(core)) {}

Server::~Server() = default;

Result<std::unique_ptr<Server>> Server::start(event::Loop& loop, const JobDescription& job, ServerUser& user) {
  std::unique_ptr<Server> server{new Server{std::make_unique<Core>(loop, job, user)}};
  // By default fences of local ranks do not call the upcall, and libpmix counts a dead rank as arrived.
  set_default("PMIX_MCA_pmix_server_fence_localonly_opt", "0");
  // By default a lost connection is reported a second late, when other ranks have already failed because of it.
  set_default("PMIX_MCA_pmix_event_caching_window", "0");
  if (job.ranks <= kSmallJob) set_default("PMIX_MCA_gds", "hash");

  InfoList& settings = server->core_->settings;
  settings.add(PMIX_SERVER_NSPACE, job.job_id + "-server");
  settings.add_rank(PMIX_SERVER_RANK, job.own_host);
  settings.add(PMIX_HOSTNAME, job.hosts[job.own_host].name);
  settings.add(PMIX_SERVER_TMPDIR, job.session_directory);
  settings.add(PMIX_SYSTEM_TMPDIR, job.session_directory);
  settings.add(PMIX_SERVER_SHARE_TOPOLOGY, true);
  char source[] = "hwloc";
  const pmix_topology_t shared{source, job.topology};
  if (job.topology != nullptr) settings.load(PMIX_TOPOLOGY2, &shared, PMIX_TOPO);
  const auto begun =
      check(PMIx_server_init(upcalls(*server->core_), settings.data(), settings.size()), "PMIx_server_init");
  if (!begun && !has_ipv4()) {
    return Error{Errc::unreachable, 0,
                 "PMIx_server_init: no IPv4 address on the loopback interface (ip link set lo up)"};
  }
  OPAL_TRY(begun);
  hear_of_lost_connections();
  OPAL_TRY(server->register_ranks());
  return server;
}

Result<void> Server::register_ranks() {
  const JobDescription& job = core_->job;
  InfoList infos = job_infos(job);
  const std::vector<std::uint32_t>& local = job.hosts[job.own_host].ranks;
  const char* const name = job.job_id.c_str();
  // Without a callback, these functions of libpmix wait.
  OPAL_TRY(check(
      PMIx_server_register_nspace(name, static_cast<int>(local.size()), infos.data(), infos.size(), nullptr, nullptr),
      "PMIx_server_register_nspace"));
  OPAL_TRY(
      check(PMIx_server_setup_local_support(name, nullptr, 0, nullptr, nullptr), "PMIx_server_setup_local_support"));
  for (const std::uint32_t rank : local) {
    const pmix_proc_t client = core_->proc(rank);
    OPAL_TRY(check(PMIx_server_register_client(&client, ::getuid(), ::getgid(), nullptr, nullptr, nullptr),
                   "PMIx_server_register_client"));
  }
  return {};
}

Result<std::vector<std::pair<std::string, std::string>>> Server::variables(unsigned rank) {
  const pmix_proc_t client = core_->proc(rank);
  char** environment = nullptr;
  const pmix_status_t status = PMIx_server_setup_fork(&client, &environment);
  std::vector<std::pair<std::string, std::string>> result;
  for (char** entry = environment; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string text{*entry};
    const std::size_t equals = text.find('=');
    if (equals != std::string::npos) result.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  if (environment != nullptr) pmix_argv_free(environment);
  OPAL_TRY(check(status, "PMIx_server_setup_fork"));
  // Clients must use the same store as the server.
  if (const auto store = opal::environment("PMIX_MCA_gds")) result.emplace_back("PMIX_MCA_gds", *store);
  return result;
}

bool Server::is_initialized(unsigned rank) const { return core_->membership[rank] == Core::Membership::member; }

bool Server::has_joined(unsigned rank) const { return core_->membership[rank] != Core::Membership::outside; }

bool Server::has_initialized_ranks() const {
  const auto& membership = core_->membership;
  for (unsigned rank = 0; rank < membership.size(); ++rank) {
    if (membership[rank] == Core::Membership::member && core_->user.liveness(rank) == Liveness::alive) {
      return true;
    }
  }
  return false;
}

void Server::set_cluster(Cluster& cluster) { core_->cluster = &cluster; }

NameService& Server::names() noexcept { return core_->names; }

void Server::on_rank_ended() {
  const std::vector<event::Callback> waiting = std::exchange(core_->deferred, {});
  for (const event::Callback& answer : waiting) answer();
  end_modexes_of_ended_ranks();
}

void Server::announce_death(unsigned rank) {
  const pmix_proc_t dead = core_->proc(rank);
  InfoList infos;
  infos.add_proc(PMIX_EVENT_AFFECTED_PROC, dead);
  infos.add(PMIX_EVENT_NON_DEFAULT, true);
  notify_clients(PMIX_ERR_PROC_TERM_WO_SYNC, dead, PMIX_RANGE_NAMESPACE, std::move(infos));
}

void Server::announce_lost_host(std::size_t host) {
  const HostRanks& lost = core_->job.hosts.at(host);
  if (lost.ranks.empty()) return;
  InfoList infos;
  infos.add(PMIX_HOSTNAME, lost.name);
  infos.add(PMIX_NODEID, node_id(core_->job, host));
  infos.add(PMIX_EVENT_NON_DEFAULT, true);
  notify_clients(PMIX_EVENT_NODE_DOWN, core_->proc(lost.ranks.front()), PMIX_RANGE_NAMESPACE, std::move(infos));
  for (const std::uint32_t rank : lost.ranks) announce_death(rank);
}

void stand_in() noexcept {
  pmix_proc_t self;
  ::_exit(PMIx_Init(&self, nullptr, 0) == PMIX_SUCCESS ? 0 : 1);
}

void forget_outer_launcher() {
  for (const auto& [name, value] : opal::environment_with_prefix("PMIX_")) {
    if (!name.starts_with("PMIX_MCA_")) ::unsetenv(name.c_str());
  }
}

}  // namespace runtime::pmix
