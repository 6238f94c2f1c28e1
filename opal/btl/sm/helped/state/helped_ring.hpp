// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/helped/state/helped_ring.hpp — the shared memory of a helped transfer.
//
// Of a get: the target copies pieces from the front of its memory into a few chunks that stay in the cache, and the
// initiator copies them out.  If no chunk is full, the initiator takes pieces from the back by single copy.  So the
// side with more time does more work; a target that does not run does none.  A put has no chunks: both sides copy to
// the final place.
//
// The ring lies in the initiator's segment and serves one transfer at a time:
//   [ claim word, both write | drained counter, by the initiator | chunks lines: piece words, by the target | chunks ]
// The claim word {refused:1, generation:15, back:24, front:24} says which units of 4 KiB are not taken yet.  Both sides
// take units by compare-and-swap.  The target delivers what it has taken, so a transfer is over when nothing is left
// and all pieces from the front have arrived.  Piece words carry a sequence number that runs on from transfer to
// transfer. Each side checks what the other can write.
//
// An initiator that abandons a transfer sets `refused` and waits until everything that the target has taken has
// arrived. After that the target writes nothing to the destination. Threads: one thread per side.
#pragma once
#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "opal/btl/shared/registrations/registration_table.hpp"
#include "opal/btl/tag.hpp"
#include "opal/core/bytes.hpp"

namespace opal::btl::sm {

namespace wire {

inline constexpr Tag kHelpRequest = kBtlTags.first + 0x20;  ///< HelpRequest: help with this transfer
inline constexpr std::uint64_t kHelpUnit = 4096;
inline constexpr std::uint32_t kMostHelpUnits = (1U << 24) - 1;
inline constexpr std::uint32_t kMostHelpChunks = 64;  ///< a power of two, as every number of chunks
inline constexpr std::uint32_t kMostChunkUnits = 1024;

struct HelpRequest {
  std::uint64_t address;  ///< in the target's memory
  std::uint64_t size;
  std::uint64_t destination;  ///< in the initiator's memory, if the target may write pieces to their place; else 0.  Of
                              ///< a put: where they come from
  SoftwareHandle region;
  std::uint32_t line;  ///< where the ring begins in the initiator's segment, in cache lines
  std::uint32_t generation;
  std::uint32_t chunks;
  std::uint32_t chunk_units;
  std::uint32_t destination_pool;  ///< number of the initiator's shared pool in which the destination lies, or 0
  std::uint32_t least_share;       ///< units that one side takes at a time by single copy, at least
  std::uint64_t put;               ///< 1: a put, 0: a get
};
static_assert(sizeof(HelpRequest) == 88 && std::has_unique_object_representations_v<HelpRequest>, "wire layout v2");

struct alignas(kCacheLine) HelpHeader {
  std::atomic<std::uint64_t> claim;
  alignas(kCacheLine) std::atomic<std::uint32_t> drained;  ///< pieces copied out, modulo 2^32
};
static_assert(sizeof(HelpHeader) == 2 * kCacheLine, "layout v1: the target looks at `drained` only when it is full");

/// Published after the piece has been copied into its chunk, or to its place.
inline constexpr std::uint32_t kInPlace = 1U << 31;
struct PieceWord {
  std::uint32_t first;  ///< unit of the transfer; kInPlace is set when the target has written the piece to its place
  std::uint16_t units;
  std::uint16_t seq;  ///< never 0
};
static_assert(sizeof(PieceWord) == 8 && std::has_unique_object_representations_v<PieceWord>, "published as one word");

struct alignas(kCacheLine) HelpPiece {
  std::atomic<std::uint64_t> word;
};

}  // namespace wire

/// Units [first, first + count) of a transfer.
struct UnitRange {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
};

/// The claim word, taken apart.
struct Claims {
  std::uint32_t front = 0;  ///< units before it are the target's
  std::uint32_t back = 0;   ///< units from it on are the initiator's
  std::uint32_t generation = 0;
  bool refused = false;  ///< the target may not touch that memory, or the initiator has abandoned the transfer

