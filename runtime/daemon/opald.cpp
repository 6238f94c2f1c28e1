// SPDX-License-Identifier: Apache-2.0
#include "runtime/daemon/opald.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <set>

#include "opal/core/environment.hpp"
#include "opal/core/log.hpp"
#include "opal/core/system/secret.hpp"
#include "runtime/daemon/input.hpp"
#include "runtime/daemon/output_forwarder.hpp"
#include "runtime/daemon/uplink.hpp"
#include "runtime/host/environment.hpp"
#include "runtime/host/local_host.hpp"
#include "runtime/host/open_files.hpp"
#include "runtime/host/program.hpp"
#include "runtime/host/session.hpp"
#include "runtime/host/signals.hpp"
#include "runtime/options/options.hpp"
#include "runtime/variables.hpp"

namespace runtime::daemon {
namespace {

// From launcher_gone() to Emptied, which a process stuck in the kernel delays.
constexpr std::chrono::milliseconds kLongestEnd{10'000};
constexpr std::chrono::milliseconds kLeaveTimeout{2'000};
constexpr std::chrono::milliseconds kDyingRound{5};
constexpr unsigned kDyingRounds = 1'000;  // a rank that is stuck in its exit delays reports by 5 s at most
constexpr int kCannotServe = 1;
constexpr std::size_t kMostEarlyFrames = 1024;  // a child sends one, and then waits until it is attached
constexpr std::size_t kDescriptorsOfARank = 4;  // input, both outputs, libpmix's connection

/// Prints the problem and exits; for errors before the daemon can send messages to the launcher.
[[noreturn]] void give_up(const std::string& why) {
  fmt::print(stderr, "opald on {}: {}\n", opal::host_name(), why);
  std::fflush(stderr);
  ::_exit(kCannotServe);
}

class Opald final : private TreeUser {
 public:
  Opald(const Bootstrap& bootstrap, event::Loop& loop, guard::Handle& guard, launch::Session& session,
        opal::topology::Topology topology, std::string secret_file)
      : bootstrap_(bootstrap),
        timeouts_{std::chrono::milliseconds{bootstrap.silence_ms}, std::chrono::milliseconds{bootstrap.start_ms}},
        loop_(loop),
        guard_(guard),
        session_(session),
        topology_(std::move(topology)),
        secret_file_(std::move(secret_file)),
        forwarder_(loop, [this](unsigned rank, stdio::Channel channel, std::string text) {
          uplink_->send(Output{rank, channel == stdio::Channel::err, std::move(text)});
        }) {}

  [[noreturn]] void run(const opal::Secret& secret);

 private:
  // TreeUser
  void on_message(overlay::Id, Kind kind, ByteSpan content) override { handle(kind, content); }
  void on_lost(overlay::Id member, overlay::Loss) override {
    if (pmix::Server* const ours = server()) ours->announce_lost_host(member);
    uplink_->on_lost(member);
  }
  void on_out(const char* why) override { launcher_gone(why); }

  [[nodiscard]] pmix::Server* server() const noexcept { return host_ ? host_->server() : nullptr; }
  void on_message(opal::am::Endpoint& from, oob::Topic topic, std::string message);
  void on_closed(opal::am::Endpoint& peer, const Error& why);
  void take_place(const Place& place);
  void leave();
  void leave_if_done();
  void handle(Kind kind, ByteSpan content);
  void launch(const Launch& launch);
  Result<void> start(const Launch& launch, const std::vector<std::uint32_t>& ranks);
  void refuse_all(const std::vector<std::uint32_t>& ranks, int status, const std::string& why);
  void launcher_gone(const std::string& why);
  void stay_alive();
  void tell(const launch::Report& report) { uplink_->send(report); }
  void observe(const launch::Report& news);
  void report();
  void end(int status);

  const Bootstrap& bootstrap_;
  const Timeouts timeouts_;
  event::Loop& loop_;
  guard::Handle& guard_;
  launch::Session& session_;
  const opal::topology::Topology topology_;
  const std::string secret_file_;
  OutputForwarder forwarder_;
  std::optional<InputSinks> input_;  // of those of our ranks that get the launcher's stdin
  std::unique_ptr<oob::Daemon> oob_;
  opal::am::Endpoint* launcher_ = nullptr;                                 // used until take_place()
  std::vector<std::pair<opal::am::Endpoint*, std::string>> early_frames_;  // of children that have their places already
  std::optional<TreeMember> tree_;
  std::optional<Uplink> uplink_;  // as tree_
  std::optional<launch::LocalHost> host_;
  bool alone_ = false;    // the launcher is out of reach
  bool leaving_ = false;  // Quit has come
  event::Timer place_;    // until the Place must have come
  event::Timer alive_;
  std::set<std::uint32_t> aborted_;    // ranks that have asked for the end of the job
  std::vector<launch::Abort> aborts_;  // not yet sent, because another rank is dying
  bool inquired_ = false;              // the launcher waits for the ends of dying ranks
  unsigned report_rounds_ = 0;
  event::Timer report_;
  event::Timer end_;
};

void Opald::run(const opal::Secret& secret) {
  oob::DaemonHost hooks{.say = [this](const std::string& line) {
    if (uplink_) tell(launch::Say{line});
  }};
  hooks.on_message = [this](opal::am::Endpoint& from, oob::Topic topic, std::string content) {
    on_message(from, topic, std::move(content));
  };
  hooks.on_lost = [this](opal::am::Endpoint& peer, const Error& why) { on_closed(peer, why); };
  auto oob = oob::Daemon::open(loop_, launch::store_with(bootstrap_.settings), secret, std::move(hooks));
  if (!oob) give_up(opal::to_string(oob.error()));
  oob_ = std::move(*oob);
  const auto launcher = oob_->connect(oob::as_bytes(bootstrap_.launcher));
  if (!launcher) give_up(fmt::format("cannot connect to the launcher: {}", opal::to_string(launcher.error())));
  launcher_ = *launcher;
  const Join join{.host = bootstrap_.host,
                  .pid = ::getpid(),
                  .job_id = bootstrap_.job_id,
                  .address = std::string{oob::as_text(oob_->address())}};
  if (const auto sent = oob_->send(*launcher_, topic(kKind<Join>), pack(join)); !sent) {
    give_up(fmt::format("cannot join the job: {}", opal::to_string(sent.error())));
  }
  place_ = loop_.after(timeouts_.place(), [this] {
    launcher_gone(fmt::format("nothing heard of it for {} s", seconds(timeouts_.place())));
  });
  stay_alive();
  loop_.run();
  ::_exit(kCannotServe);
}

/// Restarts the timeout of the process guard regularly.  If this process is stopped, the timeout ends, and the process
/// guard kills this process and the ranks.
void Opald::stay_alive() {
  (void)guard_.alive();
  alive_ = loop_.after(timeouts_.silence / 8, [this] { stay_alive(); });
}

/// Runs inside the progress of the OOB channel.
void Opald::on_message(opal::am::Endpoint& from, oob::Topic topic, std::string message) {
  const ByteSpan content = oob::as_bytes(message);
  switch (static_cast<Kind>(topic)) {
    case kKind<Frame>:
      if (tree_) return tree_->on_frame(from, std::move(message));
      if (early_frames_.size() < kMostEarlyFrames) early_frames_.emplace_back(&from, std::move(message));
      return;
    case kKind<Place>:
      if (auto place = unpack<Place>(content); place && &from == launcher_) {
        loop_.post([this, place = std::move(*place)] { take_place(place); });
      }
      return;
    case kKind<TurnedAway>:
      // The launcher prints the reason; this daemon only ends.
      if (const auto message = unpack<TurnedAway>(content)) {
        loop_.post([this, why = message->why] { launcher_gone(why); });
      }
      return;
    case kKind<Modex>:
    case kKind<ModexResult>:
      if (uplink_) uplink_->handle(static_cast<Kind>(topic), content, server(), &from);
      return;
    default: return;
  }
}

void Opald::on_closed(opal::am::Endpoint& peer, const Error& why) {
  if (uplink_) uplink_->on_closed(peer);
  if (tree_) return tree_->on_closed(peer);
  std::erase_if(early_frames_, [&](const auto& each) { return each.first == &peer; });
  if (&peer == launcher_) launcher_gone(opal::to_string(why));
}

void Opald::take_place(const Place& place) {
  const overlay::Id self = bootstrap_.host;
  if (tree_ || alone_ || self >= place.count || place.radix == 0) return;
  place_ = {};
  std::map<overlay::Id, std::string> above{{0, bootstrap_.launcher}};
  for (const auto& [id, address] : place.above) above.emplace(id, address);
  TreeUser& user = *this;
  tree_.emplace(loop_, *oob_, tree_options(self, place.count, place.radix, timeouts_), user, std::move(above));
  uplink_.emplace(*oob_, *tree_, self);
  tree_->on_disconnect = [this](opal::am::Endpoint& endpoint) { uplink_->on_closed(endpoint); };
  tree_->after_service = [this] { leave_if_done(); };
  for (auto& [from, frame] : std::exchange(early_frames_, {})) tree_->on_frame(*from, std::move(frame));
  uplink_->send(Ready{});
  // Only the children of the root keep a connection to the launcher.
  if (tree_->node().parent() != 0) oob_->disconnect(*std::exchange(launcher_, nullptr));
}

/// Handles Quit.  The daemon ends when the daemons below it have acknowledged all messages, or after kLeaveTimeout.
void Opald::leave() {
  if (leaving_) return;
  leaving_ = true;
  end_ = loop_.after(kLeaveTimeout, [this] { end(0); });
}

void Opald::leave_if_done() {
  if (!leaving_) return;
  tree_->acknowledge();
  if (tree_->node().down_settled() && !tree_->has_unsent()) end(0);
}

void Opald::launcher_gone(const std::string& why) {
  if (alone_) return;
  alone_ = true;
  place_ = {};
  if (leaving_) return end(0);
  fmt::print(stderr, "opald on {}: the launcher is gone ({}); ending the ranks of this host\n", opal::host_name(), why);
  std::fflush(stderr);
  if (!host_) return end(kCannotServe);
  end_ = loop_.after(kLongestEnd, [this] { end(kCannotServe); });
  host_->kill_all();
}

void Opald::end(int status) {
  session_.remove();
  guard_.quit();
  ::_exit(status);  // libpmix's threads may still run: nothing is destroyed under them
}

void Opald::handle(Kind kind, ByteSpan content) {
  if (uplink_->handle(kind, content, server())) return;
  switch (kind) {
    case kKind<Launch>:
      if (const auto message = unpack<Launch>(content); message && !host_) launch(*message);
      return;
    case kKind<Signal>:
      if (const auto message = unpack<Signal>(content)) {
        if (host_) host_->signal(message->signo, message->ends_the_job);
        if (message->signo == SIGTSTP || message->signo == SIGCONT) tree_->on_root_stopped(message->signo == SIGTSTP);
      }
      return;
    case kKind<KillAll>: return host_ ? host_->kill_all() : tell(launch::Emptied{});
    case kKind<Inquire>: inquired_ = true; return report();
    case kKind<Death>:
      if (const auto message = unpack<Death>(content); message && host_) host_->announce_death(message->rank);
      return;
    case kKind<Ended>:
      if (const auto message = unpack<Ended>(content)) tree_->on_ranks_ended(message->ranks);
      return;
    case kKind<Credit>:
      if (const auto message = unpack<Credit>(content)) forwarder_.credit(message->bytes);
      return;
    case kKind<Unread>:
      if (const auto message = unpack<Unread>(content)) {
        forwarder_.drop(message->rank, message->to_stderr ? stdio::Channel::err : stdio::Channel::out);
      }
      return;
    case kKind<Input>:
      if (const auto message = unpack<Input>(content); message && input_) input_->add(message->text);
      return;
    case kKind<Quit>: return leave();
    default: return;
  }
}

void Opald::observe(const launch::Report& news) {
  if (const auto* const abort = std::get_if<launch::Abort>(&news)) {
    // The rank may have aborted because another rank is dying: report() sends the end of that one first.
    aborted_.insert(abort->rank);
    aborts_.push_back(*abort);
    return report();
  }
  if (std::holds_alternative<launch::Emptied>(news)) {
    if (alone_) return end(kCannotServe);
    oob_->catch_up();
  }
  tell(news);
}

/// Sends the delayed Abort and Answered reports when no rank is dying, except ranks that have aborted.
void Opald::report() {
  const std::vector<std::uint32_t> dying = host_ ? host_->dying_ranks() : std::vector<std::uint32_t>{};
  const bool others = !std::ranges::all_of(dying, [this](auto rank) { return aborted_.contains(rank); });
  if (others && report_rounds_ < kDyingRounds) {
    ++report_rounds_;
    report_ = loop_.after(kDyingRound, [this] { report(); });
    return;
  }
  report_ = {};
  report_rounds_ = 0;
  for (const launch::Abort& abort : std::exchange(aborts_, {})) tell(abort);
  if (std::exchange(inquired_, false)) tell(launch::Answered{});
}

void Opald::launch(const Launch& launch) {
  if (bootstrap_.host >= launch.hosts.size() || !ProcessMap::valid(launch.hosts)) {
    tell(launch::Trouble{kCannotServe, "the launcher sent a garbled plan of the job"});
    return;
  }
  tree_->set_hosts(launch.hosts);
  const std::vector<std::uint32_t>& ranks = launch.hosts[bootstrap_.host].ranks;
  if (const auto started = start(launch, ranks); !started) {
    refuse_all(ranks, kCannotServe, opal::to_string(started.error()));
  }
}

void Opald::refuse_all(const std::vector<std::uint32_t>& ranks, int status, const std::string& why) {
  for (const std::uint32_t rank : ranks) tell(launch::Refused{rank, status, why});
}

Result<void> Opald::start(const Launch& launch, const std::vector<std::uint32_t>& ranks) {
  if (ranks.empty() || launch.arguments.empty()) return Error{Errc::protocol, 0, "opald: a launch of nothing"};
  launch::Options options;
  options.settings = bootstrap_.settings;
  options.environment = launch.environment;
  options.working_directory = launch.working_directory;
  launch::Variables shared = launch::job_variables(options, {bootstrap_.job_id, session_.name(), secret_file_});
  std::string search_path = "/usr/bin:/bin";
  for (const auto& [name, value] : shared) {
    if (name == "PATH") search_path = value;
  }
  const launch::Program program = launch::find_program(launch.arguments[0], launch.working_directory, search_path);
  if (program.status != 0) {
    refuse_all(ranks, program.status, fmt::format("{}: {}", launch.arguments[0], program.problem));
    return {};
  }
  unsigned total = 0;
  for (const pmix::HostRanks& host : launch.hosts) total += static_cast<unsigned>(host.ranks.size());
  const auto readers = std::ranges::count_if(ranks, [&](std::uint32_t rank) { return launch.input.reaches(rank); });
  if (readers != 0) {
    input_.emplace(loop_, static_cast<std::size_t>(readers),
                   [this](std::uint64_t bytes) { uplink_->send(InputTaken{bytes}); });
  }
  launch::LocalPlan plan{
      .job = {.job_id = bootstrap_.job_id,
              .hosts = launch.hosts,
              .own_host = bootstrap_.host,
              .session_directory = session_.directory(),
              .working_directory = launch.working_directory,
              .ranks = total,
              .topology = topology_.native(),
              .cpus = launch::bind_ranks(launch.map, launch.bind, static_cast<unsigned>(ranks.size()),
                                         launch::usable_domains(topology_))},
      .path = program.path,
      .arguments = launch.arguments,
      .working_directory = launch.working_directory,
      .shared = std::move(shared),
      .open_files = launch::raise_open_files(),
      .report_bindings = launch.report_bindings};
  launch::LocalResources resources{
      .input = [this, input = launch.input](
                   unsigned rank) { return input_ && input.reaches(rank) ? input_->open() : launch::open_null(); },
      .output = [this](unsigned rank, stdio::Channel channel) { return forwarder_.open(rank, channel); },
      .drain = [this] { forwarder_.drain(); }};
  pmix::forget_outer_launcher();
  host_.emplace(loop_, guard_, std::move(plan), std::move(resources),
                [this](const launch::Report& report) { observe(report); });
  if (const auto opened = host_->open(); !opened) {
    host_.reset();  // handle() passes messages to host_, which needs its server
    return opened.error();
  }
  host_->server()->set_cluster(*uplink_);
  if (const std::string problem = launch::check_open_files(ranks.size(), ranks.size() * kDescriptorsOfARank);
      !problem.empty()) {
    refuse_all(ranks, kCannotServe, problem);
    return {};
  }
  host_->start();
  return {};
}

}  // namespace

void serve(const Bootstrap& bootstrap, guard::CommandLine command_line) {
  // The tree handles peers out of reach and reports the consequences, so warnings of the transports are not shown.
  if (!opal::environment("OPAL_LOG")) opal::log::set_level(opal::log::Level::error);
  launch::Session session = launch::Session::plan();
  auto guard =
      guard::Handle::start(session.directory(), command_line, std::chrono::milliseconds{2 * bootstrap.silence_ms});
  if (!guard) give_up(opal::to_string(guard.error()));
  const auto end_with = [&](const std::string& why) {
    session.remove();
    guard->quit();
    give_up(why);
  };
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // if the process guard dies, this process becomes the parent of its descendants
  // Signals of a terminal or an agent are ignored: the launcher forwards its signals by messages.
  auto signals = launch::Signals::block();
  if (!signals) end_with(opal::to_string(signals.error()));
  launch::sweep_stale_sessions();
  const auto secret = opal::Secret::from_text(bootstrap.secret);
  if (!secret) end_with(opal::to_string(secret.error()));
  auto topology = launch::discover_host();
  if (!topology) end_with(opal::to_string(topology.error()));
  if (const auto created = session.create(); !created) {
    end_with(fmt::format("{}: {}", session.directory(), opal::to_string(created.error())));
  }
  auto secret_file = session.keep_secret(bootstrap.secret);
  if (!secret_file) end_with(opal::to_string(secret_file.error()));
  auto loop = event::Loop::create();
  if (!loop) end_with(opal::to_string(loop.error()));
  // Lives as long as the process.
  static Opald* daemon = new Opald{bootstrap, **loop, *guard, session, std::move(*topology), *secret_file};
  daemon->run(*secret);
}

}  // namespace runtime::daemon
