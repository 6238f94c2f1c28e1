// SPDX-License-Identifier: Apache-2.0
// tests/campaign/verbs_steps.hpp — the protocol steps of the verbs transport at which the fault campaign acts.
// Few rounds: a software device in an emulated machine moves some 20 MB/s.
#pragma once
#include <array>

#include "tests/campaign/steps.hpp"

namespace opal::campaign {

/// A step of two ranks that reach each other over verbs.  A function that a base class calls is named as its thunk,
/// into which the compiler puts its body.
constexpr Step verbs_step(const char* function, const char* program = "messages", unsigned visit = 1, int rounds = 10,
                          const char* set = "") {
  return {.function = function,
          .program = program,
          .transports = "self,verbs",
          .visit = visit,
          .set = set,
          .ranks = 2,
          .rounds = rounds};
}

/// Windows by the device, not by the memory that ranks of one host share.
constexpr Step window_step(const char* function, const char* program, unsigned visit = 1) {
  return verbs_step(function, program, visit, 5, "mpi_rma_share=no");
}

/// On the memory of the next rank, without MPI.
constexpr Step one_sided_step(const char* function, const char* program, unsigned visit = 1) {
  Step step = verbs_step(function, program, visit, 4, "rcache_grdma_max_chunk=256K");
  step.job = "campaign_one_sided";
  return step;
}

/// A message of 2.4 MB, fetched through registrations of 256 KiB each.
constexpr Step large_step(const char* function, unsigned visit) {
  return verbs_step(function, "large", visit, 2, "rcache_grdma_max_chunk=256K");
}

/// No memory is registered: puts and gets are messages, so many that their windows grow.
constexpr Step crowded_step(const char* function, unsigned visit = 1) {
  return verbs_step(function, "large", visit, 1, "btl_verbs_pin_limit=1");
}

inline constexpr std::array kVerbsSteps{
    // The address, and the way to a connection: address and route resolved, request, reply, confirmation.
    verbs_step("opal::btl::verbs::Module::open"),
    verbs_step("opal::btl::verbs::Module::address"),
    verbs_step("opal::btl::verbs::Module::connect"),
    verbs_step("opal::btl::verbs::Connection::dial"),
    verbs_step("opal::btl::verbs::Connection::on_event", "messages", 2),
    verbs_step("opal::btl::verbs::Connection::request_connection"),
    verbs_step("opal::btl::verbs::Module::accept_messages"),
    verbs_step("opal::btl::verbs::Connection::accept"),
    verbs_step("non-virtual thunk to opal::btl::verbs::Endpoint::on_connected"),
    verbs_step("opal::btl::verbs::Endpoint::confirm"),
    // The queue pair and its states.
    verbs_step("opal::btl::verbs::Device::make_queue_pair"),
    verbs_step("opal::btl::verbs::Connection::move_to", "messages", 2),
    // Messages: sends, completions, receives, credits.
    verbs_step("opal::btl::verbs::Endpoint::post", "messages", 5),
    verbs_step("non-virtual thunk to opal::btl::verbs::Endpoint::on_sent"),
    verbs_step("non-virtual thunk to opal::btl::verbs::Endpoint::on_received", "messages", 5),
    crowded_step("opal::btl::verbs::Endpoint::send_buffer", 20),
    crowded_step("opal::btl::verbs::Endpoint::return_credits", 20),
    crowded_step("opal::btl::verbs::Endpoint::send_frame", 3),
    crowded_step("opal::btl::verbs::Endpoint::grant_more"),
    crowded_step("non-virtual thunk to opal::btl::verbs::Endpoint::on_received", 40),
    // One-sided queue pairs: connection, put and get, atomics.
    window_step("opal::btl::verbs::OneSidedQueue::dial", "windows"),
    window_step("opal::btl::verbs::Module::accept_one_sided", "windows"),
    window_step("opal::btl::verbs::Endpoint::serve", "windows"),
    window_step("opal::btl::verbs::OneSidedQueue::on_connected", "windows"),
    window_step("opal::btl::verbs::OneSidedQueue::post_piece", "windows", 5),
    window_step("opal::btl::verbs::OneSidedQueue::on_sent", "windows", 5),
    one_sided_step("opal::btl::verbs::OneSidedQueue::post_atomic", "atomics", 2),
    one_sided_step("opal::btl::verbs::OneSidedQueue::on_sent", "atomics", 2),
    // Large transfers, registered piece by piece.
    large_step("opal::btl::verbs::Memory::add", 3),
    large_step("opal::btl::verbs::OneSidedQueue::find_memory", 2),
    large_step("opal::btl::verbs::OneSidedQueue::post_piece", 20),
    large_step("opal::btl::verbs::OneSidedQueue::on_sent", 20),
    // The end: memory, endpoints, goodbye, connection.
    window_step("opal::btl::DeviceTransport<opal::btl::verbs::Endpoint, opal::btl::DeviceTransfer>::deregister_memory",
                "windows"),
    verbs_step("opal::btl::DeviceTransport<opal::btl::verbs::Endpoint, opal::btl::DeviceTransfer>::end_operations"),
    verbs_step("opal::btl::verbs::Endpoint::leave"),
    verbs_step("opal::btl::verbs::Endpoint::end"),
    window_step("opal::btl::verbs::Connection::stop", "windows"),
};

/// Whole address spaces: the owner lends a registration for each piece.
inline constexpr std::array kAddressSpaceSteps{
    one_sided_step("opal::btl::PipelinedTransfers::on_lend_request", "spaces", 2),
    one_sided_step("opal::btl::PipelinedTransfers::take_lent", "spaces", 2),
    one_sided_step("opal::btl::PipelinedTransfers::on_lent_return", "spaces"),
    one_sided_step("opal::btl::verbs::OneSidedQueue::post_piece", "spaces", 20),
};

}  // namespace opal::campaign