  static constexpr std::uint32_t kGenerations = 1U << 15;
  [[nodiscard]] static constexpr Claims of(std::uint64_t word) noexcept {
    return {static_cast<std::uint32_t>(word & 0xffffff), static_cast<std::uint32_t>(word >> 24 & 0xffffff),
            static_cast<std::uint32_t>(word >> 48 & (kGenerations - 1)), (word >> 63) != 0};
  }
  [[nodiscard]] constexpr std::uint64_t word() const noexcept {
    return std::uint64_t{front} | std::uint64_t{back} << 24 | std::uint64_t{generation} << 48 |
           std::uint64_t{refused ? 1U : 0U} << 63;
  }
  [[nodiscard]] constexpr std::uint32_t left() const noexcept { return back > front ? back - front : 0; }
};

template <class Word>
[[nodiscard]] Claims claims_in(const Word& claim) noexcept {
  return Claims::of(claim.load(std::memory_order_acquire));
}
/// Replaces `seen` by `wanted`; false, and `seen` renewed, when the other side was faster.
template <class Word>
bool exchange_claims(Word& claim, Claims& seen, const Claims& wanted) noexcept {
  std::uint64_t word = seen.word();
  if (claim.compare_exchange_strong(word, wanted.word(), std::memory_order_acq_rel, std::memory_order_acquire))
    return true;
  seen = Claims::of(word);
  return false;
}

/// In a piece word.  Odd, so that it is never the zero of a chunk that was not used yet; differs from that of the
/// chunk's last piece because there are fewer chunks than numbers.
[[nodiscard]] constexpr std::uint16_t piece_seq(std::uint32_t number) noexcept {
  return static_cast<std::uint16_t>(number << 1 | 1);
}

/// What both sides know about the memory; the model in tests/ has one of its own.
class HelpedRing {
 public:
  HelpedRing(std::byte* base, std::uint32_t chunks, std::uint32_t chunk_units) noexcept
      : base_(base), chunks_(chunks), chunk_units_(chunk_units) {}

  [[nodiscard]] static constexpr std::size_t bytes(std::uint32_t chunks, std::uint32_t chunk_units) noexcept {
    return sizeof(wire::HelpHeader) + chunks * (sizeof(wire::HelpPiece) + chunk_units * wire::kHelpUnit);
  }
  [[nodiscard]] static constexpr std::uint32_t units_of(std::uint64_t size) noexcept {
    return static_cast<std::uint32_t>((size + wire::kHelpUnit - 1) / wire::kHelpUnit);
  }

  [[nodiscard]] std::atomic<std::uint64_t>& claim() const noexcept { return header().claim; }
  [[nodiscard]] std::atomic<std::uint32_t>& drained() const noexcept { return header().drained; }
  [[nodiscard]] std::atomic<std::uint64_t>& piece(std::uint32_t number) const noexcept {
    return reinterpret_cast<wire::HelpPiece*>(base_ + sizeof(wire::HelpHeader))[number % chunks_].word;
  }
  [[nodiscard]] std::byte* chunk(std::uint32_t number) const noexcept {
    return base_ + sizeof(wire::HelpHeader) + chunks_ * sizeof(wire::HelpPiece) +
           (number % chunks_) * std::size_t{chunk_units_} * wire::kHelpUnit;
  }
  [[nodiscard]] std::uint32_t chunks() const noexcept { return chunks_; }
  [[nodiscard]] std::uint32_t chunk_units() const noexcept { return chunk_units_; }

 private:
  [[nodiscard]] wire::HelpHeader& header() const noexcept { return *reinterpret_cast<wire::HelpHeader*>(base_); }

  std::byte* base_;
  std::uint32_t chunks_;
  std::uint32_t chunk_units_;
};

/// The target's side.
template <class Ring>
class BasicTargetSide {
 public:
  explicit BasicTargetSide(Ring ring) noexcept : ring_(ring) {}

  /// Another transfer: `total` units, announced with `generation`; or the same one, announced again.
  void begin(std::uint32_t generation, std::uint32_t total) noexcept {
    if (generation != generation_ || total != total_)
      rest_ = {};  // units of another transfer may not exist in this one
    generation_ = generation;
    total_ = total;
  }

