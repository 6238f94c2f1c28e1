// SPDX-License-Identifier: Apache-2.0
// opal/btl/verbs/device/device.hpp — one RDMA device as a module uses it: everything that its queue pairs share.
// One completion queue and one shared receive queue serve all peers.  The completion queue grows with the queue pairs,
// so that it never overflows; that of a device whose queues do not grow (siw) is large from the beginning.
#pragma once
#include <string>

#include "opal/btl/verbs/config.hpp"
#include "opal/btl/verbs/device/objects.hpp"
#include "opal/core/result.hpp"

namespace opal::btl::verbs {

/// The send side of a queue pair.
struct QueueShape {
  std::uint32_t sends = 0;    ///< work requests
  std::uint32_t inlined = 0;  ///< bytes, at most
};

class Device {
 public:
  /// Errors: not_supported (no such device), limit_reached, os.
  static Result<Device> open(const char* name, const Config& config);

  [[nodiscard]] ibv_context* context() const noexcept { return context_.get(); }
  [[nodiscard]] ibv_pd* domain() const noexcept { return domain_.get(); }
  [[nodiscard]] ibv_cq* completions() const noexcept { return completions_.get(); }
  [[nodiscard]] ibv_comp_channel* channel() const noexcept { return channel_.get(); }
  [[nodiscard]] const ibv_device_attr& attributes() const noexcept { return attributes_; }
  [[nodiscard]] std::uint32_t receive_limit() const noexcept { return receive_limit_; }
  [[nodiscard]] std::string name() const { return ibv_get_device_name(context_->device); }
  /// iWARP: a write is complete at its origin before it is at the target, and there are no atomics.
  [[nodiscard]] bool iwarp() const noexcept { return context_->device->transport_type == IBV_TRANSPORT_IWARP; }

  /// This process is a forked child of the one that opened it: whatever it posted would be its parent's.
  [[nodiscard]] bool inherited() const noexcept { return context_.get_deleter().owner != ::getpid(); }

  /// In a forked child: of the device nothing is used any more; objects made of it are the parent's.
  void close_in_child() noexcept { context_.reset(); }

  /// A reliable connection's queue pair in its first state, with room for its completions.  `shape.inlined` may come
  /// back smaller.
  Result<QueuePair> make_queue_pair(QueueShape& shape);
  /// The room of a queue pair that is gone.
  void release(const QueueShape& shape) noexcept { release_completions(shape.sends); }

  /// Room for `count` more receives' completions.
  Result<void> reserve_completions(std::uint32_t count);
  void release_completions(std::uint32_t count) noexcept { promised_ -= count; }

  /// Hands a buffer to the shared receive queue.  Errors: os.
  Result<void> post_receive(std::uint64_t id, std::byte* buffer, std::uint32_t size, std::uint32_t key) noexcept;

 private:
  Device() = default;
  Result<void> make_completions();

  DeviceContext context_;
  ibv_device_attr attributes_{};
  ProtectionDomain domain_;
  CompletionChannel channel_;
  CompletionQueue completions_;
  SharedReceiveQueue receives_;
  std::uint32_t receive_limit_ = 0;
  std::uint32_t promised_ = 0;  // completions that may be there at once
};

}  // namespace opal::btl::verbs
