// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/tcp/endpoint.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <utility>

#include "opal/btl/tcp/connections/sockets.hpp"
#include "opal/btl/tcp/module.hpp"
#include "opal/core/clock.hpp"
#include "opal/core/log.hpp"
#include "opal/core/system/guarded_copy.hpp"

namespace opal::btl::tcp {
namespace {

/// A message larger than kLarge is not copied into the queue behind more than kEnoughBacklog bytes: send_inline()
/// returns `again`, and a later call gives the message to the kernel without a copy.
constexpr std::size_t kLarge = 16 << 10;
constexpr std::size_t kEnoughBacklog = 64 << 10;
/// Frames up to this size are copied into one buffer before the system call.
constexpr std::size_t kGather = 512;
/// In a batch a message of at most kHeldBack bytes is held back, until kBatchBytes are together.  The first one of a
/// batch leaves at once if it has more than kHeldBackFirst bytes: the peer may wait for it, and the copy takes a
/// microsecond.
constexpr std::size_t kHeldBack = 20 << 10;
constexpr std::size_t kHeldBackFirst = 4 << 10;
constexpr std::size_t kBatchBytes = 64 << 10;
/// A payload with at least kLeastPlaced bytes to come is received to the place that its handler names, together with
/// kAfterPlaced bytes of what follows.
constexpr std::size_t kLeastPlaced = 16 << 10;
constexpr std::size_t kAfterPlaced = 4 << 10;
constexpr std::size_t kFirstRead = 20 << 10;
constexpr unsigned kSilentPeriods = 4;  // in Config::peer_timeout

constexpr std::array<std::byte, 8> kPadding{};

struct Filler {
  wire::Frame frame{wire::kFillerSize, 0, static_cast<std::uint16_t>(wire::Kind::filler)};
  std::array<std::byte, wire::kFillerSize> rest{};
};
constexpr Filler kFiller;

/// The filler in front of a message whose `payload` follows `before` bytes: empty unless it speeds up the kernel.
///
/// The kernel copies with `rep movsb`.  On processors with fast short `rep movsb` this is up to 5 times slower if the
/// target's offset in its page is 1 to 63 bytes above the source's (see opal/core/copy.hpp).  The kernel's buffer
/// starts at a page when the connection was idle, so the offset of the target is the length of what precedes the
/// payload.
ByteSpan filler_for(std::size_t before, ByteSpan payload) noexcept {
  constexpr std::size_t kLeast = 4 << 10;
  constexpr std::size_t kPage = 4096;
  if (payload.size() < kLeast) return {};
  const std::size_t ahead = (sizeof(wire::Frame) + before - reinterpret_cast<std::uintptr_t>(payload.data())) % kPage;
  return ahead != 0 && ahead < sizeof kFiller ? bytes_of(kFiller) : ByteSpan{};
}

wire::Frame frame_of(Tag tag, std::size_t size) noexcept {
  return {static_cast<std::uint32_t>(size), tag, static_cast<std::uint16_t>(wire::Kind::message)};
}

/// What the kernel has not taken of `part`; `taken`: bytes that it has taken from `part` on.
ByteSpan rest_of(ByteSpan part, std::size_t& taken) noexcept {
  const std::size_t skipped = std::min(taken, part.size());
  taken -= skipped;
  return part.subspan(skipped);
}

iovec vector_of(ByteSpan bytes) noexcept { return {const_cast<std::byte*>(bytes.data()), bytes.size()}; }

}  // namespace

Result<std::unique_ptr<Endpoint>> Endpoint::create(Module& module, Reactor& reactor, const PeerId& peer) {
  const Config& config = module.config();
  const std::size_t least = 2 * wire::frame_size(config.max_send.bytes) + OutputQueue::kReserve;
  OPAL_TRY_ASSIGN(Mapping ring, Mapping::anonymous(std::max<std::size_t>(kSendRing.bytes, least), false));
  return std::unique_ptr<Endpoint>{new Endpoint{module, reactor, peer, std::move(ring)}};
}

Endpoint::Endpoint(Module& module, Reactor& reactor, const PeerId& peer, Mapping ring) noexcept
    : btl::Endpoint(module, peer), Source(reactor), tcp_(module), ring_(std::move(ring)), queue_(ring_.bytes()) {}

Endpoint::~Endpoint() {
  if (holding_) tcp_.drop_held(*this);
}

// ---- Connection -------------------------------------------------------------------------------------------------

void Endpoint::dial(const HandshakeSides& sides, std::vector<SocketAddress> candidates) {
  dialer_ = std::make_unique<Dialer>(reactor(), tcp_.config(), sides, std::move(candidates), *this);
  dialer_->start();
}

void Endpoint::adopt(Fd fd, std::uint32_t peer_max_send) noexcept {
  dialer_.reset();
  tune(tcp_.config(), fd.get());
  auto input = Mapping::anonymous(FrameReader::buffer_size(peer_max_send), false);
  if (!input) return end(input.error());
  input_ = std::move(*input);
  reader_ = FrameReader{input_.bytes(), peer_max_send};
  where_ = fmt::format("{} -> {}", to_string(local_address(fd.get())), to_string(peer_address(fd.get())));
  if (const auto watched = watch(std::move(fd)); !watched) return end(watched.error());
  // Try both now instead of waiting for the first event.
  readable = writable = true;
  if (leaving_) {
    set_deadline_in(kLingerTimeout);
  } else {
    watch_for_silence();
  }
  schedule();
}

void Endpoint::on_unreachable(const Error& why) noexcept {
  where_ = dialer_->describe();
  if (leaving_) return dialer_.reset();
  if (tcp_.acceptor_.has_parked(peer())) {
    tcp_.acceptor_.unpark(peer());  // the peer has connected to this side: use that connection
    if (dialer_ == nullptr) return;
  }
  dialer_.reset();
  log::warn("btl.tcp", "cannot connect to peer {}: {}", to_string(peer()), where_);
  end(why);
}

std::string Endpoint::describe() const {
  if (dialer_ != nullptr) return "connecting: " + dialer_->describe();
  if (dead()) return fmt::format("ended ({}): {}", opal::to_string(error()), where_);
  return where_;
}

void Endpoint::watch_for_silence() noexcept {
  if (const auto timeout = tcp_.config().peer_timeout; timeout.count() != 0) set_deadline_in(timeout / kSilentPeriods);
}

void Endpoint::on_deadline() noexcept {
  if (leaving_) {
    close();
    return dialer_.reset();
  }
  const auto timeout = tcp_.config().peer_timeout;
  const std::chrono::nanoseconds period = timeout / kSilentPeriods;
  // Needs several periods in a row: in the first one the data may have been sent a moment ago.
  silent_periods_ = is_silent(fd(), static_cast<std::uint64_t>(period.count())) ? silent_periods_ + 1 : 0;
  if (silent_periods_ == kSilentPeriods) {
    return end({Errc::peer_gone, ETIMEDOUT, "tcp: the peer's host has not answered for btl_tcp_peer_timeout",
                static_cast<std::uint64_t>(timeout.count())});
  }
  watch_for_silence();
}

void Endpoint::end(const Error& why) noexcept {
  if (ended_) return;
  ended_ = true;
  // After a failed send the reason stays, unless a goodbye (no errno) was found in the input.
  if (!dead() || why.os_errno == 0) mark_dead(why);
  close();
  dialer_.reset();
  if (!leaving_) tcp_.ended(*this);
}

// ---- Sending ----------------------------------------------------------------------------------------------------

std::int64_t Endpoint::send_now(iovec* vectors, std::size_t count) noexcept {
  const std::int64_t sent = send_some(fd(), vectors, count);
  if (sent >= 0) return sent;
  send_failed(static_cast<int>(-sent));
  return -1;
}

std::int64_t Endpoint::send_now(const Parts& parts, std::size_t whole) noexcept {
  std::array<iovec, std::tuple_size_v<Parts>> vectors;
  std::transform(parts.begin(), parts.end(), vectors.begin(), &vector_of);
  std::size_t count = vectors.size();
  std::array<std::byte, kGather> gathered;
  if (whole <= gathered.size()) {  // one vector costs the kernel less than four
    std::byte* place = gathered.data();
    for (const ByteSpan part : parts) place = std::copy(part.begin(), part.end(), place);
    vectors[0] = {gathered.data(), whole};
    count = 1;
  }
  const std::int64_t sent = send_now(vectors.data(), count);
  if (sent != static_cast<std::int64_t>(whole)) writable = false;
  return sent;
}

void Endpoint::send_failed(int error) noexcept {
  mark_dead({Errc::peer_gone, error, "tcp: send"});
  writable = false;
  // Read to the end of the input first: it may contain messages and a goodbye.
  readable = ended = true;
  schedule();
}

Post Endpoint::send_inline(Tag tag, ByteSpan header, ByteSpan payload) noexcept {
  const std::size_t size = header.size() + payload.size();
  const wire::Frame frame = frame_of(tag, size);
  const ByteSpan filler = filler_for(header.size(), payload);
  const Parts parts{filler, bytes_of(frame), header, payload, ByteSpan{kPadding}.first(wire::padding(size))};
  const std::size_t whole = filler.size() + wire::frame_size(size);
  std::size_t taken = 0;
  const std::uint64_t former = std::exchange(batch_, tcp_.batch());
  const std::size_t most = former == batch_ ? kHeldBack : kHeldBackFirst;
  if (tcp_.holds_back() && whole <= most && connected() && (queue_.empty() || holding_)) {
    if (!std::exchange(holding_, true)) tcp_.hold(*this);
    enqueue(parts, 0);
    if (queue_.backlog() >= kBatchBytes) release();
    return dead() ? Post::failed : Post::done;
  }
  if (holding_) release();
  if (queue_.empty() && connected()) {
    const std::int64_t sent = send_now(parts, whole);
    if (sent == static_cast<std::int64_t>(whole)) [[likely]]
      return Post::done;
    if (sent < 0) return Post::failed;
    taken = static_cast<std::size_t>(sent);
  } else if (lacks_room(size)) {
    return Post::again;
  }
  enqueue(parts, taken);
  return Post::done;
}

bool Endpoint::lacks_room(std::size_t size) const noexcept {
  return (size > kLarge && queue_.backlog() > kEnoughBacklog) || !queue_.fits(sizeof kFiller + wire::frame_size(size));
}

void Endpoint::enqueue(const Parts& parts, std::size_t taken) noexcept {
  for (const ByteSpan part : parts) queue_.append(rest_of(part, taken));
}

void Endpoint::release() noexcept {
  holding_ = false;
  tcp_.drop_held(*this);
  flush();
}

void Endpoint::flush() noexcept {
  while (writable && !queue_.empty()) {
    std::array<iovec, 2> vectors = queue_.gather();
    const std::int64_t sent = send_now(vectors.data(), vectors[1].iov_len != 0 ? 2 : 1);
    if (sent < 0) return;
    if (sent > 0) ++tcp_.events_;
    if (static_cast<std::size_t>(sent) < queue_.backlog()) writable = false;
    queue_.consume(static_cast<std::size_t>(sent));
  }
}

// ---- Receiving --------------------------------------------------------------------------------------------------

void Endpoint::on_ready() noexcept {
  if (!connected()) return;
  if (writable && !queue_.empty()) flush();
  if (leaving_) return finish_leaving();
  receive();
}

void Endpoint::poll() noexcept {
  if (!connected()) return;
  readable = true;
  receive();
}

bool Endpoint::deliver() noexcept {
  while (true) {
    if (tcp_.turns_ == 0) {
      schedule();  // there may be more in the buffer
      return false;
    }
    switch (reader_.next()) {
      case FrameReader::Next::message: {
        Delivery delivery{*this, reader_.tag(), reader_.payload(), 0, std::exchange(lost_, false)};
        if (const std::size_t header = std::exchange(placed_from_, 0); header != 0) [[unlikely]] {
          delivery.placed = delivery.data.size() - header;
          delivery.data = delivery.data.first(header);
        }
        tcp_.deliver(*this, delivery);
        break;
      }
      case FrameReader::Next::goodbye: end({Errc::peer_gone, 0, "the peer has disconnected"}); return false;
      case FrameReader::Next::broken:
        log::warn("btl.tcp", "peer {} broke the protocol: {}", to_string(peer()), opal::to_string(reader_.error()));
        end(reader_.error());
        return false;
      case FrameReader::Next::incomplete: return true;
    }
  }
}

/// The memory for the payload of a long message that has not arrived, as its handler names it; empty: the reader's.
/// The bytes of the payload that the reader already has are copied there.
MutableBytes Endpoint::place_of_rest() noexcept {
  const std::size_t missing = reader_.missing();
  if (missing == 0 || lost_ || (placed_from_ == 0 && missing < kLeastPlaced)) return {};
  const Handler* const handler = tcp_.parameters().handlers.find(reader_.tag());
  const ByteSpan begun = reader_.begun();
  const bool has_place = handler != nullptr && handler->place != nullptr;
  const Place place = has_place ? handler->place(handler->object, *this, begun, begun.size() + missing) : Place{};
  if (place.memory == nullptr) {
    lost_ = placed_from_ != 0;
    return {};
  }
  const ByteSpan arrived = begun.subspan(place.header);
  if (std::exchange(placed_from_, place.header) == 0) {
    lost_ = !guarded_copy(place.memory, arrived.data(), arrived.size());
    if (lost_) return {};
  }
  return {place.memory + arrived.size(), missing};
}

void Endpoint::receive() noexcept {
  if (!deliver()) return;
  while (readable) {
    MutableBytes room = reader_.room();
    const MutableBytes place = place_of_rest();
    std::int64_t got = 0;
    if (place.empty()) {
      // Reads not all of a large message before its place is known.
      if (reader_.missing() == 0) room = room.first(std::min(room.size(), kFirstRead));
      got = receive_some(fd(), room);
    } else {
      // What follows the payload: little, so that the next message can go to its place, too.
      room = room.first(std::min(room.size(), place.size() + kAfterPlaced));
      got = receive_some(fd(), place, room.subspan(place.size()));
      if (got == -EFAULT) {
        lost_ = true;
        continue;
      }
    }
    if (got == -EAGAIN) {
      readable = false;
      return;
    }
    if (got <= 0) {
      return end({Errc::peer_gone, got == 0 ? ECONNRESET : static_cast<int>(-got),
                  "tcp: the connection ended without a goodbye"});
    }
    reader_.received(static_cast<std::size_t>(got));
    // A short read has emptied the socket, and an event will follow new input.  After `ended` none follows: read on.  A
    // short read to a place may also have ended before memory that is not accessible, which the next read tells.
    const bool place_is_full = static_cast<std::size_t>(got) >= place.size();
    if (static_cast<std::size_t>(got) < room.size() && place_is_full && !ended) readable = false;
    if (!deliver()) return;
  }
}

// ---- Leaving ----------------------------------------------------------------------------------------------------

void Endpoint::leave(const Error& why) noexcept {
  const bool silent = dead() || (dialer_ != nullptr && queue_.empty());  // no receiver, or nothing to send
  leaving_ = true;
  mark_dead(why);
  if (silent || ended_) {
    close();
    return dialer_.reset();
  }
  const wire::Frame goodbye{0, 0, static_cast<std::uint16_t>(wire::Kind::goodbye)};
  queue_.append(bytes_of(goodbye));
  set_deadline_in(kLingerTimeout);
  if (connected()) {
    if (writable) flush();
    finish_leaving();
  }
}

void Endpoint::finish_leaving() noexcept {
  if (queue_.empty() && writable) {
    ::shutdown(fd(), SHUT_WR);
    writable = false;
  }
  // Read and discard: a close with unread input makes the kernel reset the connection, which loses the data that is in
  // flight to the peer.
  while (readable) {
    const std::int64_t got = receive_some(fd(), input_.bytes());
    if (got == -EAGAIN) {
      readable = false;
    } else if (got <= 0) {
      return close();
    }
  }
}

bool Endpoint::awaits_acknowledgement() const noexcept {
  return connected() && (!queue_.empty() || unacknowledged(fd()) != 0);
}

}  // namespace opal::btl::tcp
