// SPDX-License-Identifier: Apache-2.0
// The rarely executed functions of an Endpoint: queueing, fragments, explanations, keys.
#include "opal/am/endpoint.hpp"

#include <array>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>

#include "opal/am/state.hpp"
#include "opal/am/transports/key.hpp"
#include "opal/btl/shared/registrations/claims.hpp"
#include "opal/gpu/copies/copy.hpp"

namespace opal::am {

Endpoint::Endpoint(Context& context, const PeerId& peer, Lock& lock)
    : lock_(lock), gpus_(gpu::active()), special_(gpus_), context_(context), peer_(peer) {}

Endpoint::~Endpoint() = default;

std::string Endpoint::explain() const {
  const Lock::Guard guard{lock_};
  return explanation_;
}

void Endpoint::add_route(btl::Endpoint& route, bool taken) {
  route.upper = this;
  if (lock_.real()) route.send_lock = &send_lock_;
  routes_.push_back(&route);
  if (taken) take_route(route);
}

void Endpoint::take_route(btl::Endpoint& route) noexcept {
  const std::lock_guard lock{send_lock_};
  route_ = &route;
}

void Endpoint::leave_to_parent(btl::Endpoint& nowhere) noexcept {
  parents_route_ = std::exchange(route_, &nowhere);
  registrations_ = nullptr;
}

void Endpoint::take_over() noexcept {
  std::construct_at(&send_lock_);
  if (parents_route_ != nullptr) route_ = std::exchange(parents_route_, nullptr);
}

namespace {

Post fail(btl::Endpoint& route, const Error& why) noexcept {
  route.set_error(why);
  return Post::failed;
}

}  // namespace

Post Endpoint::refuse_tag(Tag tag) noexcept {
  const Lock::Guard guard{lock_};
  return fail(*route_, {Errc::invalid_argument, 0, "send: 0 and 0xffff are not tags", tag});
}

/// send_inline() also while messages are queued and for GPU memory.
Post Endpoint::send_special(Tag tag, ByteSpan header, ByteSpan payload) noexcept {
  if (has_pending()) return Post::again;
  btl::Module& module = route_->module();
  if (payload.empty() || gpu::is_host(payload.data())) return module.send_inline(*route_, tag, header, payload);
  if (route_->dead()) return Post::failed;
  route_->set_error({});
  btl::Fragment fragment = module.prepare_src(*route_, header, payload);
  if (!fragment) return route_->error().code == Errc{} ? Post::again : Post::failed;
  return module.send(fragment, tag);
}

/// Sends under the send lock alone if special_ is false and the transport supports that; else under the Context's lock.
Post Endpoint::send_beside(Tag tag, ByteSpan header, ByteSpan payload) noexcept {
  {
    const std::lock_guard lock{send_lock_};
    if (!special_ && route_->module().send_beside(*route_, tag, header, payload) == Post::done) [[likely]]
      return Post::done;
  }
  const Lock::Guard guard{lock_};
  return send_special(tag, header, payload);
}

Post Endpoint::send_or_queue(Tag tag, ByteSpan header, ByteSpan payload) noexcept {
  return send_or_queue_up_to(context_.state_->config.pending_limit.bytes, tag, header, payload);
}

/// `limit`: the most bytes that wait afterwards.
Post Endpoint::send_or_queue_up_to(std::uint64_t limit, Tag tag, ByteSpan header, ByteSpan payload) noexcept {
  if (!is_tag(tag)) return refuse_tag(tag);
  const Lock::Guard guard{lock_};
  if (leaving_) return fail(*route_, {Errc::canceled, 0, "am: disconnected"});
  const std::size_t size = header.size() + payload.size();
  const Post post = send_special(tag, header, payload);
  if (post != Post::again) return post;
  Context::State& state = *context_.state_;
  if (size > route_->module().attributes().max_send) {  // queued, it would fail later and nothing would report it
    return fail(*route_, {Errc::invalid_argument, 0, "send_or_queue: longer than max_send", size});
  }
  if ((has_pending() ? pending_->bytes : 0) + size > limit) {
    return fail(*route_, {Errc::limit_reached, 0, "send_or_queue: am_pending_limit bytes wait already", size});
  }
  std::vector<std::byte> bytes(size);
  if (!header.empty()) std::memcpy(bytes.data(), header.data(), header.size());
  if (const auto copied = gpu::copy(bytes.data() + header.size(), payload.data(), payload.size()); !copied) {
    return fail(*route_, copied.error());
  }
  if (!has_pending()) state.pending.push_back(this);
  state.retry = true;
  make_pending().messages.push_back({tag, std::move(bytes)});
  pending_->bytes += size;
  return Post::done;
}

Post Endpoint::transfer_gpu(btl::OperationKind kind, std::byte* here, std::uint64_t remote_address,
                            const MemoryHandle& remote, std::uint64_t size, Completion& completion) noexcept {
  btl::Module& module = route_->module();
  if (module.attributes().gpu_memory) {
    const Post post = module.transfer(kind, *route_, here, nullptr, remote_address, remote, size, completion);
    // not_supported: the module cannot access this GPU memory, so the data is staged.
    if (post != Post::failed || completion.error.code != Errc::not_supported) return post;
  }
  return context_.state_->staged->transfer(kind, *route_, here, remote_address, remote, size, completion);
}

Post Endpoint::send(Tag tag, ByteSpan header, ByteSpan payload, Completion& completion) noexcept {
  const Lock::Guard guard{lock_};
  if (leaving_) return btl::refuse(completion, {Errc::canceled, 0, "am: disconnected"});
  if (header.size() + payload.size() <= route_->module().attributes().max_send) {
    const Post post = send_or_queue(tag, header, payload);
    return post == Post::failed ? btl::refuse(completion, route_->error()) : post;
  }
  if (!is_tag(tag) || kBtlTags.contains(tag) || kAmTags.contains(tag)) {
    return btl::refuse(completion, {Errc::invalid_argument, 0, "send: not a tag of a large message", tag});
  }
  if (route_->dead()) return btl::refuse(completion, route_->error());
  Context::State& state = *context_.state_;
  if (state.quiesce.active || registrations_.load(std::memory_order_relaxed) == nullptr) return Post::again;
  return state.sends.send(*this, *route_, tag, header, payload, completion);
}

namespace {

/// Copies the parts to `to`, one after the other; they may be GPU memory.
Result<void> gather(std::byte* to, std::span<const ByteSpan> parts) noexcept {
  for (const ByteSpan part : parts) {
    if (part.empty()) continue;
    OPAL_TRY(gpu::copy(to, part.data(), part.size()));
    to += part.size();
  }
  return {};
}

constexpr std::size_t kShortMessage = 256;  // cheaper as an inline send than in a fragment

}  // namespace

Post Endpoint::send_iov(Tag tag, std::span<const ByteSpan> parts) noexcept {
  if (!is_tag(tag)) return refuse_tag(tag);
  const Lock::Guard guard{lock_};
  std::size_t size = 0;
  const std::size_t max_send = route_->module().attributes().max_send;
  for (const ByteSpan part : parts) {
    if (part.size() > max_send - size) {
      return fail(*route_, {Errc::invalid_argument, 0, "send_iov: longer than max_send", part.size()});
    }
    size += part.size();
  }
  if (has_pending()) return Post::again;
  if (size <= kShortMessage) {
    std::array<std::byte, kShortMessage> message;
    if (const auto copied = gather(message.data(), parts); !copied) return fail(*route_, copied.error());
    return send_inline(tag, {message.data(), size}, {});
  }
  if (route_->dead()) return Post::failed;
  route_->set_error({});
  btl::Fragment fragment = route_->module().alloc(*route_, size);
  if (!fragment) return route_->error().code == Errc{} ? Post::again : Post::failed;
  if (const auto copied = gather(fragment.data().data(), parts); !copied) return fail(*route_, copied.error());
  return route_->module().send(fragment, tag);
}

Endpoint::Pending& Endpoint::make_pending() {
  if (pending_ == nullptr) pending_ = std::make_unique<Pending>();
  const std::lock_guard lock{send_lock_};
  special_ = true;
  return *pending_;
}

void Endpoint::drop_pending() noexcept {
  pending_.reset();
  const std::lock_guard lock{send_lock_};
  special_ = gpus_;
}

btl::Fragment Endpoint::alloc(std::size_t size) noexcept {
  const Lock::Guard guard{lock_};
  if (has_pending()) return {};
  return route_->module().alloc(*route_, size);
}

Post Endpoint::send(btl::Fragment& fragment, Tag tag) noexcept {
  const Lock::Guard guard{lock_};
  btl::Module& module = fragment.to().module();
  if (!is_tag(tag) || &fragment.to() != route_) {
    if (!is_tag(tag)) (void)refuse_tag(tag);
    module.free(fragment);
    return Post::failed;
  }
  if (has_pending()) return Post::again;
  return module.send(fragment, tag);
}

Result<MemoryHandle> Endpoint::unpack_key(ByteSpan key) const {
  const Lock::Guard guard{lock_};
  if (!route_->dead() && registrations_.load(std::memory_order_relaxed) == nullptr) {
    return Error{Errc::busy, 0, "Endpoint::unpack_key: which transport reaches the peer is not known yet"};
  }
  return find_handle(key, route_->module().attributes().transport);
}

}  // namespace opal::am
