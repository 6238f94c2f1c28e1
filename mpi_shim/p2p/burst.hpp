// SPDX-License-Identifier: Apache-2.0
// mpi_shim/p2p/burst.hpp — a burst: short messages that MPI_Isend sends to one peer in a row.  Over a transport that
// pays for each call of the network (tcp: a system call, verbs: a doorbell) the first three leave at once.  Later ones
// are held back (Context::begin_batch) and leave together:
// * when the transport has enough of them for one call,
// * with a blocking send, or an MPI_Isend to another peer over such a transport,
// * in any other MPI function that communicates or takes a handle, except an MPI_Irecv that answers nothing,
// * in progress of the Context.
// So a program that computes after a long burst delays the end of the burst until its next MPI function.
// A process has one burst at a time, over all VCIs.  Owned by an Engine.  Threads: any, see each function.
#pragma once
#include <atomic>
#include <cstdint>

#include "opal/am/context.hpp"

namespace mpi_shim::p2p {

class Burst {
 public:
  explicit Burst(opal::am::Context& context) noexcept : context_(context) {}
  ~Burst() { end(); }
  Burst(const Burst&) = delete;
  Burst& operator=(const Burst&) = delete;

  /// Before a short message to `to`.  `may_wait`: MPI_Isend sends it.  Requires: the caller holds the Context's lock.
  [[gnu::noinline]] void before_send(const opal::am::Endpoint& to, bool may_wait) noexcept {
    if (may_wait && to_ == &to) {
      if (++length_ == kAtOnce + 1) context_.begin_batch();
      return;
    }
    end();
    Burst* none = nullptr;
    if (!may_wait || !current_.compare_exchange_strong(none, this, std::memory_order_relaxed)) return;
    to_ = &to;
    length_ = 1;
  }
  /// Sends what is held back.  Takes the Context's lock.
  [[gnu::noinline]] void end() noexcept {
    const opal::am::Lock::Guard guard{context_.lock()};
    if (to_ == nullptr) return;
    to_ = nullptr;
    current_.store(nullptr, std::memory_order_relaxed);
    if (length_ > kAtOnce) context_.end_batch();
  }
  /// Ends the burst of this process, if there is one.
  static void end_any() noexcept {
    if (Burst* const burst = current_.load(std::memory_order_relaxed); burst != nullptr) [[unlikely]]
      burst->end();
  }

 private:
  static constexpr std::uint32_t kAtOnce = 3;  // messages of a burst that are not held back

  static inline std::atomic<Burst*> current_{nullptr};  // the burst that has begun
  opal::am::Context& context_;
  const opal::am::Endpoint* to_ = nullptr;  // null: no burst.  Only compared: the endpoint may have ended
  std::uint32_t length_ = 0;                // messages so far
};

}  // namespace mpi_shim::p2p
