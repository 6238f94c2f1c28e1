// SPDX-License-Identifier: Apache-2.0
// opal/btl/endpoint.hpp — one peer through one module.
// Owned by its module; valid from connect() or Observer::on_accepted() until disconnect() or the module's end, also
// after the peer died.  Threads: as its module.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "opal/btl/peer_id.hpp"
#include "opal/core/error.hpp"
#include "opal/core/export.hpp"
#include "opal/core/spin_lock.hpp"

namespace opal::btl {

class Module;

class OPAL_EXPORT Endpoint {
 public:
  virtual ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  [[nodiscard]] Module& module() const noexcept { return module_; }
  [[nodiscard]] const PeerId& peer() const noexcept { return peer_; }

  /// True once the peer is gone or broke the protocol; every later post answers `failed`.
  [[nodiscard]] bool dead() const noexcept { return dead_; }
  /// Why the endpoint died, or why the last post without a completion failed.
  [[nodiscard]] const Error& error() const noexcept { return error_; }
  void set_error(const Error& why) noexcept { error_ = why; }

  /// True when put/get move data without the peer's help (single copy, RDMA); false when they are emulated.
  [[nodiscard]] virtual bool one_sided() const noexcept { return false; }
  /// Which path this peer got and why, for explain(): e.g. "cma: probe copied 4096 bytes".  Allocates.
  [[nodiscard]] virtual std::string describe() const = 0;

  /// GPU memory goes to and from this peer without passing the host: large transfers are cheapest as a get.  Set by the
  /// transport, when it has found out; it may take it back.
  bool gpu_direct = false;

  /// Guards the sending half of the endpoint, all that Module::send_beside may touch.  Whoever has the module to
  /// himself takes it too before he changes that, after his own lock and for a few instructions.  The layer above sets
  /// it before any other thread knows the endpoint; null: nobody calls send_beside.
  SpinLock* send_gate = nullptr;

  /// Holds an endpoint's gate, if it has one.
  class SendGuard {
   public:
    explicit SendGuard(const Endpoint& endpoint) noexcept : gate_(endpoint.send_gate) {
      if (gate_ != nullptr) [[unlikely]]
        gate_->lock();
    }
    ~SendGuard() {
      if (gate_ != nullptr) [[unlikely]]
        gate_->unlock();
    }
    SendGuard(const SendGuard&) = delete;
    SendGuard& operator=(const SendGuard&) = delete;

   private:
    SpinLock* const gate_;
  };

  /// A pointer for the layer above; the transport never looks at it.
  void* upper = nullptr;

  /// Fragments of this endpoint that have neither been sent nor given back.
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

  // Of checkpoints: all endpoints of the module in a row, and the latest round whose marker went out and came in.
  friend class Fragment;
  friend class Module;
  friend class Quiescence;
  Endpoint* next_ = nullptr;
  Endpoint* previous_ = nullptr;
  std::uint64_t marked_ = 0;
  std::uint64_t heard_ = 0;
};

}  // namespace opal::btl
