// SPDX-License-Identifier: Apache-2.0
// tests/campaign/steps.hpp — the protocol steps at which the fault campaign acts.
// A step is a function of the product that runs when the protocol takes that step.
#pragma once
#include <array>
#include <string_view>

namespace opal::campaign {

inline constexpr const char* kOpal = OPAL_FILE;
inline constexpr const char* kMpi = MPI_FILE;
inline constexpr const char* kRuntime = RUNTIME_FILE;
inline constexpr const char* kLauncher = "opalrun";
inline constexpr const char* kDaemon = "opald";
inline constexpr const char* kSm = "self,sm";
inline constexpr const char* kTcp = "self,tcp";
inline constexpr const char* kBoth = "self,sm,tcp";

inline constexpr const char* kPipelined = "btl_sm_large_get=pipelined";

struct Step {
  const char* object = kOpal;        ///< file name of the library or program that holds the function
  const char* function;              ///< its qualified name, without parameters
  const char* program = "messages";  ///< kind of traffic: argument of campaign_program
  const char* transports = kSm;      ///< am_transports
  unsigned visit = 1;                ///< which visit counts
  const char* set = "";              ///< one more variable, NAME=VALUE
  int ranks = 3;
  int rounds = 60;
  const char* job = "campaign_program";  ///< the program that takes `program` and `rounds`
};

inline constexpr std::array kSteps{
    // Shared memory: connect.
    Step{.function = "opal::btl::sm::ConnectionManager::attempt"},
    Step{.function = "opal::btl::sm::ConnectionManager::establish_locked"},
    Step{.function = "opal::btl::sm::ConnectionManager::handshake"},
    Step{.function = "opal::btl::sm::ConnectionManager::welcome"},
    Step{.function = "opal::btl::sm::PeerInbox::attach"},
    Step{.function = "opal::btl::sm::Connections::take_events"},
    // Shared memory: messages and back-pressure.
    Step{.function = "opal::btl::sm::Module::progress", .visit = 40},
    Step{.function = "opal::btl::sm::Sender::post_fragment", .visit = 20},
    Step{.function = "opal::btl::sm::FragmentPool::grow", .program = "large"},
    Step{.function = "opal::btl::sm::Receiver::receive_fragment", .visit = 3},
    Step{.function = "opal::btl::sm::FastBoxes::answer_offer"},
    Step{.function = "opal::btl::sm::Receiver::receive_from_fast_box", .visit = 5},
    // Shared memory: transfers that both sides copy.  Ranks that share a core do not use them, so two ranks.
    Step{.function = "opal::btl::sm::HelpedInitiator::start_large", .program = "large", .set = kPipelined, .ranks = 2},
    Step{.function = "opal::btl::sm::HelpedInitiator::send_request", .program = "large", .set = kPipelined, .ranks = 2},
    Step{.function = "opal::btl::sm::HelpedTarget::on_request", .program = "large", .set = kPipelined, .ranks = 2},
    Step{.function = "opal::btl::sm::HelpedTarget::copy_pieces",
         .program = "large",
         .visit = 3,
         .set = kPipelined,
         .ranks = 2},
    Step{.function = "opal::btl::sm::HelpedInitiator::take_pieces", .program = "large", .set = kPipelined, .ranks = 2},
    Step{.function = "opal::btl::sm::HelpedInitiator::take_pieces",
         .program = "windows",
         .set = "mpi_rma_share=no",
         .ranks = 2},
    Step{.function = "opal::btl::sm::HelpedInitiator::finish",
         .program = "windows",
         .set = "mpi_rma_share=no",
         .ranks = 2},
    // Shared memory: leave.
    Step{.function = "opal::btl::sm::Module::disconnect"},
    // TCP: connect.
    Step{.function = "opal::btl::tcp::Dialer::start", .transports = kTcp},
    Step{.function = "opal::btl::tcp::Attempt::on_ready", .transports = kTcp},
    Step{.function = "opal::btl::tcp::Acceptor::on_ready", .transports = kTcp},
    Step{.function = "opal::btl::tcp::Incoming::on_ready", .transports = kTcp},
    Step{.function = "opal::btl::tcp::Acceptor::on_hello", .transports = kTcp},
    Step{.function = "opal::btl::tcp::Endpoint::adopt", .transports = kTcp},
    // TCP: messages.
    Step{.function = "opal::btl::tcp::Endpoint::poll", .transports = kTcp, .visit = 30},
    Step{.function = "opal::btl::tcp::Endpoint::send_inline", .transports = kTcp, .visit = 20},
    Step{.function = "opal::btl::MessageTransport::send", .program = "strided", .transports = kTcp, .visit = 9},
    Step{.function = "opal::btl::tcp::Endpoint::enqueue", .program = "large", .transports = kTcp, .visit = 2},
    Step{.function = "opal::btl::tcp::Endpoint::flush", .program = "large", .transports = kTcp},
    Step{.function = "opal::btl::tcp::Endpoint::deliver", .program = "large", .transports = kTcp, .visit = 50},
    Step{.function = "opal::btl::tcp::FrameReader::room", .program = "large", .transports = kTcp, .visit = 9},
    // TCP: leave.
    Step{.function = "opal::btl::tcp::Endpoint::leave", .transports = kTcp},
    Step{.function = "opal::btl::tcp::Module::linger", .transports = kTcp},
    // Put and get by messages.
    Step{.function = "opal::btl::RdmaEmulation::transfer", .program = "windows", .transports = kTcp, .visit = 5},
    Step{.function = "opal::btl::RdmaEmulation::on_put_piece", .program = "windows", .transports = kTcp, .visit = 5},
    Step{.function = "opal::btl::RdmaEmulation::on_get_request", .program = "windows", .transports = kTcp, .visit = 3},
    Step{.function = "opal::btl::RdmaEmulation::send_put_pieces", .program = "windows", .transports = kTcp},
    Step{.function = "opal::btl::RdmaEmulation::send_get_pieces", .program = "windows", .transports = kTcp},
    // Contexts.
    Step{.function = "opal::am::Context::connect", .transports = kBoth},
    Step{.function = "opal::am::Context::State::on_accepted", .transports = kBoth},
    // Messages of MPI: eager, synchronous, rendezvous.
    Step{.object = kMpi, .function = "mpi_shim::p2p::Engine::on_eager", .visit = 3},
    Step{.object = kMpi, .function = "mpi_shim::p2p::Engine::on_clear_to_send", .visit = 3},
    Step{.object = kMpi, .function = "mpi_shim::p2p::Engine::on_first_message", .program = "large", .visit = 2},
    Step{.object = kMpi, .function = "mpi_shim::p2p::Engine::on_finished", .program = "large", .visit = 2},
    Step{.object = kMpi, .function = "mpi_shim::p2p::Engine::on_clear_to_send", .program = "large", .transports = kTcp},
    Step{.object = kMpi,
         .function = "mpi_shim::p2p::Engine::on_data",
         .program = "large",
         .transports = kTcp,
         .visit = 9},
    // Collectives in shared memory and by messages.
    Step{.object = kMpi, .function = "mpi_shim::coll::HostTeam::allreduce", .program = "collectives", .visit = 5},
    Step{.object = kMpi, .function = "mpi_shim::coll::HostTeam::bcast", .program = "collectives", .visit = 5},
    Step{.object = kMpi, .function = "mpi_shim::coll::HostTeam::barrier", .program = "collectives", .visit = 5},
    Step{.object = kMpi,
         .function = "mpi_shim::coll::Schedule::start_round",
         .program = "collectives",
         .transports = kTcp,
         .visit = 9,
         .set = "mpi_coll_share=no"},
    Step{.object = kMpi,
         .function = "mpi_shim::coll::Schedule::finish_round",
         .program = "collectives",
         .transports = kTcp,
         .visit = 9,
         .set = "mpi_coll_share=no"},
    // Windows: locks in shared memory and by messages.
    Step{.object = kMpi, .function = "mpi_shim::rma::Window::take_lock", .program = "locks", .visit = 7},
    Step{.object = kMpi, .function = "mpi_shim::rma::Window::lock_updates", .program = "locks", .visit = 7},
    Step{.object = kMpi, .function = "mpi_shim::rma::Window::give_lock_back", .program = "locks", .visit = 7},
    Step{.object = kMpi,
         .function = "mpi_shim::rma::Window::on_lock",
         .program = "locks",
         .transports = kTcp,
         .visit = 3,
         .set = "mpi_rma_share=no"},
    Step{.object = kMpi,
         .function = "mpi_shim::rma::Window::grant_waiting",
         .program = "locks",
         .transports = kTcp,
         .set = "mpi_rma_share=no"},
    Step{.object = kMpi,
         .function = "mpi_shim::rma::Window::on_unlock",
         .program = "locks",
         .transports = kTcp,
         .visit = 3,
         .set = "mpi_rma_share=no"},
    Step{.object = kMpi, .function = "mpi_shim::rma::Windows::add", .program = "windows"},
    Step{.object = kMpi, .function = "mpi_shim::rma::Windows::remove", .program = "windows"},
    // Communicators.
    Step{.object = kMpi, .function = "mpi_shim::comm::split", .program = "communicators", .visit = 5},
    Step{.object = kMpi, .function = "mpi_shim::comm::Communicators::free", .program = "communicators", .visit = 5},
    // Start and end of a rank.
    Step{.object = kRuntime, .function = "runtime::Client::State::join", .transports = kBoth},
    Step{.object = kRuntime, .function = "runtime::Client::commit", .transports = kBoth},
    Step{.object = kRuntime, .function = "runtime::Client::fence", .transports = kBoth},
    Step{.object = kMpi, .function = "mpi_shim::Process::leave", .transports = kBoth},
    Step{.object = kMpi, .function = "mpi_shim::Process::stop", .transports = kBoth},
    Step{.object = kRuntime, .function = "runtime::Client::finalize", .transports = kBoth},
};

/// Steps of the launcher itself.
inline constexpr std::array kLauncherSteps{
    Step{.object = kLauncher, .function = "runtime::launch::Session::create"},
    Step{.object = kLauncher, .function = "runtime::launch::LocalHost::start_more"},
    Step{.object = kLauncher, .function = "runtime::launch::LocalHost::handle"},
    Step{.object = kLauncher, .function = "runtime::launch::Job::run"},
    Step{.object = kLauncher, .function = "runtime::launch::Job::decide"},
    Step{.object = kLauncher, .function = "runtime::launch::Session::remove"},
};

}  // namespace opal::campaign
