// SPDX-License-Identifier: Apache-2.0
// mpi_shim/p2p/fetch.hpp — the receiver's side of a rendezvous by get: straight into a contiguous buffer, by way of a
// bounce buffer and unpacking into any other.  Tells the sender when it is through.
// Owned by the Engine's pool.  Threads: under the Context's lock.
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

  /// Fetches the first receive.wanted_ bytes of `message` and ends `receive`.
  void begin(Receive& receive, const Incoming& message, const MemoryHandle& handle) noexcept;

 private:
  /// Posts gets until one is in flight (true), all is there (true), or the transport is full (false).
  bool step() noexcept;
  Post post() noexcept;
  /// The bytes asked for are there.
  void took() noexcept;
  void end() noexcept;
  void give_up() noexcept;

  Engine& engine_;
  Receive* receive_ = nullptr;
  am::Endpoint* from_ = nullptr;
  MemoryHandle handle_;
  std::uint64_t send_id_ = 0;
  std::uint64_t address_ = 0;
  std::uint64_t fetched_ = 0;
  std::uint64_t asked_ = 0;        // bytes of the get in flight
  std::vector<std::byte> bounce_;  // empty for a contiguous buffer; keeps its capacity
};

}  // namespace mpi_shim::p2p
