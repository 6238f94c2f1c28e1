// SPDX-License-Identifier: Apache-2.0
// opal/btl/endpoint.hpp — one peer through one module.
// Owned by its module.  Valid from connect() or Observer::on_accepted() until disconnect() or the module's end; the
// death of the peer does not end it.  Threads: as its module.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "opal/btl/peer_id.hpp"
#include "opal/core/error.hpp"
#include "opal/core/export.hpp"
#include "opal/core/sync/spin_lock.hpp"

namespace opal::btl {

class Module;

class OPAL_EXPORT Endpoint {
 public:
  virtual ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  [[nodiscard]] Module& module() const noexcept { return module_; }
  [[nodiscard]] const PeerId& peer() const noexcept { return peer_; }

  /// True once the peer has disconnected, died or broken the protocol.  Every later post returns `failed`.
  [[nodiscard]] bool dead() const noexcept { return dead_; }
  /// Why the endpoint is dead; else why the latest send, alloc() or prepare_src() that failed did so.
  [[nodiscard]] const Error& error() const noexcept { return error_; }
  void set_error(const Error& why) noexcept { error_ = why; }

  /// True when put/get move data without the peer's help (single copy, RDMA); false when they are emulated.
  [[nodiscard]] virtual bool one_sided() const noexcept { return false; }
  /// The path to this peer and why it was chosen, as text for explain(): "cma: probe copied 4096 bytes".  Allocates.
  [[nodiscard]] virtual std::string describe() const = 0;

  /// True when the transport copies GPU memory to and from this peer without staging in host memory.  The layer above
  /// then uses a get for large transfers.  The transport sets it after a test, and clears it when a copy fails.
  bool gpu_direct = false;

  /// The send lock.  It guards the sender state of the endpoint: all that Module::send_beside() may touch.  A thread
  /// that holds the module's lock also takes the send lock to change sender state.
  /// Lock order: module lock, then send lock.
  /// The layer above owns the lock and sets the pointer before another thread knows the endpoint.
  /// Null: the layer above never calls send_beside().
  SpinLock* send_lock = nullptr;

  /// Holds the endpoint's send lock during its own lifetime; does nothing if `send_lock` is null.
  class SendGuard {
   public:
    explicit SendGuard(const Endpoint& endpoint) noexcept : lock_(endpoint.send_lock) {
      if (lock_ != nullptr) [[unlikely]]
        lock_->lock();
    }
    ~SendGuard() {
      if (lock_ != nullptr) [[unlikely]]
        lock_->unlock();
    }
    SendGuard(const SendGuard&) = delete;
    SendGuard& operator=(const SendGuard&) = delete;

   private:
    SpinLock* const lock_;
  };

  /// A pointer for the layer above; the transport never uses it.
  void* upper = nullptr;

  /// Number of this endpoint's fragments that are neither sent nor returned.
  [[nodiscard]] std::uint32_t fragments() const noexcept { return fragments_; }

 protected:
  Endpoint(Module& module, const PeerId& peer) noexcept;
  void mark_dead(const Error& why) noexcept {
    dead_ = true;
    error_ = why;
  }

 private:
  Module& module_;
  PeerId peer_;
  bool dead_ = false;
  std::uint32_t fragments_ = 0;
  Error error_{};

  friend class Fragment;
  friend class MessageTransport;
  friend class Module;
  Endpoint* next_ = nullptr;  // in the module's list of endpoints
  Endpoint* previous_ = nullptr;
  std::uint64_t marker_sent_ = 0;      // the latest checkpoint whose marker this side has sent
  std::uint64_t marker_received_ = 0;  // the latest checkpoint whose marker has arrived
};

}  // namespace opal::btl
