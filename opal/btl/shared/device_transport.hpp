// SPDX-License-Identifier: Apache-2.0
// opal/btl/shared/device_transport.hpp — the base of a transport whose device does puts and gets, and perhaps atomics,
// on registered memory (DeviceHandle).  To ConnectedTransport it adds the choice of what moves an operation:
//   PipelinedTransfers    an address space as the target
//   messages              what the device cannot do: memory without a key, some peers, some atomics; and everything if
//                         Attributes::own_handles is false
//   the device            all others
// Registrations are with the device, or in the Context's table if own_handles is false.
// A transport implements memory(), way_to(), start(), finish() and drop().
// It also has what such transports do alike with messages in buffers of the device: E::send_inline() and
// E::send_buffer() send them, and E::visible says whether the layer above knows the endpoint.  Threads: as btl::Module.
#pragma once
#include <algorithm>
#include <chrono>
#include <deque>

#include "opal/btl/shared/connected_transport.hpp"
#include "opal/btl/shared/registrations/claims.hpp"
#include "opal/btl/shared/registrations/device_memory.hpp"

namespace opal::btl {

/// What the device needs for an RdmaOperation.  A transport derives its own from it.
struct DeviceTransfer {
  DeviceHandle handle{};           ///< remote
  AtomicRequest request{};         ///< of an atomic; its `remote` is not valid
  std::uint64_t acknowledged = 0;  ///< bytes that have moved
};

template <class E, class Transfer>  // derived from btl::Endpoint and DeviceTransfer
class DeviceTransport : public ConnectedTransport<E> {
 public:
  Post send_inline(Endpoint& to, Tag tag, ByteSpan header, ByteSpan payload) noexcept final {
    if (!this->accepts(to, header.size() + payload.size())) [[unlikely]]
      return Post::failed;
    return static_cast<E&>(to).send_inline(tag, header, payload);
  }
  Post send(Fragment& fragment, Tag tag) noexcept final {
    auto& buffer = *static_cast<typename E::Buffer*>(fragment.slot());
    const Post post = fragment.to().dead()
                          ? Post::failed
                          : static_cast<E&>(fragment.to()).send_buffer(tag, buffer, fragment.data().size());
    if (post == Post::failed) {
      this->free(fragment);
    } else if (post == Post::done) {
      fragment.disown();
    }
    return post;
  }

  Result<MemoryHandle> register_memory(void* base, std::uint64_t size, Rights rights) override {
    return native() ? memory().add(base, size, rights) : this->MessageTransport::register_memory(base, size, rights);
  }
  Result<void> deregister_memory(const MemoryHandle& handle) final {
    return native() ? memory().remove(handle) : this->MessageTransport::deregister_memory(handle);
  }
  void invalidate_memory(const MemoryHandle& handle) noexcept final {
    return native() ? memory().invalidate(handle) : this->MessageTransport::invalidate_memory(handle);
  }
  void invalidate_memory_part(const MemoryHandle& handle, memory::Range gone) noexcept final {
    return native() ? memory().invalidate_part(handle, gone)
                    : this->MessageTransport::invalidate_memory_part(handle, gone);
  }

  Post transfer(OperationKind kind, Endpoint& to, std::byte* here, const MemoryHandle* local,
                std::uint64_t remote_address, const MemoryHandle& remote, std::uint64_t size,
                Completion& completion) noexcept final {
    if (to.dead()) return refuse(completion, to.error());
    const auto by_messages = [&](const MemoryHandle& handle) {
      return this->MessageTransport::transfer(kind, to, here, nullptr, remote_address, handle, size, completion);
    };
    if (!native()) return by_messages(remote);
    if (this->pipelined().takes(remote)) {
      return this->pipelined().transfer(kind, to, here, local, remote_address, remote, size, completion);
    }
    const auto handle = usable(remote, remote_address, size, right_for(kind));
    if (!handle) return refuse(completion, handle.error());
    completion.error = {};
    if (size == 0) return Post::done;
    const Way way = handle->has_key() ? way_to(static_cast<E&>(to)) : Way::messages;
    if (way == Way::messages) return by_messages(handle->software_handle());
    RdmaOperation* const operation = way == Way::device ? begin(kind, to, *handle, completion) : nullptr;
    if (operation == nullptr) return Post::again;
    operation->local = here;
    operation->has_local_handle = local != nullptr;
    if (local != nullptr) operation->local_handle = *local;
    operation->base = remote_address;
    operation->total = size;
    start(*operation);
    return Post::queued;
  }

