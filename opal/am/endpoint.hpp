// SPDX-License-Identifier: Apache-2.0
// opal/am/endpoint.hpp — one peer process, reached by the best transport that both have.
// The Context owns the Endpoint, which is valid until Context::disconnect() or the Context's end, also after the peer
// died.  A dead endpoint stays dead: a peer that connects again gets another Endpoint.  From the next progress() on a
// dead endpoint holds no descriptor and, once its fragments are freed, no memory of the transport; disconnect() frees
// the Endpoint itself, about 600 bytes.
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
  /// True after the peer has died or disconnect() was called.
  [[nodiscard]] bool dead() const noexcept {
    const Lock::Guard guard{lock_};
    return leaving_ || route_->dead();
  }
  /// True while the endpoint has a transport: false before connect_async() has found one, between restart() and the
  /// next connect(), and after the peer's death.
  [[nodiscard]] bool connected() const noexcept {
    const Lock::Guard guard{lock_};
    return registrations_.load(std::memory_order_relaxed) != nullptr && !route_->dead();
  }
  /// Why the endpoint died, or why the last post without a completion failed.
  [[nodiscard]] Error error() const noexcept {
    const Lock::Guard guard{lock_};
    return route_->error();
  }

  /// Limits and cost estimates of the transport in use.
  [[nodiscard]] const btl::Attributes& attributes() const noexcept {
    const Lock::Guard guard{lock_};
    return route_->module().attributes();
  }
  /// btl::Component::exclusivity of that transport.
  [[nodiscard]] std::uint32_t exclusivity() const noexcept {
    const Lock::Guard guard{lock_};
    return route_->module().parameters().exclusivity;
  }
  /// True if put and get proceed without progress by the peer's process.
  [[nodiscard]] bool one_sided() const noexcept {
    const Lock::Guard guard{lock_};
    return route_->one_sided();
  }
  /// True if the transport moves GPU memory to and from this peer without staging it in host memory.  Then a get is the
  /// cheapest large transfer of GPU memory.  False before the first transfer of a GPU buffer.
  [[nodiscard]] bool gpu_direct() const noexcept {
    const Lock::Guard guard{lock_};
    return route_->gpu_direct;
  }
  /// One line for each candidate transport: taken or refused, and why.  Allocates.
  [[nodiscard]] std::string explain() const;

  // --- Active messages ----------------------------------------------------------------------------------------------
  // The payload may be GPU memory, which is copied to the host; the handler receives it in host memory.
  // Tags are 1 to 0xfffe; a post with another tag returns `failed` with invalid_argument.

  /// Sends header and payload (together at most attributes().max_send bytes) as one message.  Both are copied.
  /// At level `multiple` threads that send to different peers wait neither for each other nor for progress(), if the
  /// transport supports it: shared memory does for short messages.
  /// Returns done; again (no room: call progress() and retry); failed, see error().
  Post send_inline(Tag tag, ByteSpan header, ByteSpan payload) noexcept {
    if (!is_tag(tag)) [[unlikely]]
      return refuse_tag(tag);
    if (lock_.real()) [[unlikely]]
      return send_beside(tag, header, payload);
    if (special_) [[unlikely]]
      return send_special(tag, header, payload);
    return route_->module().send_inline(*route_, tag, header, payload);
  }

  /// As send_inline(), but never returns `again`: a message that the transport does not take is copied to the heap, and
  /// progress() sends it.  Order: as posted.  For handlers and rare control messages.
  /// `failed` with limit_reached: the queue would exceed am_pending_limit bytes.
  Post send_or_queue(Tag tag, ByteSpan header, ByteSpan payload) noexcept;
  /// The same without a limit of the queue, for messages whose number is limited otherwise, such as answers.
  Post send_or_queue_any(Tag tag, ByteSpan header, ByteSpan payload) noexcept {
    return send_or_queue_up_to(UINT64_MAX, tag, header, payload);
  }

  /// As send_inline(), with the message in any number of parts.
  Post send_iov(Tag tag, std::span<const ByteSpan> parts) noexcept;

  /// Sends a message of any size.
  /// At most attributes().max_send bytes: as send_or_queue(); returns done, and the completion does not run.
  /// Larger: the receiver reads the payload by a get.  The payload stays unchanged until the completion runs, after the
  /// handler has run at the receiver.  The header is copied and must fit into one message.  The tag must not be in
  /// kBtlTags or kAmTags.
  /// Order: it does not overtake earlier messages.  Later short messages may overtake a large one; large ones keep
  /// their order.
  /// Errors of the completion: limit_reached (am_large_limit at the receiver, am_pending_limit at the sender),
  /// not_supported (no handler), no_memory (at the receiver), the error of the failed peer, canceled (disconnect()).
  /// A large message returns `again` during a checkpoint and until the endpoint is connected.
  Post send(Tag tag, ByteSpan header, ByteSpan payload, Completion& completion) noexcept;

  /// A buffer of the transport, which the caller fills in place; empty if none is free, or messages are queued.  The
  /// caller sends or frees each fragment before disconnect().
  btl::Fragment alloc(std::size_t size) noexcept;
  /// Sends a fragment.  `again`: the caller keeps it.  `failed`: it is freed; one cause is that it was made for another
  /// transport than the one in use.
  Post send(btl::Fragment& fragment, Tag tag) noexcept;

  // --- One-sided ----------------------------------------------------------------------------------------------------

  /// Returns the handle for this endpoint's transport from a key of the peer (Region::key()).
  /// Errors: protocol (garbled), unreachable (the key has no handle for this transport), busy (not connected() yet).
  [[nodiscard]] Result<MemoryHandle> unpack_key(ByteSpan key) const;

  // Memory on either side may be GPU memory.  The transport accesses it, or it is staged in pinned host memory.

  /// [remote_address, +size) is any part of the registration; an operation outside of it fails and affects no other.
  Post put(const void* source, std::uint64_t remote_address, const MemoryHandle& remote, std::uint64_t size,
           Completion& completion) noexcept {
    auto* const bytes = static_cast<std::byte*>(const_cast<void*>(source));  // transfer() only reads it
    return transfer(btl::OperationKind::put, bytes, remote_address, remote, size, completion);
  }
  Post get(void* destination, std::uint64_t remote_address, const MemoryHandle& remote, std::uint64_t size,
           Completion& completion) noexcept {
    auto* const bytes = static_cast<std::byte*>(destination);
    return transfer(btl::OperationKind::get, bytes, remote_address, remote, size, completion);
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

  // As put(), get() and atomic(), but never return `again`: an operation that the transport does not take is queued in
  // the endpoint, and progress() posts it.  Order: as posted.  For handlers and completions.
  // `failed` with limit_reached: the queue would exceed am_pending_limit bytes.

  Post put_or_queue(const void* source, std::uint64_t remote_address, const MemoryHandle& remote, std::uint64_t size,
                    Completion& completion) noexcept;
  Post get_or_queue(void* destination, std::uint64_t remote_address, const MemoryHandle& remote, std::uint64_t size,
                    Completion& completion) noexcept;
  Post atomic_or_queue(const AtomicRequest& request, Completion& completion) noexcept;

  /// Does as put_or_queue(), and sends a message of `tag` with `header` when the data is visible at the target, so its
  /// handler can read the data.  The header is copied.  Completes when that message is sent or queued.
  Post put_notify(const void* source, std::uint64_t remote_address, const MemoryHandle& remote, std::uint64_t size,
                  Tag tag, ByteSpan header, Completion& completion) noexcept;

  /// Makes memory accessible to this peer through the registration cache.  A cache hit takes no lock.  Intended for
  /// buffers of a protocol, which are used repeatedly; for long-lived memory use Context::register_memory().
  Result<ExposedMemory> expose(void* base, std::uint64_t size, Rights rights) noexcept;

  /// A pointer for the layer above; OPAL never uses it.
  void* upper = nullptr;

 private:
  friend class Context;
  struct Pending;
  Endpoint(Context& context, const PeerId& peer, Lock& lock);
  /// Adds `route` to routes_; if `taken`, it becomes the route in use.
  void add_route(btl::Endpoint& route, bool taken);
  /// Makes `route` the route in use.
  void take_route(btl::Endpoint& route) noexcept;
  /// In a forked child: leave_to_parent() replaces the parent's route by `nowhere`, take_over() restores it.
  void leave_to_parent(btl::Endpoint& nowhere) noexcept;
  void take_over() noexcept;
  Post refuse_tag(Tag tag) noexcept;
  Post send_special(Tag tag, ByteSpan header, ByteSpan payload) noexcept;
  Post send_beside(Tag tag, ByteSpan header, ByteSpan payload) noexcept;
  Post send_or_queue_up_to(std::uint64_t limit, Tag tag, ByteSpan header, ByteSpan payload) noexcept;
  Post transfer_gpu(btl::OperationKind kind, std::byte* here, std::uint64_t remote_address, const MemoryHandle& remote,
                    std::uint64_t size, Completion& completion) noexcept;
  [[nodiscard]] bool has_pending() const noexcept { return pending_ != nullptr; }
  Pending& make_pending();
  void drop_pending() noexcept;
  Post transfer(btl::OperationKind kind, std::byte* here, std::uint64_t remote_address, const MemoryHandle& remote,
                std::uint64_t size, Completion& completion) noexcept {
    const Lock::Guard guard{lock_};
    if (gpus_ && !gpu::is_host(here)) [[unlikely]]
      return transfer_gpu(kind, here, remote_address, remote, size, completion);
    return route_->module().transfer(kind, *route_, here, nullptr, remote_address, remote, size, completion);
  }
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

  // flush.cpp
  Post flush_staged(Completion& completion) noexcept;

  // Threads that send to different peers share no cache line.
  alignas(kCacheLine) SpinLock send_lock_;  // guards the routes' sender state, route_ and special_
  Lock& lock_;
  btl::Endpoint* route_ = nullptr;  // the transport in use
  const bool gpus_;                 // buffers may be GPU memory
  bool special_;                    // true if gpus_, or if messages are queued
  Context& context_;
  PeerId peer_;
  btl::Endpoint* parents_route_ = nullptr;                  // in a forked child: route_ before leave_to_parent()
  std::vector<btl::Endpoint*> routes_;                      // all transports to the peer, route_ included
  std::atomic<RegistrationCache*> registrations_{nullptr};  // of the route's module; null: not connected; read unlocked
  std::unique_ptr<Pending> pending_;                        // null: no message is queued and no checkpoint holds any
  std::unique_ptr<OperationQueue> operations_;              // null while no operation is queued
  bool leaving_ = false;                                    // disconnect() was called
  std::string explanation_;
};

/// The sender of a message; valid for every Delivery that a Context passes to a handler.
inline Endpoint& sender(const btl::Delivery& delivery) noexcept { return *static_cast<Endpoint*>(delivery.from.upper); }

}  // namespace opal::am
