// SPDX-License-Identifier: Apache-2.0
#include "runtime/launch/launcher.hpp"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <optional>

#include "opal/am/config.hpp"
#include "opal/core/environment.hpp"
#include "opal/core/secret.hpp"
#include "runtime/launch/environment.hpp"
#include "runtime/launch/hosts.hpp"
#include "runtime/launch/job.hpp"
#include "runtime/launch/program.hpp"
#include "runtime/launch/session.hpp"
#include "runtime/launch/settings.hpp"
#include "runtime/launch/signals.hpp"
#include "runtime/oob/daemon.hpp"
#include "runtime/pmix/server.hpp"
#include "runtime/variables.hpp"

namespace runtime::launch {
namespace {

constexpr int kCannotLaunch = 1;
constexpr int kUsageError = 2;

int refuse(const std::string& name, const std::string& why, int status = kCannotLaunch) {
  fmt::print(stderr, "{}: {}\n", name, why);
  return status;
}

/// Three descriptors per rank and one per client: as many as the system lets us have.  Returns the limit before.
std::uint64_t raise_open_files() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  const std::uint64_t before = limit.rlim_cur;
  limit.rlim_cur = limit.rlim_max;
  return ::setrlimit(RLIMIT_NOFILE, &limit) == 0 ? before : 0;
}

std::string explain_not_found(const Program& program, const Options& options) {
  std::string text = fmt::format("{}: {}", options.program, program.problem);
  if (program.status == 127 && options.program.find('/') == std::string::npos) {
    const std::string here = "./" + options.program;
    if (find_program(here, options.working_directory, "").status == 0) text += fmt::format(" (did you mean {}?)", here);
  }
  return text;
}

/// The launcher's own Context is set up as those of the ranks.
opal::config::Store settings_for_daemon(const Options& options) {
  opal::config::Store store = opal::config::Store::from_environment();
  const opal::config::Store ours = launcher_settings(options);
  for (const opal::config::Setting& setting : ours.settings()) store.add(setting);
  return store;
}

/// The text of the job's secret: what the user has put into a file, so that other jobs may have it too, or a fresh one.
Result<std::string> secret_text(const opal::config::Store& store) {
  OPAL_TRY_ASSIGN(const opal::am::Config config, store.load(opal::am::kGroup));
  if (config.secret_file.empty()) return opal::Secret::random_text();
  return opal::Secret::read_file(config.secret_file);
}

void append(Variables& variables, const Variables& more) {
  variables.insert(variables.end(), more.begin(), more.end());
}

}  // namespace

int launch(const std::string& name, const Options& options, warden::CommandLine command_line) {
  const std::string search_path = opal::environment("PATH").value_or("/usr/bin:/bin");
  if (!options.working_directory.empty() && ::access(options.working_directory.c_str(), X_OK) != 0) {
    return refuse(name, fmt::format("--wdir {}: no such directory, or not accessible", options.working_directory));
  }
  if (const std::string wrong = check_settings(options); !wrong.empty()) return refuse(name, wrong, kUsageError);
  const Program program = find_program(options.program, options.working_directory, search_path);
  if (program.status != 0) return refuse(name, explain_not_found(program, options), program.status);

  Session session = Session::plan();
  auto warden = warden::Handle::start(session.directory(), command_line);
  if (!warden) return refuse(name, opal::to_string(warden.error()));
  const auto refuse_now = [&](const std::string& why) {
    warden->quit();
    session.remove();
    return refuse(name, why);
  };
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // should the warden die, its descendants become ours
  auto signals = Signals::block();
  if (!signals) return refuse_now(opal::to_string(signals.error()));
  const std::uint64_t open_files = raise_open_files();

  const auto topology = opal::topology::Topology::open();
  if (!topology) return refuse_now(opal::to_string(topology.error()));
  const std::vector<Cpus> cores = usable_cores(*topology);
  const Slots slots = count_ranks(options, static_cast<unsigned>(cores.size()));
  if (slots.ranks == 0) return refuse_now(slots.problem);

  sweep_stale_sessions();
  if (auto created = session.create(); !created) {
    return refuse_now(fmt::format("{}: {}", session.directory(), opal::to_string(created.error())));
  }
  const opal::config::Store store = settings_for_daemon(options);
  const auto text = secret_text(store);
  if (!text) return refuse_now(fmt::format("am_secret_file: {}", opal::to_string(text.error())));
  const auto secret = opal::Secret::from_text(*text);
  if (!secret) return refuse_now(fmt::format("am_secret_file: {}", opal::to_string(secret.error())));
  const auto secret_file = session.keep_secret(*text);
  if (!secret_file) return refuse_now(opal::to_string(secret_file.error()));

  std::error_code ignored;
  auto loop = event::Loop::create();
  if (!loop) return refuse_now(opal::to_string(loop.error()));

  std::optional<Job> job;  // made after the server, whose upcalls come only when ranks run
  const std::vector<Cpus> cpus = bind_ranks(options.bind, slots.ranks, cores);
  pmix::forget_outer_launcher();
  auto server = pmix::Server::start(
      **loop,
      {.job_id = session.job_id(),
       .host = opal::host_name(),
       .session_directory = session.directory(),
       .working_directory = options.working_directory.empty() ? std::filesystem::current_path(ignored).string()
                                                              : options.working_directory,
       .ranks = slots.ranks,
       .cpus = cpus},
      {.on_abort = [&](int rank, int status, const std::string& text) { job->on_abort(rank, status, text); },
       .liveness = [&](int rank) { return job->liveness(rank); }});
  if (!server) return refuse_now(opal::to_string(server.error()));

  JobPlan plan{.name = name,
               .job_id = session.job_id(),
               .host = opal::host_name(),
               .ranks = slots.ranks,
               .path = program.path,
               .arguments = options.arguments,
               .working_directory = options.working_directory,
               .cpus = cpus,
               .open_files = open_files,
               .options = options};
  plan.arguments.insert(plan.arguments.begin(), options.program);
  const auto daemon = oob::Daemon::open(
      **loop, store, *secret, session.job_id(), slots.ranks,
      {.on_abort = [&](int rank, int status, const std::string& text) { job->on_abort(rank, status, text); },
       .say = [&](const std::string& line) { job->say(line); }});
  Variables shared = job_variables(options, session.job_id(), *secret_file);
  if (daemon) {
    shared.emplace_back(kDaemonVariable, (*daemon)->address_text());
  } else {
    plan.options.warnings.push_back(
        fmt::format("ranks cannot reach the launcher by active messages: {}", opal::to_string(daemon.error())));
  }
  const RankEnvironment environment = [&](int rank) -> Result<std::vector<std::string>> {
    Variables variables = shared;
    append(variables, rank_variables(rank, slots.ranks));
    OPAL_TRY_ASSIGN(const Variables of_server, (*server)->variables(rank));
    append(variables, of_server);
    return to_environment(variables);
  };
  job.emplace(**loop, *warden, std::move(plan), environment,
              RankObserver{.on_failed = [&](int rank) { (*server)->announce_death(rank); },
                           .on_ended = [&](int) { (*server)->on_rank_ended(); },
                           .left_properly = [&](int rank) { return (*server)->left_properly(rank); },
                           .on_emptied =
                               [&] {
                                 if (daemon) (*daemon)->finish();
                               }});
  signals->deliver(**loop, [&job](int signo) { job->on_signal(signo); });
  const int status = job->run();
  session.remove();
  warden->quit();
  // libpmix's threads and a writer that is stuck on a dead terminal may still run: nothing is destroyed under them.
  ::_exit(status);
}

}  // namespace runtime::launch
