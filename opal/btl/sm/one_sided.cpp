// SPDX-License-Identifier: Apache-2.0
// Put and get of a shared-memory module: by the peer's copy mechanisms, and what that leaves over by the
// emulation.
#include <algorithm>

#include "opal/btl/sm/module.hpp"
#include "opal/core/clock.hpp"

namespace opal::btl::sm {

/// The range, if the peer's own table says that it may be touched.
Result<RemoteRange> Module::reach(Endpoint& to, std::uint64_t address, const MemoryHandle& remote, std::uint64_t size,
                                  Rights wanted) noexcept {
  if (to.dead()) return to.error();
  if (to.link_->gone->load(std::memory_order_acquire)) {  // its PID may be somebody else's by now
    return Error{Errc::peer_gone, 0, "sm: the peer has hung up"};
  }
  OPAL_TRY_ASSIGN(const SoftwareHandle region, SoftwareHandle::decode(remote));
  if (const auto checked = to.link_->registrations.check(remote, address, size, wanted); !checked) {
    // What is missing in the table of an address space the owner may still find: it is asked, by a message.
    if (!region.of_address_space()) return checked.error();
    return Error{Errc::not_supported, 0, "sm: not in the peer's table of mappings", address};
  }
  const std::uint32_t pool = to.link_->registrations.pool_of(region);
  if (pool == RegistrationView::kOfGpu) {  // for no kind of single copy; its owner can
    return Error{Errc::not_supported, 0, "sm: the memory is a GPU's", address};
  }
  return RemoteRange{address, size, region, pool};
}

Result<void> Module::check_remote(btl::Endpoint& to, const MemoryHandle& remote, std::uint64_t address,
                                  std::uint64_t size, Rights wanted) noexcept {
  const auto& peer = static_cast<Endpoint&>(to);
  if (peer.dead()) return peer.error();
  if (peer.link_->gone->load(std::memory_order_acquire)) return Error{Errc::peer_gone, 0, "sm: the peer has hung up"};
  return peer.link_->registrations.check(remote, address, size, wanted);
}

Post Module::put(btl::Endpoint& to, const void* source, const MemoryHandle* local, std::uint64_t remote_address,
                 const MemoryHandle& remote, std::uint64_t size, Completion& completion) noexcept {
  auto& peer = static_cast<Endpoint&>(to);
  const auto* from = static_cast<const std::byte*>(source);
  std::uint64_t copied = 0;
  if (CopyMechanisms& mechanisms = peer.link_->copy; !mechanisms.empty()) {
    const auto range = reach(peer, remote_address, remote, size, Rights::remote_write);
    CopyOutcome outcome;
    if (!range) {
      outcome.error = range.error();
    } else if (size < least_helped()) {
      outcome = mechanisms.write(*range, from);
    } else {
      const bool streamed = is_streamed(peer);
      WayChooser& chooser = chooser_of(peer, *range, streamed, true);
      Pulls::Request request{
          const_cast<std::byte*>(from), *range, &completion, Way::cooperative, streamed, puts_posted_ + 1};
      if (chooser.choose(size, ways(peer, *range, true)) == Way::cooperative && begin_pull(peer, request)) {
        ++puts_posted_;
        return Post::queued;
      }
      const std::uint64_t begin = now_ns();
      outcome = mechanisms.write(*range, from);
      if (outcome.ok()) chooser.learn(size, Way::alone, now_ns() - begin);
    }
    if (outcome.ok()) return Post::done;
    if (outcome.error.code != Errc::not_supported) {
      completion.error = outcome.error;
      return Post::failed;
    }
    copied = outcome.copied;
  }
  return MessageTransport::put(to, from + copied, local, remote_address + copied, remote, size - copied, completion);
}

Post Module::get(btl::Endpoint& to, void* destination, const MemoryHandle* local, std::uint64_t remote_address,
                 const MemoryHandle& remote, std::uint64_t size, Completion& completion) noexcept {
  auto& peer = static_cast<Endpoint&>(to);
  auto* into = static_cast<std::byte*>(destination);
  std::uint64_t copied = 0;
  CopyMechanisms& mechanisms = peer.link_->copy;
  if (!mechanisms.empty() || size >= least_helped()) {
    const auto range = reach(peer, remote_address, remote, size, Rights::remote_read);
    CopyOutcome outcome;
    if (!range) {
      outcome.error = range.error();
    } else if (size < least_helped()) {
      outcome = mechanisms.read(into, *range);
    } else {
      const bool streamed = is_streamed(peer);
      WayChooser& chooser = chooser_of(peer, *range, streamed, false);
      const Way way = chooser.choose(size, ways(peer, *range, false));
      if (way != Way::alone && begin_pull(peer, {into, *range, &completion, way, streamed})) return Post::queued;
      const std::uint64_t begin = now_ns();
      outcome = mechanisms.read(into, *range);
      if (outcome.ok()) chooser.learn(size, Way::alone, now_ns() - begin);
    }
    if (outcome.ok()) return Post::done;
    if (outcome.error.code != Errc::not_supported) {
      completion.error = outcome.error;
      return Post::failed;
    }
    copied = outcome.copied;
  }
  return MessageTransport::get(to, into + copied, local, remote_address + copied, remote, size - copied, completion);
}

/// Puts in which the peer helps are no operations of the emulation, so its flush would not wait for them.
Post Module::flush(btl::Endpoint* to, Completion& completion) noexcept {
  const PendingFlush flush{to, puts_posted_, &completion};
  if (!puts_before(flush)) return MessageTransport::flush(to, completion);
  completion.error = {};
  flushes_.push_back(flush);
  return Post::queued;
}

/// Whether one of ours that the flush waits for is under way.
bool Module::puts_before(const PendingFlush& flush) const noexcept {
  return std::any_of(pulling_.begin(), pulling_.end(), [&](const Endpoint* endpoint) {
    return (flush.to == nullptr || flush.to == endpoint) && endpoint->pulls_->has_put_up_to(flush.last);
  });
}

void Module::check_flushes() noexcept {
  for (std::size_t i = 0; i < flushes_.size();) {
    if (puts_before(flushes_[i])) {
      ++i;
      continue;
    }
    const PendingFlush flush = flushes_[i];
    flushes_.erase(flushes_.begin() + static_cast<std::ptrdiff_t>(i));
    if (MessageTransport::flush(flush.to, *flush.completion) == Post::done) flush.completion->finish();
    i = 0;  // the completion may have posted or flushed
  }
}

Post Module::atomic(btl::Endpoint& to, const AtomicRequest& request, Completion& completion) noexcept {
  auto& peer = static_cast<Endpoint&>(to);
  const std::size_t size = size_of(request.type);
  if (peer.link_->shared != nullptr && request.remote_address % size == 0 && is_supported(request.op, request.type)) {
    const auto range = reach(peer, request.remote_address, *request.remote, size, Rights::remote_atomic);
    std::byte* const here = range ? peer.link_->shared->map(*range) : nullptr;
    if (here != nullptr) {
      // As the target does it for others, so that both kinds are atomic towards each other.
      const std::uint64_t old = execute_atomic(request.op, request.type, here, request.operand, request.compare);
      if (request.result != nullptr) *request.result = old;
      return Post::done;
    }
  }
  return MessageTransport::atomic(to, request, completion);
}

}  // namespace opal::btl::sm