  Post atomic(Endpoint& to, const AtomicRequest& request, Completion& completion) noexcept final {
    if (to.dead()) return refuse(completion, to.error());
    // Some devices never complete a misaligned one.
    if (const auto checked = check_request(request); !checked) return refuse(completion, checked.error());
    if (!native() || this->pipelined().takes(*request.remote)) return this->emulation().atomic(to, request, completion);
    const std::size_t size = size_of(request.type);
    const auto handle = usable(*request.remote, request.remote_address, size, Rights::remote_atomic);
    if (!handle) return refuse(completion, handle.error());
    completion.error = {};
    const bool has = (handle->flags & DeviceHandle::kAtomics) != 0 && has_atomic(request.op, request.type);
    const Way way = has ? way_to(static_cast<E&>(to)) : Way::messages;
    if (way == Way::messages) {
      const MemoryHandle software = handle->software_handle();
      AtomicRequest plain = request;
      plain.remote = &software;
      return this->emulation().atomic(to, plain, completion);
    }
    RdmaOperation* const operation =
        way == Way::device ? begin(OperationKind::atomic, to, *handle, completion) : nullptr;
    if (operation == nullptr) return Post::again;
    operation->has_local_handle = false;
    operation->base = request.remote_address;
    operation->total = size;
    operation->result = request.result;
    transfer_of(*operation).request = request;
    start(*operation);
    return Post::queued;
  }

  /// True if put and get use the device.
  [[nodiscard]] bool native() const noexcept { return this->attributes().own_handles; }
  [[nodiscard]] Transfer& transfer_of(const RdmaOperation& operation) noexcept { return transfers_[operation.slot]; }

  // For endpoints.
  /// `time` from now, in ns of now_ns().
  [[nodiscard]] static std::uint64_t time_after(std::chrono::nanoseconds time) noexcept {
    return now_ns() + static_cast<std::uint64_t>(time.count());
  }
  void deliver(E& from, Tag tag, ByteSpan data) noexcept {
    if (turns_ != 0) --turns_;
    ++events_;
    Delivery delivery{from, tag, data};
    this->parameters().handlers.dispatch(delivery);
  }
  /// The peer has proven that it belongs to the job.
  void on_confirmed(E& endpoint) noexcept {
    ++events_;
    if (endpoint.visible) return;
    endpoint.visible = true;
    this->parameters().observer.on_accepted(endpoint);
  }
  void on_ended(E& endpoint) noexcept {
    if (!endpoint.visible) return this->discard(endpoint);
    this->end(endpoint);
  }

 protected:
  using ConnectedTransport<E>::ConnectedTransport;

  /// The registrations with the device.
  [[nodiscard]] virtual DeviceRegistrations& memory() noexcept = 0;
  enum class Way : std::uint8_t { device, messages, later };
  /// What moves operations on the endpoint; `later`: the device, after some progress().
  [[nodiscard]] virtual Way way_to(E& endpoint) noexcept = 0;
  /// True if start() takes such atomics.
  [[nodiscard]] virtual bool has_atomic(AtomicOp /*op*/, AtomicType /*type*/) const noexcept { return false; }
  /// Starts an operation, whose Transfer is set; finish() follows.  Requires: way_to() has returned `device`.
  virtual void start(RdmaOperation& operation) noexcept = 0;
  /// Ends an operation that was started, in operations().
  virtual void finish(RdmaOperation& operation, const Error& why) noexcept = 0;
  /// Gives up the operations on the endpoint; afterwards the device does not access their memory.  The caller finishes
  /// them.
  virtual void drop(E& endpoint) noexcept = 0;

  void end_operations(E& endpoint, const Error& why) noexcept final {
    drop(endpoint);
    ConnectedTransport<E>::end_operations(endpoint, why);
    this->operations().for_each(endpoint, this, [&](RdmaOperation& operation) { finish(operation, why); });
  }

  /// A progress() begins, which may run `budget` handlers.
  void begin_round(std::size_t budget) noexcept {
    turns_ = std::max<std::size_t>(budget, 1);
    events_ = 0;
  }
  /// False: this progress() has run as many handlers as its budget allows.
  [[nodiscard]] bool may_run() const noexcept { return turns_ != 0; }
  [[nodiscard]] std::size_t turns() const noexcept { return turns_; }
  void count_event() noexcept { ++events_; }
  [[nodiscard]] std::size_t event_count() const noexcept { return events_; }

 private:
  static Result<DeviceHandle> usable(const MemoryHandle& remote, std::uint64_t address, std::uint64_t size,
                                     Rights wanted) noexcept {
    OPAL_TRY_ASSIGN(const DeviceHandle handle, DeviceHandle::decode(remote));
    OPAL_TRY(check_claims(handle.software, address, size, wanted));
    return handle;
  }
  /// Null: too many operations are in flight.
  RdmaOperation* begin(OperationKind kind, Endpoint& to, const DeviceHandle& handle, Completion& completion) {
    RdmaOperation* const operation = this->operations().begin(kind, to, completion, this);
    if (operation == nullptr) return nullptr;
    while (transfers_.size() <= operation->slot) transfers_.emplace_back();
    transfer_of(*operation) = {};
    transfer_of(*operation).handle = handle;
    return operation;
  }

  std::deque<Transfer> transfers_;  // by the operation's slot
  std::size_t turns_ = 0;           // handlers that this progress() may still run
  std::size_t events_ = 0;          // events of this progress()
};

}  // namespace opal::btl
