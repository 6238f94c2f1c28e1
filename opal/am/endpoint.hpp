// SPDX-License-Identifier: Apache-2.0
// opal/am/endpoint.hpp — one peer process, through the best transport that reaches it.
// Owned by its Context.  Valid until Context::disconnect() or the Context's end, also after the peer died.  A dead
// endpoint stays dead: a peer that connects again has another Endpoint.  After the next progress() a dead endpoint
// holds no descriptor and no memory of the transport; disconnect() frees the rest, about 600 bytes.
// Threads: by the Context's thread level.  Cost of the data path: one branch for the lock, then the transport's call.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "opal/am/lock.hpp"
#include "opal/btl/module.hpp"
#include "opal/core/export.hpp"
#include "opal/gpu/memory.hpp"

namespace opal::am {

class Context;
class ExposedMemory;
class RegistrationCache;
struct OperationQueue;
struct QueuedOperation;

class OPAL_EXPORT Endpoint {
 public:
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;
  ~Endpoint();

  [[nodiscard]] Context& context() const noexcept { return context_; }
  [[nodiscard]] const PeerId& peer() const noexcept { return peer_; }
  /// True once the peer has died, and from disconnect() on.
  [[nodiscard]] bool dead() const noexcept {
    const Lock::Guard guard{lock_};
    return leaving_ || route_->dead();
  }
  /// False until a connect_async() has its transport, and after the peer's death.
  [[nodiscard]] bool connected() const noexcept {
    const Lock::Guard guard{lock_};
    return registrations_.load(std::memory_order_relaxed) != nullptr && !route_->dead();
  }
  /// Why the endpoint died, or why the last post without a completion failed.
  [[nodiscard]] Error error() const noexcept {
    const Lock::Guard guard{lock_};
    return route_->error();
  }

  /// The transport in use: its limits and estimates.
  [[nodiscard]] const btl::Attributes& attributes() const noexcept {
    const Lock::Guard guard{lock_};
    return route_->module().attributes();
  }
  /// True when put/get need no help from the peer's process.
  [[nodiscard]] bool one_sided() const noexcept {
    const Lock::Guard guard{lock_};
    return route_->one_sided();
  }
  /// True once GPU memory moves to and from this peer without host memory: large transfers of it are then cheapest as a
  /// get.  Known after the first GPU buffer.
  [[nodiscard]] bool gpu_direct() const noexcept {
    const Lock::Guard guard{lock_};
    return route_->gpu_direct;
  }
  /// Every candidate transport, taken or refused, with the reason; several lines.  Allocates.
  [[nodiscard]] std::string explain() const;

  // --- Active messages ----------------------------------------------------------------------------------------------
  // The payload may be GPU memory, which is copied to the host; handlers find it in host memory.

  /// Sends header and payload (together at most attributes().max_send bytes) as one message.  Both are copied.
  /// At level `multiple` threads that send to different peers wait neither for each other nor for progress(), if the
  /// transport supports it: shared memory does for short messages.
  /// Tags are 1 to 0xfffe.  Another tag is `failed` with invalid_argument, also in the functions below.
  Post send_inline(Tag tag, ByteSpan header, ByteSpan payload) noexcept {
    if (!is_tag(tag)) [[unlikely]]
      return refuse_tag(tag);
    if (lock_.real()) [[unlikely]]
      return send_beside(tag, header, payload);
    if (special_) [[unlikely]]
      return send_with_care(tag, header, payload);
    return route_->module().send_inline(*route_, tag, header, payload);
  }

  /// As send_inline(), but never `again`: a message that the transport cannot take now is copied to the heap, and
  /// progress() sends it in order with all others on this endpoint.  For handlers and rare control messages.
  /// `failed` with limit_reached: the queue holds am_pending_limit bytes.
  Post send_or_queue(Tag tag, ByteSpan header, ByteSpan payload) noexcept;

  /// As send_inline(), with the message in any number of parts.
  Post send_iov(Tag tag, std::span<const ByteSpan> parts) noexcept;

  /// Sends a message of any size.  One of at most attributes().max_send bytes is sent as by send_or_queue().  For a
  /// larger one the receiver pulls the payload: it stays unchanged until the completion runs, which is when the handler
  /// has run; the header, which is copied, fits into one message.
  /// Order: it does not overtake earlier messages.  Later short messages may overtake a large one; large ones keep
  /// their order.  Messages of tags of OPAL itself (kBtlTags, kAmTags) are short.
  /// Errors of the completion: limit_reached (am_large_limit there, am_pending_limit here), not_supported (no handler),
  /// no_memory (there), that of the failed peer, canceled.
  /// Answers `again` during a checkpoint, and a large one until the endpoint is connected.
  Post send(Tag tag, ByteSpan header, ByteSpan payload, Completion& completion) noexcept;

  /// A buffer in the transport, filled in place; empty if none is free.  Fragments end before disconnect().
  btl::Fragment alloc(std::size_t size) noexcept;
  /// A fragment that refers to the caller's payload; see btl::Module::prepare_src.
  btl::Fragment prepare_src(ByteSpan header, ByteSpan payload, Completion& completion) noexcept;
  /// Sends a fragment.  `failed`: the fragment is returned; also if its transport is not in use any more.
  Post send(btl::Fragment& fragment, Tag tag) noexcept;

  // --- One-sided ----------------------------------------------------------------------------------------------------

  /// Extracts the handle for this endpoint's transport from a key that the peer made (Region::key()).
  /// Errors: protocol (garbled), unreachable (the key has no handle for this transport), busy (not connected() yet).
  [[nodiscard]] Result<MemoryHandle> unpack_key(ByteSpan key) const;

  // Memory on either side may be GPU memory.  The transport moves it, or it is staged in pinned host memory.