  enum class Look : std::uint8_t { piece, full, over, garbage };
  /// Takes the next piece to copy, of at least `least` and at most `most` units if there are so many.  `full`: the
  /// initiator must look first; `over`: nothing is left for us.
  Look take(UnitRange& piece, std::uint32_t least, std::uint32_t most) noexcept {
    const std::uint32_t behind = filled_ - ring_.drained().load(std::memory_order_acquire);
    if (behind > ring_.chunks()) return Look::garbage;
    if (behind == ring_.chunks()) return Look::full;
    Claims seen = claims_in(ring_.claim());
    if (rest_.count != 0) {
      if (seen.refused && seen.generation == generation_) {
        leave();
        return Look::over;
      }
      piece = {rest_.first, std::min(rest_.count, most)};
      rest_ = {rest_.first + piece.count, rest_.count - piece.count};
      return Look::piece;
    }
    for (;;) {
      if (seen.generation != generation_ || seen.refused || seen.left() == 0) return Look::over;
      if (seen.back > total_) return Look::garbage;
      // Small pieces at the end, so that both sides end together.
      piece = {seen.front, std::min(std::clamp(seen.left() / 2, least, most), seen.left())};
      Claims wanted = seen;
      wanted.front += piece.count;
      if (exchange_claims(ring_.claim(), seen, wanted)) return Look::piece;
    }
  }
  /// What has been taken last is to be taken again, in smaller pieces maybe.
  void put_back(const UnitRange& piece) noexcept { rest_ = {piece.first, piece.count + rest_.count}; }
  /// What has been taken last goes back to the rest, for the initiator to take: we cannot copy it.
  void give_up(const UnitRange& piece) noexcept {
    Claims seen = claims_in(ring_.claim());
    Claims wanted;
    do {  // only the target moves the front, and its last piece lies right before it
      if (seen.generation != generation_) return;
      wanted = seen;
      wanted.front = piece.first;
    } while (!exchange_claims(ring_.claim(), seen, wanted));
  }
  /// Where the taken piece goes, if it is not copied to its place.
  [[nodiscard]] std::byte* chunk() const noexcept { return ring_.chunk(filled_); }
  [[nodiscard]] std::uint32_t chunk_units() const noexcept { return ring_.chunk_units(); }
  /// It is there.
  void publish(const UnitRange& piece, bool in_place) noexcept {
    const wire::PieceWord word{piece.first | (in_place ? wire::kInPlace : 0), static_cast<std::uint16_t>(piece.count),
                               piece_seq(filled_)};
    ring_.piece(filled_).store(std::bit_cast<std::uint64_t>(word), std::memory_order_release);
    ++filled_;
  }
  /// We copy no more of it: what was put back is not waited for.
  void leave() noexcept {
    if (rest_.count != 0) give_up(std::exchange(rest_, {}));
  }
  /// The memory may not be touched: the initiator is told.
  void refuse() noexcept {
    leave();
    Claims seen = claims_in(ring_.claim());
    while (seen.generation == generation_ && !seen.refused) {
      Claims wanted = seen;
      wanted.refused = true;
      if (exchange_claims(ring_.claim(), seen, wanted)) return;
    }
  }
  [[nodiscard]] bool can_go_on() const noexcept {
    return filled_ - ring_.drained().load(std::memory_order_acquire) < ring_.chunks();
  }

 private:
  Ring ring_;
  std::uint32_t generation_ = 0;
  std::uint32_t total_ = 0;
  std::uint32_t filled_ = 0;  // pieces, modulo 2^32
  UnitRange rest_{};          // taken, not copied yet
};
using TargetSide = BasicTargetSide<HelpedRing>;

/// The initiator's side.
template <class Ring>
class BasicInitiatorSide {
 public:
  explicit BasicInitiatorSide(Ring ring) noexcept : ring_(ring) {}

  /// Begins a transfer of `total` units and returns the generation to announce.
  std::uint32_t begin(std::uint32_t total) noexcept {
    generation_ = (generation_ + 1) % Claims::kGenerations;
    total_ = total;
    arrived_ = 0;
    ring_.claim().store(Claims{0, total, generation_, false}.word(), std::memory_order_release);
    return generation_;
  }

