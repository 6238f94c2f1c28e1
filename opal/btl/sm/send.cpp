// SPDX-License-Identifier: Apache-2.0
// The sending half of a shared-memory module: fast box, else a fragment announced in the peer's FIFO.
#include "opal/btl/answer.hpp"
#include "opal/btl/sm/module.hpp"

namespace opal::btl::sm {
namespace {

// A peer that has no box to give now may have one later; asking costs it a look, so not at once.
constexpr std::uint32_t kRetryFactor = 64;

constexpr bool is_tag(Tag tag) noexcept { return static_cast<Tag>(tag - 1) < 0xfffe; }

/// Fragments name their place in the segment where other transports keep a pointer.
void* slot_of(FragmentRef fragment) noexcept {
  return reinterpret_cast<void*>(std::uintptr_t{fragment.line} << 1 | fragment.size_class);
}
FragmentRef fragment_of(OutSegment& segment, const void* slot) noexcept {
  const auto name = reinterpret_cast<std::uintptr_t>(slot);
  return segment.fragments().at(static_cast<std::uint32_t>(name >> 1), name & 1);
}

}  // namespace

Post Module::send_inline(btl::Endpoint& to, Tag tag, ByteSpan header, ByteSpan payload) noexcept {
  auto& peer = static_cast<Endpoint&>(to);
  if (peer.send_lock != nullptr) [[unlikely]]
    return send_inline_locked(peer, tag, header, payload);
  if (is_tag(tag) && peer.push_to_box(tag, header, payload)) [[likely]]
    return Post::done;
  return send_by_fifo(peer, tag, header, payload);
}

Post Module::send_inline_locked(Endpoint& to, Tag tag, ByteSpan header, ByteSpan payload) noexcept {
  const Endpoint::SendGuard guard{to};
  if (send_beside(to, tag, header, payload) == Post::done) return Post::done;
  return send_by_fifo(to, tag, header, payload);
}

/// By the box alone: fragments, and a peer that has failed, are the module's business.
Post Module::send_beside(btl::Endpoint& to, Tag tag, ByteSpan header, ByteSpan payload) noexcept {
  const bool sent = is_tag(tag) && static_cast<Endpoint&>(to).push_to_box(tag, header, payload);
  return sent ? Post::done : Post::again;
}

/// Holding the send lock.
Post Module::refuse(Endpoint& to, Tag tag, std::size_t size) noexcept {
  if (to.dead()) return Post::failed;
  if (to.box_out_.broken() || to.link_->out->fragments().broken()) {
    fail_with_send_lock(to, {Errc::protocol, 0, "sm: the peer gave back what it did not have"});
    return Post::failed;
  }
  if (!is_tag(tag)) {
    to.set_error({Errc::invalid_argument, 0, "sm send: not a tag", tag});
    return Post::failed;
  }
  if (size > config_.max_send.bytes) {
    to.set_error({Errc::invalid_argument, 0, "sm send: longer than max_send", size});
    return Post::failed;
  }
  return Post::done;
}

/// Holding the send lock.
Post Module::send_by_fifo(Endpoint& to, Tag tag, ByteSpan header, ByteSpan payload) noexcept {
  const std::size_t size = header.size() + payload.size();
  if (const Post post = refuse(to, tag, size); post != Post::done) return post;
  if (to.offer_open_) check_for_box(to);
  FragmentPool& fragments = to.link_->out->fragments();
  const FragmentRef fragment = fragments.take(size, is_answer(tag));
  if (!fragment) {
    to.end_rest();
    if (fragments.broken()) return refuse(to, tag, size);
    return starve(to, {.box = to.box_out_.takes(size), .fragments = true});
  }
  copy_to(fragment.body(), header);
  copy_to(fragment.body() + header.size(), payload);
  const Post post = post_fragment(to, fragment, tag, size);
  if (post == Post::again) fragments.put_back(fragment);
  return post;
}

Post Module::post_fragment(Endpoint& to, FragmentRef fragment, Tag tag, std::size_t size) noexcept {
  const std::uint32_t flags = offer_box_if_due(to);
  *fragment.header = {static_cast<std::uint32_t>(size), tag, to.next_seq_, fragment.size_class, flags};
  FifoProducer& fifo = to.link_->inbox.fifo();
  const std::size_t keep = is_answer(tag) ? 0 : fifo.slots() / 4;  // however many flood a receiver, answers reach it
  if (!fifo.push({to.link_->index_there, fragment.line}, keep)) {
    to.end_rest();
    return starve(to, {.box = to.box_out_.takes(size), .fifo = true});
  }
  to.link_->out->fragments().sent(fragment);
  ++to.next_seq_;
  if (flags != 0) to.offer_open_ = true;
  if (to.sends_till_box_ != 0) --to.sends_till_box_;
  to.count_rest();
  to.wake();
  return Post::done;
}

std::uint32_t Module::offer_box_if_due(Endpoint& to) noexcept {
  if (to.sends_till_box_ != 0 || to.offer_open_ || to.box_out_.on()) return 0;
  if (to.link_->out->offer_box(static_cast<std::uint32_t>(config_.fbox_size.bytes))) return wire::kOffersBox;
  to.sends_till_box_ = config_.fbox_threshold * kRetryFactor;
  return 0;
}

void Module::check_for_box(Endpoint& to) noexcept {
  switch (to.link_->out->answer()) {
    case OutSegment::Answer::none: return;
    case OutSegment::Answer::accepted:
      to.box_out_ = to.link_->out->box(static_cast<std::size_t>(config_.fbox_limit.bytes));
      to.box_rest_ = 0;
      to.sends_till_box_ = config_.fbox_threshold;  // should it be taken back
      break;
    case OutSegment::Answer::refused: to.sends_till_box_ = config_.fbox_threshold * kRetryFactor; break;
  }
  to.offer_open_ = false;
}

Fragment Module::alloc(btl::Endpoint& to, std::size_t size) noexcept {
  auto& peer = static_cast<Endpoint&>(to);
  const Endpoint::SendGuard guard{peer};
  if (refuse(peer, kBtlTags.first, size) != Post::done) return {};
  const FragmentRef fragment = peer.link_->out->fragments().take(size, false);
  if (!fragment) {
    (void)starve(peer, {.fragments = true});
    return {};
  }
  return Fragment{to, {fragment.body(), size}, slot_of(fragment)};
}

Post Module::send(Fragment& fragment, Tag tag) noexcept {
  auto& to = static_cast<Endpoint&>(fragment.to());
  const std::size_t size = fragment.data().size();
  const Endpoint::SendGuard guard{to};
  if (refuse(to, tag, size) != Post::done) {
    put_back(fragment);
    return Post::failed;
  }
  if (to.offer_open_) check_for_box(to);
  // A short message is cheaper copied once more into the box than announced in the FIFO.
  if (to.push_to_box(tag, fragment.data(), {})) {
    put_back(fragment);
    return Post::done;
  }
  const Post post = post_fragment(to, fragment_of(*to.link_->out, fragment.slot()), tag, size);
  if (post == Post::done) fragment.disown();
  return post;
}

void Module::free(Fragment& fragment) noexcept {
  const Endpoint::SendGuard guard{fragment.to()};
  put_back(fragment);
}

/// Holding the send lock.
void Module::put_back(Fragment& fragment) noexcept {
  OutSegment& segment = *static_cast<Endpoint&>(fragment.to()).link_->out;
  segment.fragments().put_back(fragment_of(segment, fragment.slot()));
  fragment.disown();
}

}  // namespace opal::btl::sm
