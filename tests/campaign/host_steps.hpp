// SPDX-License-Identifier: Apache-2.0
// tests/campaign/host_steps.hpp — the protocol steps of jobs on several hosts at which the fault campaign acts.
#pragma once
#include <array>

#include "tests/campaign/steps.hpp"

namespace opal::campaign {

/// When a daemon takes its step.
enum class Phase {
  running,  ///< its ranks are to start, or run
  ending,   ///< its ranks may have ended, and what they said may have been passed on
};

/// A step of the daemon of `host`: h1 is between the launcher and h2.
struct DaemonStep {
  Step step;
  const char* host = "h1";
  Phase phase = Phase::running;
};

constexpr Step step_of_daemon(const char* function, unsigned visit = 1, const char* program = "messages") {
  return {.object = kDaemon, .function = function, .program = program, .transports = kBoth, .visit = visit};
}
constexpr DaemonStep inner(const char* function, unsigned visit = 1) { return {step_of_daemon(function, visit)}; }
constexpr DaemonStep outer(const char* function, unsigned visit = 1) { return {step_of_daemon(function, visit), "h2"}; }
constexpr DaemonStep ending(const char* function, unsigned visit = 1) {
  return {step_of_daemon(function, visit), "h1", Phase::ending};
}
/// Rank 1, which is on h1, aborts the job.
constexpr DaemonStep aborting(const char* function, unsigned visit = 1) {
  return {step_of_daemon(function, visit, "aborted"), "h1", Phase::ending};
}

inline constexpr std::array kDaemonSteps{
    // Bootstrap.
    inner("runtime::daemon::serve"),
    inner("runtime::guard::Handle::start"),
    inner("runtime::launch::Session::create"),
    inner("runtime::launch::Session::keep_secret"),
    inner("runtime::oob::Daemon::open"),
    outer("runtime::oob::Daemon::connect"),
    // The tree.
    inner("runtime::daemon::Opald::take_place"),
    outer("runtime::daemon::Opald::take_place"),
    outer("runtime::overlay::Node::attach_to"),
    inner("runtime::overlay::Node::on_attached"),
    inner("runtime::overlay::Node::on_attach"),
    inner("runtime::overlay::Node::on_down"),
    inner("runtime::overlay::Node::pump_down", 2),
    inner("runtime::overlay::Node::on_up", 3),
    outer("runtime::overlay::Node::push_up", 3),
    // Launch.
    inner("runtime::daemon::ProcessMap::valid"),
    outer("runtime::pmix::Server::start"),
    inner("runtime::launch::LocalHost::start_more"),
    inner("runtime::guard::Handle::spawn"),
    inner("runtime::launch::LocalHost::handle"),
    // Fences.
    inner("runtime::daemon::TreeMember::fence"),
    outer("runtime::daemon::TreeMember::fence"),
    inner("runtime::overlay::Node::on_contribution", 2),
    inner("runtime::overlay::Node::on_release"),
    outer("runtime::daemon::TreeMember::on_release"),
    // Input and output.
    inner("runtime::daemon::InputSinks::add"),
    outer("runtime::daemon::InputSink::open"),
    inner("runtime::daemon::OutputForwarder::read_some"),
    ending("runtime::daemon::OutputForwarder::credit"),
    // The end of the job.
    ending("runtime::launch::LocalHost::handle", 2),
    ending("runtime::launch::LocalHost::emptied"),
    ending("runtime::daemon::TreeMember::acknowledge"),
    ending("runtime::launch::Session::remove"),
    ending("runtime::guard::Handle::quit"),
    aborting("runtime::daemon::Opald::report"),
    aborting("runtime::launch::LocalHost::signal"),
    aborting("runtime::launch::LocalHost::kill_all"),
};

constexpr Step step_of_launcher(const char* function, unsigned visit = 1) {
  return {.object = kLauncher, .function = function, .transports = kBoth, .visit = visit};
}

/// The launcher's own, with daemons.
inline constexpr std::array kLauncherHostSteps{
    step_of_launcher("runtime::daemon::RemoteHost::start_daemon", 2),
    step_of_launcher("runtime::daemon::InputSink::add", 2),
    step_of_launcher("runtime::daemon::Hub::join", 2),
    step_of_launcher("runtime::daemon::Hub::place"),
    step_of_launcher("runtime::overlay::Node::on_attach"),
    step_of_launcher("runtime::daemon::RemoteHost::start", 2),
    step_of_launcher("runtime::daemon::RemoteHost::handle", 4),
    step_of_launcher("runtime::daemon::TreeMember::fence"),
    step_of_launcher("runtime::overlay::Node::release"),
    step_of_launcher("runtime::daemon::InputFeeder::read_some"),
    step_of_launcher("runtime::daemon::RemoteHost::give_credit"),
    step_of_launcher("runtime::daemon::RemoteHost::kill_all"),
    step_of_launcher("runtime::daemon::Hub::finish"),
    step_of_launcher("runtime::daemon::RemoteHost::quit", 2),
};

/// Ranks 0 and 1 are on h1, 2 and 3 on h2: messages between hosts pass over tcp, collectives have two levels.
struct RankStep {
  Step step;
  int rank = 2;
};

constexpr RankStep step_of_rank(const char* object, const char* function, const char* program = "messages",
                                unsigned visit = 1, int rank = 2, const char* set = "") {
  return {{.object = object,
           .function = function,
           .program = program,
           .transports = kBoth,
           .visit = visit,
           .set = set,
           .ranks = 4},
          rank};
}

inline constexpr std::array kRankHostSteps{
    step_of_rank(kRuntime, "runtime::Client::State::join"),
    step_of_rank(kRuntime, "runtime::Client::commit"),
    step_of_rank(kRuntime, "runtime::Client::fence"),
    step_of_rank(kOpal, "opal::am::Context::connect"),
    step_of_rank(kOpal, "opal::btl::tcp::Dialer::start"),
    step_of_rank(kOpal, "opal::btl::tcp::Attempt::on_ready"),
    step_of_rank(kOpal, "opal::btl::tcp::Acceptor::on_hello", "messages", 1, 0),
    step_of_rank(kOpal, "opal::btl::tcp::Endpoint::send_inline", "messages", 20, 1),
    step_of_rank(kOpal, "opal::btl::MessageTransport::send", "strided", 9, 3),
    step_of_rank(kOpal, "opal::btl::tcp::Endpoint::deliver", "large", 50),
    step_of_rank(kMpi, "mpi_shim::p2p::Engine::on_eager", "messages", 3),
    step_of_rank(kMpi, "mpi_shim::p2p::Engine::on_clear_to_send", "large", 2, 3),
    step_of_rank(kMpi, "mpi_shim::p2p::Engine::on_data", "large", 9),
    step_of_rank(kMpi, "mpi_shim::coll::HostTeam::allreduce", "collectives", 5, 3),
    step_of_rank(kMpi, "mpi_shim::coll::Schedule::start_round", "collectives", 9),
    step_of_rank(kMpi, "mpi_shim::coll::Schedule::finish_round", "collectives", 9),
    step_of_rank(kMpi, "mpi_shim::comm::split", "communicators", 5),
    step_of_rank(kMpi, "mpi_shim::rma::Windows::add", "windows"),
    step_of_rank(kOpal, "opal::btl::RdmaEmulation::transfer", "windows", 1, 3),
    step_of_rank(kOpal, "opal::btl::RdmaEmulation::on_put_piece", "windows"),
    step_of_rank(kMpi, "mpi_shim::rma::Window::on_lock", "locks", 3, 0),
    step_of_rank(kMpi, "mpi_shim::rma::Windows::remove", "windows"),
    step_of_rank(kMpi, "mpi_shim::Process::leave"),
    step_of_rank(kMpi, "mpi_shim::Process::stop"),
    step_of_rank(kRuntime, "runtime::Client::finalize"),
};

}  // namespace opal::campaign