  [[nodiscard]] bool ready() const noexcept { return word().seq == piece_seq(drained_); }
  enum class Look : std::uint8_t { piece, nothing, garbage };
  /// The next piece that the target has copied; `bytes` is where it lies, null when it is in its place already.
  Look look(UnitRange& piece, const std::byte*& bytes) const noexcept {
    const wire::PieceWord next = word();
    if (next.seq != piece_seq(drained_)) return Look::nothing;
    const bool in_place = (next.first & wire::kInPlace) != 0;
    const std::uint32_t first = next.first & ~wire::kInPlace;
    if (next.units == 0 || first != arrived_ || next.units > total_ - arrived_ ||
        (!in_place && next.units > ring_.chunk_units())) {
      return Look::garbage;
    }
    piece = {first, next.units};
    bytes = in_place ? nullptr : ring_.chunk(drained_);
    return Look::piece;
  }
  /// It has been copied out.
  void pop(const UnitRange& piece) noexcept {
    arrived_ += piece.count;
    ring_.drained().store(++drained_, std::memory_order_release);
  }

  /// Takes units off the back as TargetSide::take() does off the front; empty when nothing is left.
  UnitRange take_back(std::uint32_t least, std::uint32_t most) noexcept {
    Claims seen = claims_in(ring_.claim());
    for (;;) {
      const std::uint32_t count = std::min(std::clamp(seen.left() / 2, least, most), seen.left());
      if (count == 0 || seen.refused || seen.back > total_) return {};
      Claims wanted = seen;
      wanted.back -= count;
      if (exchange_claims(ring_.claim(), seen, wanted)) return {wanted.back, count};
    }
  }
  /// Puts what take_back() gave last back to the rest.  The target may have stopped looking: announce again.
  void put_back(const UnitRange& range) noexcept {
    Claims seen = claims_in(ring_.claim());
    Claims wanted;
    do {
      wanted = seen;
      wanted.back = std::min(range.first + range.count, total_);
    } while (!exchange_claims(ring_.claim(), seen, wanted));
  }
  /// Neither what take_back() gave last nor the rest can be copied here, and chunks are none: all of it that the target
  /// has not taken comes to `left_over`, before what it held.  What the target gives up later lies right before that.
  void leave(const UnitRange& range, UnitRange& left_over) noexcept {
    put_back(range);
    const UnitRange rest = take_rest();
    left_over = {rest.first, rest.count + left_over.count};
  }
  /// Takes all that is left.
  UnitRange take_rest() noexcept {
    Claims seen = claims_in(ring_.claim());
    Claims wanted;
    do {
      if (seen.back > total_) return {};
      wanted = seen;
      wanted.back = std::min(seen.front, seen.back);
    } while (!exchange_claims(ring_.claim(), seen, wanted));
    return {wanted.back, seen.back - wanted.back};
  }
  /// Leaves nothing to take.
  void close() noexcept {
    Claims seen = claims_in(ring_.claim());
    Claims wanted;
    do {
      wanted = seen;
      wanted.back = wanted.front;
      wanted.refused = true;
    } while (!exchange_claims(ring_.claim(), seen, wanted));
  }
  /// After close(): whether the target copies nothing any more.  Forgets the pieces that come.  A target that writes
  /// nonsense is not waited for.
  [[nodiscard]] bool is_quiet() noexcept {
    UnitRange piece;
    const std::byte* bytes = nullptr;
    for (;;) {
      switch (look(piece, bytes)) {
        case Look::piece: pop(piece); break;
        case Look::nothing: return over() || claims().front < arrived_ || claims().front > total_;
        case Look::garbage: return true;
      }
    }
  }

  [[nodiscard]] Claims claims() const noexcept { return claims_in(ring_.claim()); }
  /// Nothing is left to take and everything that the target took has come.
  [[nodiscard]] bool over() const noexcept {
    const Claims now = claims_in(ring_.claim());
    return (now.left() == 0 || now.refused) && now.front == arrived_;
  }
  [[nodiscard]] std::uint32_t generation() const noexcept { return generation_; }
  [[nodiscard]] const Ring& ring() const noexcept { return ring_; }

 private:
  [[nodiscard]] wire::PieceWord word() const noexcept {
    return std::bit_cast<wire::PieceWord>(ring_.piece(drained_).load(std::memory_order_acquire));
  }

  Ring ring_;
  std::uint32_t generation_ = 0;
  std::uint32_t total_ = 0;
  std::uint32_t arrived_ = 0;  // units from the front that have been copied out
  std::uint32_t drained_ = 0;  // pieces, modulo 2^32
};
using InitiatorSide = BasicInitiatorSide<HelpedRing>;

}  // namespace opal::btl::sm
