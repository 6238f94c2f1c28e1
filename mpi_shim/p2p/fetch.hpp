// SPDX-License-Identifier: Apache-2.0
// mpi_shim/p2p/fetch.hpp — the receiver's side of a rendezvous by get: directly into a contiguous buffer, otherwise in
// chunks into a bounce buffer, which it unpacks.  At the end it sends Finished to the sender.  If a get fails and the
// sender lives, the receive asks the sender to push the data instead.
// Owned by the Engine's pool; returns itself to the pool at the end.  Threads: under the Context's lock.
#pragma once
#include <cstdint>
#include <vector>

#include "mpi_shim/base/names.hpp"
#include "mpi_shim/p2p/receive.hpp"
#include "mpi_shim/p2p/stalled.hpp"
#include "opal/btl/memory_handle.hpp"
#include "opal/btl/post.hpp"

namespace mpi_shim::p2p {

class Engine;

class Fetch final : private Completion, private Stalled {
 public:
  explicit Fetch(Engine& engine) noexcept;

  /// Starts to fetch the first receive.wanted_ bytes of `message`; ends `receive` when they have arrived.
  void begin(Receive& receive, const Incoming& message, const MemoryHandle& handle) noexcept;

 private:
  /// Posts gets until one is in flight, all data have arrived or a get has failed (true), or the transport is full
  /// (false: call it again from progress).
  bool step() noexcept;
  Post post() noexcept;
  /// The get of asked_ bytes is complete.
  void took() noexcept;
  void end() noexcept;
  void give_up() noexcept;

  Engine& engine_;
  Receive* receive_ = nullptr;
  am::Endpoint* from_ = nullptr;
  MemoryHandle handle_;
  std::uint64_t send_id_ = 0;
  std::uint64_t address_ = 0;      // of the message, at the sender
  std::uint64_t fetched_ = 0;      // bytes that have arrived
  std::uint64_t asked_ = 0;        // bytes of the latest get
  std::vector<std::byte> bounce_;  // empty for a contiguous buffer; keeps its capacity
};

}  // namespace mpi_shim::p2p