  /// [remote_address, +size) may be any part of the registration; otherwise that operation alone fails.
  Post put(const void* source, std::uint64_t remote_address, const MemoryHandle& remote, std::uint64_t size,
           Completion& completion) noexcept {
    const Lock::Guard guard{lock_};
    if (gpus_ && !gpu::is_host(source)) [[unlikely]]
      return put_gpu(source, remote_address, remote, size, completion);
    return route_->module().put(*route_, source, nullptr, remote_address, remote, size, completion);
  }
  Post get(void* destination, std::uint64_t remote_address, const MemoryHandle& remote, std::uint64_t size,
           Completion& completion) noexcept {
    const Lock::Guard guard{lock_};
    if (gpus_ && !gpu::is_host(destination)) [[unlikely]]
      return get_gpu(destination, remote_address, remote, size, completion);
    return route_->module().get(*route_, destination, nullptr, remote_address, remote, size, completion);
  }
  Post atomic(const AtomicRequest& request, Completion& completion) noexcept {
    const Lock::Guard guard{lock_};
    return route_->module().atomic(*route_, request, completion);
  }
  /// Completes when every put and atomic posted before is visible at the peer.
  Post flush(Completion& completion) noexcept {
    const Lock::Guard guard{lock_};
    if (operations_ != nullptr) [[unlikely]]
      return queue_flush(completion);
    return flush_route(completion);
  }

  // As put(), get() and atomic(), but never `again`: an operation that the transport cannot take now waits in the
  // endpoint, and progress() posts it, in the order of posting.  For handlers and completions.
  // `failed` with limit_reached: am_pending_limit bytes of operations wait.

  Post put_or_queue(const void* source, std::uint64_t remote_address, const MemoryHandle& remote, std::uint64_t size,
                    Completion& completion) noexcept;
  Post get_or_queue(void* destination, std::uint64_t remote_address, const MemoryHandle& remote, std::uint64_t size,
                    Completion& completion) noexcept;
  Post atomic_or_queue(const AtomicRequest& request, Completion& completion) noexcept;

  /// put_or_queue(), and a message of `tag` with `header`, which is copied, when the data is visible at the target: its
  /// handler finds the data.  Completes when that message is on its way.
  Post put_notify(const void* source, std::uint64_t remote_address, const MemoryHandle& remote, std::uint64_t size,
                  Tag tag, ByteSpan header, Completion& completion) noexcept;

  /// Makes memory accessible to this peer through the registration cache.  A cache hit takes no lock.  For the buffers
  /// of a protocol, which are used again; for long-lived memory use Context::register_memory().
  Result<ExposedMemory> expose(void* base, std::uint64_t size, Rights rights) noexcept;

  /// A pointer for the layer above; OPAL never uses it.
  void* upper = nullptr;

 private:
  friend class Context;
  struct Pending;
  Endpoint(Context& context, const PeerId& peer, Lock& lock);
  /// Adds `route`; it is the one in use if `taken`.
  void add_route(btl::Endpoint& route, bool taken);
  /// Sends all further messages by `route`.
  void take_route(btl::Endpoint& route) noexcept;
  /// In a forked child: replaces the parent's route by `nowhere`, and takes it back.
  void leave_to_parent(btl::Endpoint& nowhere) noexcept;
  void take_over() noexcept;
  Post refuse_tag(Tag tag) noexcept;
  Post send_beside(Tag tag, ByteSpan header, ByteSpan payload) noexcept;
  [[nodiscard]] bool has_pending() const noexcept { return pending_ != nullptr; }
  Pending& make_pending();
  void drop_pending() noexcept;
  Post flush_route(Completion& completion) noexcept {
    if (gpus_) [[unlikely]]
      return flush_staged(completion);
    return route_->module().flush(route_, completion);
  }

  // operation_queue.cpp
  Post post_or_queue(QueuedOperation operation) noexcept;
  Post post_queued(const QueuedOperation& operation) noexcept;
  Post queue_flush(Completion& completion) noexcept;
  std::size_t post_operations() noexcept;
  void end_operations(const Error& why) noexcept;

  // endpoint_gpu.cpp
  Post send_with_care(Tag tag, ByteSpan header, ByteSpan payload) noexcept;
  Post put_gpu(const void* source, std::uint64_t remote_address, const MemoryHandle& remote, std::uint64_t size,
               Completion& completion) noexcept;
  Post get_gpu(void* destination, std::uint64_t remote_address, const MemoryHandle& remote, std::uint64_t size,
               Completion& completion) noexcept;
  Post flush_staged(Completion& completion) noexcept;

  // Threads that send to different peers share no cache line.
  alignas(kCacheLine) SpinLock send_lock_;  // guards the routes' sender state, route_ and special_
  Lock& lock_;
  btl::Endpoint* route_ = nullptr;  // the transport in use
  const bool gpus_;                 // buffers may be GPU memory
  bool special_;                    // gpus_, or messages are queued: one branch for both
  Context& context_;
  PeerId peer_;
  btl::Endpoint* parents_route_ = nullptr;                  // in a forked child
  std::vector<btl::Endpoint*> routes_;                      // all transports to the peer, route_ included
  std::atomic<RegistrationCache*> registrations_{nullptr};  // of the route's module; read by a hit without the lock
  std::unique_ptr<Pending> pending_;                        // null while no message is queued
  std::unique_ptr<OperationQueue> operations_;              // null while no operation is queued
  bool leaving_ = false;                                    // disconnect() was called
  std::string explanation_;
};

/// The sender of a message; valid for every Delivery that a Context passes to a handler.
inline Endpoint& sender(const btl::Delivery& delivery) noexcept { return *static_cast<Endpoint*>(delivery.from.upper); }

}  // namespace opal::am
