// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/messages/memory/wire.hpp — layout of the memory that two processes share for messages.  Any change here:
// increment kLayoutVersion.
//
// inbox    one per module, mapped by every connected peer    [ InboxHeader | FIFO slots, 8 bytes each ]
// segment  one per direction of a pair, made by the sender   [ SegmentHeader | fragments, fast box, ring of helped
//                                                              transfers (helped_ring.hpp), in any order ]
//
// Code that reads what a peer can write loads each word once and checks it before use.
#pragma once
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "opal/btl/peer_id.hpp"
#include "opal/btl/sm/messages/memory/credit_wait.hpp"
#include "opal/core/bytes.hpp"

namespace opal::btl::sm::wire {

inline constexpr std::uint32_t kLayoutVersion = 6;
inline constexpr std::uint64_t kInboxMagic = 0x0078'6f62'6e69'6d73;  // "sminbox"
inline constexpr std::uint64_t kSegmentMagic = 0x0065'6e61'6c6d'73;  // "smlane"

/// Start of an inbox.  The first line is constant; the others are one line each because different sides write them.
struct alignas(kCacheLine) InboxHeader {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t slots;  ///< of the FIFO that follows; a power of two
  PeerId owner;
  /// 0 while the owner is awake, else the number of its sleep: a sender rings its doorbell once per number.
  alignas(kCacheLine) std::atomic<std::uint32_t> sleeping;
  /// Position where producers start to look for an empty slot.  It may lag behind the first empty slot.
  alignas(kCacheLine) std::atomic<std::uint64_t> tail;
  /// Senders set bits; the owner clears all.  Of the senders whose index in the owner's FIFO is i modulo 32:
  /// bit i: one has written into its parked fast box; bit 32 + i: one is about to sleep until credit returns.
  alignas(kCacheLine) std::atomic<std::uint64_t> notifications;
};
static_assert(sizeof(InboxHeader) == 4 * kCacheLine && offsetof(InboxHeader, sleeping) == kCacheLine &&
                  offsetof(InboxHeader, tail) == 2 * kCacheLine &&
                  offsetof(InboxHeader, notifications) == 3 * kCacheLine,
              "layout v2: readers of `sleeping` must not be disturbed by writers of `tail`");

/// Number of fragment sizes: 0: small messages; 1: messages up to max_send.
inline constexpr std::size_t kFragmentClasses = 2;

/// Start of a segment.
struct alignas(kCacheLine) SegmentHeader {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t reserved;
  PeerId from;
  PeerId to;
  /// Written by the sender: BoxOffer as one word; 0 = none yet.
  alignas(kCacheLine) std::atomic<std::uint64_t> offer;
  /// Written by the sender: the credits that it waits for while it sleeps.
  BasicCreditsWanted<std::atomic<std::uint32_t>> credits_wanted;
  // Written by the receiver.  The counters wrap at 2^32.
  alignas(kCacheLine) std::atomic<std::uint32_t> answer;            ///< BoxOffer::number << 1 | 1 if accepted
  std::atomic<std::uint32_t> box_released;                          ///< bytes of the fast box that were returned
  std::atomic<std::uint32_t> fragments_released[kFragmentClasses];  ///< fragments returned, in the order of sending
  /// kBox...: whether the receiver polls the fast box (box_state.hpp).  In a line of its own, since every send reads
  /// it.
  alignas(kCacheLine) std::atomic<std::uint32_t> box_state;
};
static_assert(sizeof(SegmentHeader) == 4 * kCacheLine && offsetof(SegmentHeader, offer) == kCacheLine &&
                  offsetof(SegmentHeader, answer) == 2 * kCacheLine &&
                  offsetof(SegmentHeader, box_state) == 3 * kCacheLine,
              "layout v2: each line has one writer but for box_state, which a sender writes once per parking");

static_assert(kCreditCounters == 1 + kFragmentClasses);
inline CreditCounters returned_credits(const SegmentHeader& segment) noexcept {
  return {segment.box_released.load(std::memory_order_acquire),
          segment.fragments_released[0].load(std::memory_order_acquire),
          segment.fragments_released[1].load(std::memory_order_acquire)};
}

inline constexpr std::uint32_t kBoxPolled = 0;
inline constexpr std::uint32_t kBoxParked = 1;
inline constexpr std::uint32_t kBoxNotified = 2;
inline constexpr std::uint32_t kBoxClosed = 3;

/// The sender offers a ring as fast box.
struct BoxOffer {
  std::uint32_t line;      ///< offset of the ring in the segment, in cache lines
  std::uint16_t number;    ///< of the offer, never 0
  std::uint16_t log_size;  ///< the ring has 1 << log_size bytes
};
static_assert(sizeof(BoxOffer) == 8 && std::has_unique_object_representations_v<BoxOffer>, "published as one word");

/// Start of a record of a fast box, at a multiple of 64 bytes; the message follows.  The writer stores it as one word
/// after the message.
struct RecordHeader {
  std::uint32_t size;  ///< bytes of the message; the record is at most a quarter of the ring
  std::uint16_t tag;   ///< 0: no record yet; kSkipTag: the next record is at the start of the ring
  std::uint16_t seq;   ///< of the message within its direction, box and FIFO together; wraps at 65536
};
static_assert(sizeof(RecordHeader) == 8 && std::has_unique_object_representations_v<RecordHeader>,
              "published as one word");
static_assert(offsetof(RecordHeader, tag) == 4 && offsetof(RecordHeader, seq) == 6, "layout v1");
inline constexpr std::uint16_t kSkipTag = 0xffff;
/// As std::bit_cast, by shifts: for std::bit_cast g++ splits the word in a vector register, which is slower.
constexpr RecordHeader record_header(std::uint64_t word) noexcept {
  return {static_cast<std::uint32_t>(word), static_cast<std::uint16_t>(word >> 32),
          static_cast<std::uint16_t>(word >> 48)};
}
static_assert(std::bit_cast<std::uint64_t>(record_header(0x0123'4567'89ab'cdefU)) == 0x0123'4567'89ab'cdefU);

/// Start of a fragment; the message follows.  Published by the FIFO word that names it.
struct FragmentHeader {
  std::uint32_t size;  ///< bytes of the message
  std::uint16_t tag;
  std::uint16_t seq;
  std::uint32_t size_class;  ///< < kFragmentClasses: the receiver returns it in fragments_released[size_class]
  std::uint32_t flags;       ///< kOffersBox or 0
};
static_assert(sizeof(FragmentHeader) == 16 && std::has_unique_object_representations_v<FragmentHeader>, "layout v1");
inline constexpr std::uint32_t kOffersBox = 1;  ///< the receiver must answer SegmentHeader::offer

/// One slot of the FIFO:  bit 0 full | 1..27 lap | 28..39 the sender's index | 40..63 cache line in its segment.
/// The lap is the number of the pass through the queue, modulo 2^27.  An empty slot names the lap in which it is filled
/// next, so that one compare-and-swap takes and writes it.
struct FifoItem {
  std::uint32_t peer;  ///< < kMaxPeers
  std::uint32_t line;  ///< < kMaxLines
};
inline constexpr std::uint32_t kMaxPeers = 1U << 12;
inline constexpr std::uint32_t kMaxLines = 1U << 24;
inline constexpr std::uint64_t kMaxSegmentSize = std::uint64_t{kMaxLines} * kCacheLine;
inline constexpr std::uint64_t kLapMask = (1U << 27) - 1;

constexpr std::uint64_t empty_slot(std::uint64_t lap) noexcept { return (lap & kLapMask) << 1; }
constexpr std::uint64_t full_slot(std::uint64_t lap, FifoItem item) noexcept {
  return 1 | (lap & kLapMask) << 1 | std::uint64_t{item.peer} << 28 | std::uint64_t{item.line} << 40;
}
constexpr bool is_full(std::uint64_t slot) noexcept { return (slot & 1) != 0; }
constexpr std::uint64_t lap_of(std::uint64_t slot) noexcept { return slot >> 1 & kLapMask; }
constexpr FifoItem item_of(std::uint64_t slot) noexcept {
  return {static_cast<std::uint32_t>(slot >> 28) & (kMaxPeers - 1), static_cast<std::uint32_t>(slot >> 40)};
}

static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<std::uint32_t>::is_always_lock_free,
              "a lock-based atomic does not work across processes");

}  // namespace opal::btl::sm::wire
