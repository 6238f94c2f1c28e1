// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/sm/messages/sender.hpp"

#include "opal/btl/tag.hpp"

namespace opal::btl::sm {
namespace {

// A peer that refuses a fast box may accept one later.  Each offer costs the peer time, so after a refusal the next
// offer comes after fbox_threshold times this factor messages.
constexpr std::uint32_t kRetryFactor = 64;

MessagePeer& peer_of(Fragment& fragment) noexcept { return static_cast<MessagePeer&>(fragment.to()); }

/// Encodes the position of a fragment in the segment as the pointer that btl::Fragment carries.
void* slot_of(FragmentRef fragment) noexcept {
  return reinterpret_cast<void*>(std::uintptr_t{fragment.line} << 1 | fragment.size_class);
}
FragmentRef fragment_of(OutSegment& segment, const void* slot) noexcept {
  const auto name = reinterpret_cast<std::uintptr_t>(slot);
  return segment.fragments().at(static_cast<std::uint32_t>(name >> 1), name & 1);
}

}  // namespace

/// With a send lock, the caller has tried nothing; without one, it has tried the fast box.
Post Sender::send_slow(MessagePeer& to, Tag tag, ByteSpan header, ByteSpan payload) noexcept {
  const btl::Endpoint::SendGuard guard{to};
  if (to.send_lock != nullptr && try_send_concurrent(to, tag, header, payload) == Post::done) return Post::done;
  return send_by_fifo(to, tag, header, payload);
}

/// Checks a message before it is sent.  Returns done or failed.
Post Sender::check(MessagePeer& to, Tag tag, std::size_t size) noexcept {
  if (to.dead()) return Post::failed;
  if (to.sending.fast_box.broken() || to.messages().out->fragments().broken()) {
    peers_.fail_with_send_lock(to, {Errc::protocol, 0, "sm: the peer returned credit that it did not have"});
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

Post Sender::send_by_fifo(MessagePeer& to, Tag tag, ByteSpan header, ByteSpan payload) noexcept {
  const std::size_t size = header.size() + payload.size();
  if (const Post post = check(to, tag, size); post != Post::done) return post;
  SendingHalf& half = to.sending;
  if (half.offer_open) read_answer(to);
  FragmentPool& fragments = to.messages().out->fragments();
  const FragmentRef fragment = fragments.take(size, is_answer(tag));
  if (!fragment) {
    half.end_rest();
    if (fragments.broken()) return check(to, tag, size);
    return back_pressure_.refuse(to, {.fast_box = half.fast_box.takes(size), .fragments = true});
  }
  copy_to(fragment.body(), header);
  copy_to(fragment.body() + header.size(), payload);
  const Post post = post_fragment(to, fragment, tag, size);
  if (post == Post::again) fragments.put_back(fragment);
  return post;
}

Post Sender::post_fragment(MessagePeer& to, FragmentRef fragment, Tag tag, std::size_t size) noexcept {
  SendingHalf& half = to.sending;
  MessageLink& link = to.messages();
  const std::uint32_t flags = offer_fast_box_if_due(to);
  *fragment.header = {static_cast<std::uint32_t>(size), tag, half.next_seq, fragment.size_class, flags};
  FifoProducer& fifo = link.inbox.fifo();
  const std::size_t keep = is_answer(tag) ? 0 : fifo.slots() / 4;  // a quarter of the FIFO is for answers only
  if (!fifo.push({link.index_there, fragment.line}, keep)) {
    half.end_rest();
    return back_pressure_.refuse(to, {.fast_box = half.fast_box.takes(size), .fifo = true});
  }
  link.out->fragments().sent(fragment);
  ++half.next_seq;
  if (flags != 0) half.offer_open = true;
  if (half.sends_till_offer != 0) --half.sends_till_offer;
  half.count_rest();
  to.wake();
  return Post::done;
}

std::uint32_t Sender::offer_fast_box_if_due(MessagePeer& to) noexcept {
  SendingHalf& half = to.sending;
  if (half.sends_till_offer != 0 || half.offer_open || half.fast_box.on()) return 0;
  if (to.messages().out->offer_box(static_cast<std::uint32_t>(config_.fbox_size.bytes))) return wire::kOffersBox;
  half.sends_till_offer = config_.fbox_threshold * kRetryFactor;
  return 0;
}

void Sender::read_answer(MessagePeer& to) noexcept {
  SendingHalf& half = to.sending;
  OutSegment& segment = *to.messages().out;
  const auto accepted = segment.answer_to_offer();
  if (!accepted) return;
  half.offer_open = false;
  // For the next offer: after a refusal, or after the receiver closes this box.
  half.sends_till_offer = config_.fbox_threshold * (*accepted ? 1 : kRetryFactor);
  if (*accepted) half.use(segment.box(static_cast<std::size_t>(config_.fbox_limit.bytes)));
}

Fragment Sender::alloc(MessagePeer& to, std::size_t size) noexcept {
  const btl::Endpoint::SendGuard guard{to};
  if (check(to, kBtlTags.first, size) != Post::done) return {};
  const FragmentRef fragment = to.messages().out->fragments().take(size, false);
  if (!fragment) {
    (void)back_pressure_.refuse(to, {.fragments = true});
    return {};
  }
  return Fragment{to, {fragment.body(), size}, slot_of(fragment)};
}

Post Sender::send(Fragment& fragment, Tag tag) noexcept {
  MessagePeer& to = peer_of(fragment);
  const std::size_t size = fragment.data().size();
  const btl::Endpoint::SendGuard guard{to};
  if (check(to, tag, size) != Post::done) {
    put_back(fragment);
    return Post::failed;
  }
  if (to.sending.offer_open) read_answer(to);
  // A copy of a short message into the fast box costs less than an announcement in the FIFO.
  if (to.push(tag, fragment.data(), {})) {
    put_back(fragment);
    return Post::done;
  }
  const Post post = post_fragment(to, fragment_of(*to.messages().out, fragment.slot()), tag, size);
  if (post == Post::done) fragment.disown();
  return post;
}

void Sender::free(Fragment& fragment) noexcept {
  const btl::Endpoint::SendGuard guard{fragment.to()};
  put_back(fragment);
}

void Sender::put_back(Fragment& fragment) noexcept {
  OutSegment& segment = *peer_of(fragment).messages().out;
  segment.fragments().put_back(fragment_of(segment, fragment.slot()));
  fragment.disown();
}

}  // namespace opal::btl::sm
