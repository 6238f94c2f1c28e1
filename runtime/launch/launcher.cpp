// SPDX-License-Identifier: Apache-2.0
#include "runtime/launch/launcher.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <optional>
#include <system_error>

#include "opal/am/bootstrap/secret_choice.hpp"
#include "opal/am/config.hpp"
#include "opal/core/environment.hpp"
#include "opal/core/system/secret.hpp"
#include "opal/core/text.hpp"
#include "runtime/daemon/hub.hpp"
#include "runtime/daemon/input.hpp"
#include "runtime/daemon/tree/bootstrap.hpp"
#include "runtime/host/environment.hpp"
#include "runtime/host/local_host.hpp"
#include "runtime/host/messages.hpp"
#include "runtime/host/open_files.hpp"
#include "runtime/host/program.hpp"
#include "runtime/host/session.hpp"
#include "runtime/host/signals.hpp"
#include "runtime/launch/control.hpp"
#include "runtime/launch/hosts.hpp"
#include "runtime/launch/job.hpp"
#include "runtime/launch/quiescence.hpp"
#include "runtime/oob/daemon.hpp"
#include "runtime/options/options.hpp"
#include "runtime/pmix/server.hpp"
#include "runtime/variables.hpp"

namespace runtime::launch {
namespace {

constexpr int kCannotLaunch = 1;
constexpr int kUsageError = 2;
constexpr std::chrono::milliseconds kLongestFarewell{2'000};  // of the daemons, once nothing of the job is left

int refuse(const std::string& name, const std::string& why, int status = kCannotLaunch) {
  fmt::print(stderr, "{}: {}\n", name, why);
  return status;
}

std::string explain_not_found(const Program& program, const Options& options) {
  const std::string& name = options.command[0];
  std::string text = fmt::format("{}: {}", name, program.problem);
  if (program.status == 127 && name.find('/') == std::string::npos) {
    const std::string here = "./" + name;
    if (find_program(here, options.working_directory, "").status == 0) text += fmt::format(" (did you mean {}?)", here);
  }
  return text;
}

/// The text of the job's secret: what the user has put into a file, so that other jobs may have it too, or a fresh one.
Result<std::string> secret_text(const opal::config::Store& store) {
  OPAL_TRY_ASSIGN(const opal::am::Config config, store.load(opal::am::kGroup));
  OPAL_TRY_ASSIGN(std::optional<std::string> named, opal::am::named_secret_text(config.secret_file));
  return named ? *std::move(named) : opal::Secret::random_text();
}

/// The directory that ranks start in, also on other hosts.
std::string directory_of(const Options& options) {
  std::error_code ignored;
  const std::string here = std::filesystem::current_path(ignored).string();
  return options.working_directory.empty() ? here : (std::filesystem::path{here} / options.working_directory).string();
}

/// The hosts of the job with their ranks; this one comes first, with or without ranks.
std::vector<pmix::HostRanks> hosts_of_job(const Allocation& allocation, const Options& options) {
  auto placed = place_ranks(options.map, allocation.ranks, allocation.hosts);
  std::vector<pmix::HostRanks> hosts{{opal::host_name(), {}}};
  for (std::size_t i = 0; i < placed.size(); ++i) {
    if (allocation.hosts[i].name == hosts[0].name) {
      hosts[0].ranks = std::move(placed[i]);
    } else if (!placed[i].empty()) {
      hosts.push_back({allocation.hosts[i].name, std::move(placed[i])});
    }
  }
  return hosts;
}

/// `text` as one word of a shell.
std::string shell_word(std::string_view text) {
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string{"'\\''"} : std::string{c};
  return word + "'";
}

/// What starts a daemon on `host`.
std::vector<std::string> agent_command(const Options& options, bool slurm, const std::string& host) {
  std::vector<std::string> command = options.launch_agent;
  if (command.empty() && slurm) command = {"srun", "--mpi=none", "--overlap", "-N1", "-n1", "-w"};
  const bool by_ssh = command.empty();
  if (by_ssh) command = {"ssh", "-x", "-o", "BatchMode=yes", "--"};
  command.push_back(host);
  std::error_code ignored;
  const std::string path = std::filesystem::read_symlink("/proc/self/exe", ignored).replace_filename("opald").string();
  command.push_back(by_ssh ? shell_word(path) : path);  // ssh has a shell of the other host parse its words
  return command;
}

}  // namespace

/// A job from its plan on; everything here lives until the process ends.
class Launch {
 public:
  Launch(const std::string& name, const Options& options, event::Loop& loop, guard::Handle& guard, Session& session,
         Signals& signals, const opal::topology::Topology& topology)
      : name_(name),
        options_(options),
        loop_(loop),
        guard_(guard),
        session_(session),
        signals_(signals),
        topology_(topology) {}

