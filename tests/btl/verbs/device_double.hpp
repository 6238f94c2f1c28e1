// SPDX-License-Identifier: Apache-2.0
// tests/btl/verbs/device_double.hpp — one RDMA device in software, for tests of the verbs transport that run without a
// device and without a virtual machine.  A test program that links it overrides the functions of libibverbs and
// librdmacm that the transport calls, and getifaddrs().
//
// Invariants: both ends of a connection are in this process.  ibv_post_send() moves the bytes of a work request at
// once, checks keys, ranges, rights and the depth of the queue, and waits for a receive buffer of the peer where the
// device would (receiver not ready).  Queue pairs complete in order; an unsignalled request frees its place when a
// later signalled one of its queue has been polled.  A flushed unsignalled request has no completion of its own, which
// the transport must not rely on.  Threads: any; one lock.
#pragma once
#include <cstdint>

namespace opal::test::verbs_double {

/// What the transport has asked of the device since the program began.
struct Counts {
  std::uint64_t doorbells = 0;         ///< calls of ibv_post_send()
  std::uint64_t work_requests = 0;     ///< requests in these calls
  std::uint64_t send_completions = 0;  ///< completions of sends, puts, gets and atomics that were polled
  std::uint64_t receiver_waits = 0;    ///< messages that found no receive buffer at first
  std::uint64_t manager_looks = 0;     ///< calls of rdma_get_cm_event(): a system call each with a real device
  std::uint64_t registered_bytes = 0;  ///< at present
  std::uint64_t relaxed_bytes = 0;     ///< of these with relaxed ordering
  std::uint64_t extended_pairs = 0;    ///< queue pairs that became ready to receive with extensions of the peer (ECE)
  std::uint64_t send_queue_bytes = 0;  ///< of the queue pairs at present, as mlx5 lays them out
};
[[nodiscard]] Counts counts() noexcept;

/// Moves all queue pairs to the error state, as a fault of the device does.
void fail_queue_pairs() noexcept;

/// Reports once that the device's port is down.  Connections go on.
void report_port_error() noexcept;

}  // namespace opal::test::verbs_double
