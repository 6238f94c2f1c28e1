// SPDX-License-Identifier: Apache-2.0
// opal/btl/verbs/device/device.hpp — one open RDMA device of a module and the objects that its queue pairs share: one
// completion queue and one shared receive queue for all peers.
// The completion queue is resized with the number of queue pairs, so that it never overflows; a device that cannot
// resize it (siw) gets a large one at the beginning.  Owned by the module.  Threads: as the module.
#pragma once
#include <string>

#include "opal/btl/verbs/config.hpp"
#include "opal/btl/verbs/device/objects.hpp"
#include "opal/core/result.hpp"

namespace opal::btl::verbs {

/// The send side of a queue pair.
struct QueueShape {
  std::uint32_t sends = 0;    ///< most work requests in flight
  std::uint32_t inlined = 0;  ///< most bytes of an inline send
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
  /// iWARP: a write may complete at its initiator before it is visible at the target, and there are no atomics.
  [[nodiscard]] bool iwarp() const noexcept { return context_->device->transport_type == IBV_TRANSPORT_IWARP; }

  /// True in a forked child of the process that opened the device: the queues are the parent's.
  [[nodiscard]] bool inherited() const noexcept { return context_.get_deleter().owner != ::getpid(); }

  /// In a forked child: closes the child's copy of the device context.  The other objects stay the parent's.
  void close_in_child() noexcept { context_.reset(); }

  /// Makes a queue pair (IBV_QPT_RC) in state RESET and reserves shape.sends completions, which the caller releases
  /// after it has destroyed the queue pair.  May reduce `shape.inlined`.
  /// Errors: limit_reached, os.
  Result<QueuePair> make_queue_pair(QueueShape& shape);

  /// Makes room in the completion queue for `count` more work requests.  Errors: limit_reached, os.
  Result<void> reserve_completions(std::uint32_t count);
  void release_completions(std::uint32_t count) noexcept { promised_ -= count; }

  /// Posts a buffer to the shared receive queue; `id` becomes the wr_id, `key` is the lkey.  Errors: os.
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
  std::uint32_t promised_ = 0;  // completions reserved; the completion queue has at least this size
};

}  // namespace opal::btl::verbs