  /// Runs the job; its exit status, or what prevents it.
  struct Ended {
    int status = 0;
    std::string problem;
  };
  Ended run(const Allocation& allocation, const Program& program, const Domains& domains, std::uint64_t open_files);

 private:
  Result<void> add_local_host(const Program& program, const Domains& domains, unsigned ranks, std::uint64_t open_files);
  void add_remote_hosts(bool slurm, const std::string& secret);
  Result<Fd> input_for(unsigned rank);
  Result<Fd> own_input();
  void distribute_input();

  const std::string& name_;
  const Options& options_;
  event::Loop& loop_;
  guard::Handle& guard_;
  Session& session_;
  Signals& signals_;
  const opal::topology::Topology& topology_;
  std::vector<pmix::HostRanks> hosts_;
  Variables shared_;
  std::unique_ptr<oob::Daemon> oob_;
  std::optional<Job> job_;
  std::optional<Quiescence> quiescence_;
  std::unique_ptr<Control> control_;
  std::optional<LocalHost> local_;
  std::optional<daemon::Hub> hub_;
  std::vector<std::unique_ptr<daemon::RemoteHost>> remotes_;
  std::function<void()> start_next_daemons_;  // of remotes_ in turn, as long as few enough are in flight
  std::size_t started_daemons_ = 0;
  std::size_t unsettled_daemons_ = 0;              // started, and neither come nor given up
  std::optional<daemon::InputSinks> local_input_;  // of ranks of this host, if it is distributed to them
  std::unique_ptr<daemon::InputFeeder> feeder_;
  std::map<std::size_t, std::size_t> receiver_of_;  // feeder_'s, of the other hosts that get input
};

/// The launcher's stdin, for a rank or the feeder to read; /dev/null when it has none.
Result<Fd> Launch::own_input() {
  if (Fd ours{::fcntl(0, F_DUPFD_CLOEXEC, 3)}) return ours;
  return open_null();
}

Result<Fd> Launch::input_for(unsigned rank) {
  if (!options_.input.reaches(rank)) return open_null();
  return local_input_ ? local_input_->open() : own_input();
}

/// Stdin for ranks that are not handed the descriptor itself: of a terminal only what is typed while the launcher is in
/// its foreground.
void Launch::distribute_input() {
  std::vector<daemon::InputFeeder::Receiver> receivers;
  const auto reached = [this](std::size_t host) {
    return std::ranges::count_if(hosts_[host].ranks,
                                 [this](std::uint32_t rank) { return options_.input.reaches(rank); });
  };
  const bool is_shared = options_.input.kind == InputTarget::Kind::all || ::isatty(0) == 1;
  if (const auto count = reached(0); count != 0 && is_shared) {
    local_input_.emplace(
        loop_, static_cast<std::size_t>(count), [this](std::uint64_t bytes) { feeder_->credit(0, bytes); },
        [this] { feeder_->drop(0); });
    receivers.emplace_back([this](const std::string& text) { local_input_->add(text); });
  }
  for (std::size_t host = 1; host < hosts_.size(); ++host) {
    daemon::RemoteHost& remote = *remotes_[host - 1];
    if (reached(host) == 0) continue;
    receiver_of_[host] = receivers.size();
    remote.on_input_taken = [this, index = receivers.size()](std::uint64_t bytes) { feeder_->credit(index, bytes); };
    receivers.emplace_back([&remote](const std::string& text) { remote.send(daemon::Input{text}); });
  }
  if (receivers.empty()) return;
  auto input = own_input();
  if (!input) job_->say(fmt::format("no stdin for ranks: {}", opal::to_string(input.error())));
  // Without an input the ranks read its end.
  feeder_ = std::make_unique<daemon::InputFeeder>(loop_, input ? std::move(*input) : Fd{}, std::move(receivers));
  feeder_->start();
}

Result<void> Launch::add_local_host(const Program& program, const Domains& domains, unsigned ranks,
                                    std::uint64_t open_files) {
  const auto own_ranks = static_cast<unsigned>(hosts_[0].ranks.size());
  LocalPlan plan{.job = {.job_id = session_.name(),
                         .hosts = hosts_,
                         .own_host = 0,
                         .session_directory = session_.directory(),
                         .working_directory = directory_of(options_),
                         .ranks = ranks,
                         .topology = topology_.native(),
                         .cpus = bind_ranks(options_.map, options_.bind, own_ranks, domains)},
                 .path = program.path,
                 .arguments = options_.command,
                 .working_directory = options_.working_directory,
                 .shared = shared_,
                 .open_files = open_files,
                 .report_bindings = options_.report_bindings};
  LocalResources resources{
      .input = [this](unsigned rank) { return input_for(rank); },
      .output = [this](unsigned rank,
                       stdio::Channel channel) { return job_->output().open(static_cast<int>(rank), channel); },
      .drain = [] {}};
  local_.emplace(loop_, guard_, std::move(plan), std::move(resources), job_->observer_of(0));
  job_->add(*local_);
  return local_->open();
}

void Launch::add_remote_hosts(bool slurm, const std::string& secret) {
  if (hosts_.size() == 1) return;
  hub_.emplace(loop_, *oob_, *local_->server(), session_.name(), hosts_, options_.radix, options_.timeouts);
  local_->server()->set_cluster(*hub_);
  daemon::Launch launch{.hosts = hosts_,
                        .arguments = options_.command,
                        .environment = forwarded_variables(),
                        .working_directory = directory_of(options_),
                        .map = options_.map,
                        .bind = options_.bind,
                        .report_bindings = options_.report_bindings,
                        .input = options_.input};
  append(launch.environment, options_.environment);
  daemon::Bootstrap bootstrap{.job_id = session_.name(),
                              .host = 0,
                              .launcher = std::string{oob::as_text(oob_->address())},
                              .secret = secret,
                              .silence_ms = static_cast<std::uint64_t>(options_.timeouts.silence.count()),
                              .start_ms = static_cast<std::uint64_t>(options_.timeouts.start.count()),
                              .settings = options_.settings};
  start_next_daemons_ = [this, slurm, bootstrap]() mutable {
    for (; job_->goes_on() && unsettled_daemons_ < options_.agents && started_daemons_ < remotes_.size();
         ++started_daemons_) {
      daemon::RemoteHost& remote = *remotes_[started_daemons_];
      if (remote.is_lost()) continue;
      ++unsettled_daemons_;
      bootstrap.host = static_cast<std::uint32_t>(started_daemons_ + 1);
      remote.start_daemon(agent_command(options_, slurm, remote.name()), daemon::to_line(bootstrap));
    }
  };
  for (std::size_t host = 1; host < hosts_.size(); ++host) {
    remotes_.push_back(std::make_unique<daemon::RemoteHost>(
        loop_, hosts_[host].name, options_.timeouts, job_->output(), job_->observer_of(host),
        daemon::RemoteHost::Hooks{
            .send = [this, host](daemon::Kind kind,
                                 std::string content) { return hub_->send(host, kind, std::move(content)); },
            .on_lost =
                [this, host](int status, const std::string& why) {
                  if (const auto input = receiver_of_.find(host); feeder_ && input != receiver_of_.end()) {
                    feeder_->drop(input->second);
                  }
                  job_->on_lost(host, status, why);
                },
            .expel = [this, host] { hub_->lose(host); },
            .on_settled =
                [this] {
                  --unsettled_daemons_;
                  start_next_daemons_();
                }}));
    daemon::RemoteHost& remote = *remotes_.back();
    remote.set_launch(launch, hosts_[host].ranks);
    hub_->add(host, remote);
    job_->add(remote);
  }
  start_next_daemons_();
  job_->output().on_drained = [this] {
    for (const auto& remote : remotes_) remote->give_credit();
  };
}

Launch::Ended Launch::run(const Allocation& allocation, const Program& program, const Domains& domains,
                          std::uint64_t open_files) {
  const opal::config::Store store = store_with(options_.settings);
  const auto text = secret_text(store);
  if (!text) return {0, fmt::format("am_secret_file: {}", opal::to_string(text.error()))};
  const auto secret = opal::Secret::from_text(*text);
  if (!secret) return {0, fmt::format("am_secret_file: {}", opal::to_string(secret.error()))};
  const auto secret_file = session_.keep_secret(*text);
  if (!secret_file) return {0, opal::to_string(secret_file.error())};

  hosts_ = hosts_of_job(allocation, options_);
  pmix::forget_outer_launcher();
  Options options = options_;
  shared_ = job_variables(options_, {session_.name(), session_.name(), *secret_file});
  if (hosts_.size() > 1) {
    auto oob = oob::Daemon::open(loop_, store, *secret,
                                 {.say = [this](const std::string& line) { job_->say(line); },
                                  .on_message =
                                      [this](opal::am::Endpoint& from, oob::Topic topic, std::string content) {
                                        if (hub_) hub_->on_message(from, topic, std::move(content));
                                      },
                                  .on_lost =
                                      [this](opal::am::Endpoint& peer, const Error& why) {
                                        if (hub_) hub_->on_lost(peer, why);
                                      }});
    if (!oob) return {0, fmt::format("daemons could not reach this host: {}", opal::to_string(oob.error()))};
    oob_ = std::move(*oob);
  }
  quiescence_.emplace(loop_, allocation.ranks,
                      [this](const std::string& request) { local_->server()->ask_for_checkpoint(request); });
  if (auto control = Control::open(loop_, session_.directory(), *quiescence_)) {
    control_ = std::move(*control);
  } else {
    options.warnings.push_back(fmt::format("no --quiesce of this job: {}", opal::to_string(control.error())));
  }
  job_.emplace(loop_, name_, allocation.ranks, std::move(options), [this] {
    if (oob_) oob_->catch_up();
  });
  job_->may_stop = [this] { return !hub_ || hub_->settled(); };
  job_->on_continued = [this] {
    if (feeder_) feeder_->recheck();
  };
  job_->on_checkpoint = [this](const Checkpoint& said) { quiescence_->on_answer(said.rank, said.text); };
  job_->on_ended = [this](unsigned rank) {
    local_->server()->names().end(rank);
    quiescence_->on_ended(rank);
    if (hub_) hub_->end(rank);
  };
  if (const auto started = add_local_host(program, domains, allocation.ranks, open_files); !started) {
    return {0, opal::to_string(started.error())};
  }
  // Of a rank of this host: both outputs and libpmix's connection; the input with --stdin all.  Of every rank: files.
  const std::size_t own = hosts_[0].ranks.size();
  const std::size_t files = options_.output_directory.empty() ? 0 : options_.merge_stderr ? 1 : 2;
  const std::size_t each = 3U + (options_.input.kind == InputTarget::Kind::all ? 1 : 0);
  if (std::string problem =
          check_open_files(files == 0 ? own : allocation.ranks, own * each + allocation.ranks * files);
      !problem.empty()) {
    return {0, std::move(problem)};
  }
  if (options_.display_map) {
    const std::string map = describe(allocation.hosts, place_ranks(options_.map, allocation.ranks, allocation.hosts));
    for (const std::string_view line : opal::split(opal::trimmed(map), '\n')) job_->say(std::string{line});
  }
  add_remote_hosts(allocation.slurm, *text);
  distribute_input();
  signals_.deliver(loop_, [this](int signo) { job_->on_signal(signo); });
  const int status = job_->run();
  if (hub_) hub_->finish(kLongestFarewell);
  return {status, {}};
}

int launch(const std::string& name, const Options& options, guard::CommandLine command_line) {
  const std::string search_path = opal::environment("PATH").value_or("/usr/bin:/bin");
  if (!options.working_directory.empty() && ::access(options.working_directory.c_str(), X_OK) != 0) {
    return refuse(name, fmt::format("--wdir {}: no such directory, or not accessible", options.working_directory));
  }
  if (const std::string wrong = check_settings(options); !wrong.empty()) return refuse(name, wrong, kUsageError);
  const Program program = find_program(options.command[0], options.working_directory, search_path);
  if (program.status != 0) return refuse(name, explain_not_found(program, options), program.status);

  Session session = Session::plan();
  auto guard = guard::Handle::start(session.directory(), command_line);
  if (!guard) return refuse(name, opal::to_string(guard.error()));
  const auto refuse_now = [&](const std::string& why) {
    guard->quit();
    session.remove();
    return refuse(name, why);
  };
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // should the process guard die, its descendants become ours
  auto signals = Signals::block();
  if (!signals) return refuse_now(opal::to_string(signals.error()));
  const std::uint64_t open_files = raise_open_files();

  if (std::string problem = check_platform(); !problem.empty()) return refuse_now(problem);
  const auto topology = discover_host();
  if (!topology) return refuse_now(opal::to_string(topology.error()));
  const Domains domains = usable_domains(*topology);
  const Allocation allocation = find_hosts(options, static_cast<unsigned>(domains[Level::core].size()));
  if (!allocation.problem.empty()) return refuse_now(allocation.problem);

  if (options.input.kind == InputTarget::Kind::rank && options.input.rank >= allocation.ranks) {
    return refuse_now(
        fmt::format("--stdin {}: the job has {} only", options.input.rank, count_of_ranks(allocation.ranks)));
  }

  sweep_stale_sessions();
  if (auto created = session.create(); !created) {
    return refuse_now(fmt::format("{}: {}", session.directory(), opal::to_string(created.error())));
  }
  auto loop = event::Loop::create();
  if (!loop) return refuse_now(opal::to_string(loop.error()));
  Launch launch{name, options, **loop, *guard, session, *signals, *topology};
  Launch::Ended ended;
  try {
    ended = launch.run(allocation, program, domains, open_files);
  } catch (const std::system_error& error) {  // before the first rank: those that write the outputs
    ended.problem = fmt::format(
        "cannot make a thread: {}; raise the limits of processes (ulimit -u, pids of the cgroup) "
        "and memory",
        error.what());
  }
  if (!ended.problem.empty()) return refuse_now(ended.problem);
  session.remove();
  guard->quit();
  // libpmix's threads and a writer that is stuck on a dead terminal may still run: nothing is destroyed under them.
  ::_exit(ended.status);
}

}  // namespace runtime::launch
