// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/helped/state/helped_ring.hpp — the shared memory of a helped transfer.
//
// Both sides take pieces of one transfer: the target from the front, the initiator from the back by single copy.  Of a
// get the target writes its pieces to the destination (cooperative), or copies them into a few chunks that stay in the
// cache and that the initiator empties (pipelined; there the initiator copies from the back only when no piece has come
// for Config::pipeline_wait).  Of a put the target reads the source; there are no chunks.  A target that does not
// call progress() takes nothing, and the initiator copies all.
//
// The ring lies in the initiator's segment and serves one transfer at a time:
//   [ claim word, both write | drained counter, by the initiator | per chunk one line with its piece word, by the
//   target | chunks ]
// The claim word {refused:1, generation:15, back:24, front:24}: the units of 4 KiB in [front, back) are not taken yet.
// Both sides take units by compare-and-swap.  The target publishes each piece that it has taken and copied.  So a
// transfer is over when no unit is left and all pieces from the front have arrived.  Piece words carry a sequence
// number that continues from transfer to transfer.  Each side checks all values that the other can write.
//
// An initiator that abandons a transfer sets `refused` and waits until everything that the target has taken has
// arrived.  After that the target neither writes the destination of a get nor reads the source of a put.  Threads: one
// thread per side.
#pragma once
#include <algorithm>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "opal/btl/shared/registrations/registration_table.hpp"
#include "opal/btl/sm/config.hpp"
#include "opal/btl/tag.hpp"
#include "opal/core/bytes.hpp"

namespace opal::btl::sm {

namespace wire {

inline constexpr Tag kHelpRequest = kBtlTags.first + 0x20;  ///< HelpRequest: help with this transfer
inline constexpr std::uint64_t kHelpUnit = 4096;
inline constexpr std::uint32_t kMostHelpUnits = (1U << 24) - 1;

struct HelpRequest {
  std::uint64_t address;  ///< in the target's memory
  std::uint64_t size;
  std::uint64_t initiator_address;  ///< put: the source; get: the destination, or 0: copy into chunks
  SoftwareHandle region;            ///< the target's registration
  std::uint32_t line;               ///< where the ring begins in the initiator's segment, in cache lines
  std::uint32_t generation;         ///< of the transfer, see Claims
  std::uint32_t initiator_pool;     ///< number of the initiator's shared pool with that memory, or 0
  std::uint32_t least_share;        ///< minimum of units that one side takes at a time by single copy
  std::uint64_t put;                ///< 1: a put, 0: a get
};
static_assert(sizeof(HelpRequest) == 80 && std::has_unique_object_representations_v<HelpRequest>, "wire layout v3");

struct alignas(kCacheLine) HelpHeader {
  std::atomic<std::uint64_t> claim;                        ///< Claims as one word
  alignas(kCacheLine) std::atomic<std::uint32_t> drained;  ///< pieces copied out, modulo 2^32
};
static_assert(sizeof(HelpHeader) == 2 * kCacheLine, "layout v1: `claim` and `drained` in separate cache lines");

inline constexpr std::uint32_t kInPlace = 1U << 31;  ///< in PieceWord::first: the piece is in its place, not in a chunk
/// Describes one piece; the target stores it after the copy.
struct PieceWord {
  std::uint32_t first;  ///< first unit of the piece, | kInPlace
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

/// The fields of the claim word.
struct Claims {
  std::uint32_t front = 0;       ///< the target has taken units [0, front)
  std::uint32_t back = 0;        ///< the initiator has taken units [back, total)
  std::uint32_t generation = 0;  ///< number of the transfer, modulo kGenerations
  bool refused = false;          ///< the target may not touch that memory, or the initiator has abandoned the transfer

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
/// Replaces `seen` by `wanted`.  False: the other side has changed the word; `seen` is then its new value.
template <class Word>
bool exchange_claims(Word& claim, Claims& seen, const Claims& wanted) noexcept {
  std::uint64_t word = seen.word();
  if (claim.compare_exchange_strong(word, wanted.word(), std::memory_order_acq_rel, std::memory_order_acquire))
    return true;
  seen = Claims::of(word);
  return false;
}

/// Sequence number of the `number`-th piece.  Odd, so never 0, the value in an unused chunk.  It repeats after 2^15
/// pieces and there are fewer chunks, so successive pieces in one chunk differ.
[[nodiscard]] constexpr std::uint16_t piece_seq(std::uint32_t number) noexcept {
  return static_cast<std::uint16_t>(number << 1 | 1);
}

/// The layout of the ring, for both sides.  Borrows the kHelpedRingSize bytes at `base`.  The model test uses a ring of
/// its own instead.
class HelpedRing {
 public:
  explicit HelpedRing(std::byte* base) noexcept : base_(base) {}

  [[nodiscard]] static constexpr std::uint32_t units_of(std::uint64_t size) noexcept {
    return static_cast<std::uint32_t>((size + wire::kHelpUnit - 1) / wire::kHelpUnit);
  }

  [[nodiscard]] std::atomic<std::uint64_t>& claim() const noexcept { return header().claim; }
  [[nodiscard]] std::atomic<std::uint32_t>& drained() const noexcept { return header().drained; }
  [[nodiscard]] std::atomic<std::uint64_t>& piece(std::uint32_t number) const noexcept {
    return reinterpret_cast<wire::HelpPiece*>(base_ + sizeof(wire::HelpHeader))[number % chunks()].word;
  }
  [[nodiscard]] std::byte* chunk(std::uint32_t number) const noexcept {
    return base_ + sizeof(wire::HelpHeader) + chunks() * sizeof(wire::HelpPiece) +
           (number % chunks()) * kPipelineChunk.bytes;
  }
  [[nodiscard]] static constexpr std::uint32_t chunks() noexcept { return kPipelineChunks; }
  [[nodiscard]] static constexpr std::uint32_t chunk_units() noexcept { return kPipelineChunk.bytes / wire::kHelpUnit; }

 private:
  [[nodiscard]] wire::HelpHeader& header() const noexcept { return *reinterpret_cast<wire::HelpHeader*>(base_); }

  std::byte* base_;
};
static_assert(sizeof(wire::HelpHeader) + kPipelineChunks * (sizeof(wire::HelpPiece) + kPipelineChunk.bytes) ==
                  kHelpedRingSize,
              "the segment has memory for it");

/// The target's side.
template <class Ring>
class BasicTargetSide {
 public:
  explicit BasicTargetSide(Ring ring) noexcept : ring_(ring) {}

  /// Begins the transfer of `total` units that a HelpRequest with `generation` announces, or continues the same one.
  void begin(std::uint32_t generation, std::uint32_t total) noexcept {
    generation_ = generation;
    total_ = total;
  }

  enum class Take : std::uint8_t { piece, full, over, garbage };
  /// Takes the next piece to copy: half of the untaken units, at least `least` and at most `most`.
  /// `full`: no chunk is free until the initiator calls pop().  `over`: no unit is left, `refused` is set, or the
  /// initiator has begun another transfer.  `garbage`: the initiator wrote invalid values.
  Take take(UnitRange& piece, std::uint32_t least, std::uint32_t most) noexcept {
    const std::uint32_t not_popped = filled_ - ring_.drained().load(std::memory_order_acquire);
    if (not_popped > ring_.chunks()) return Take::garbage;
    if (not_popped == ring_.chunks()) return Take::full;
    Claims seen = claims_in(ring_.claim());
    for (;;) {
      if (seen.generation != generation_ || seen.refused || seen.left() == 0) return Take::over;
      if (seen.back > total_) return Take::garbage;
      // Small pieces at the end, so that both sides end together.
      piece = {seen.front, std::min(std::clamp(seen.left() / 2, least, most), seen.left())};
      Claims wanted = seen;
      wanted.front += piece.count;
      if (exchange_claims(ring_.claim(), seen, wanted)) return Take::piece;
    }
  }
  /// Returns the piece taken last to the untaken units: the target cannot copy it.
  void give_up(const UnitRange& piece) noexcept {
    Claims seen = claims_in(ring_.claim());
    Claims wanted;
    do {  // only the target moves the front, and its last piece ends there
      if (seen.generation != generation_) return;
      wanted = seen;
      wanted.front = piece.first;
    } while (!exchange_claims(ring_.claim(), seen, wanted));
  }
  /// The chunk for the taken piece, unless the target copies it in place.
  [[nodiscard]] std::byte* chunk() const noexcept { return ring_.chunk(filled_); }
  [[nodiscard]] std::uint32_t chunk_units() const noexcept { return ring_.chunk_units(); }
  /// Publishes a piece that has been copied.
  void publish(const UnitRange& piece, bool in_place) noexcept {
    const wire::PieceWord word{piece.first | (in_place ? wire::kInPlace : 0), static_cast<std::uint16_t>(piece.count),
                               piece_seq(filled_)};
    ring_.piece(filled_).store(std::bit_cast<std::uint64_t>(word), std::memory_order_release);
    ++filled_;
  }
  /// The target may not, or cannot, access the memory: sets `refused`.
  void refuse() noexcept {
    Claims seen = claims_in(ring_.claim());
    while (seen.generation == generation_ && !seen.refused) {
      Claims wanted = seen;
      wanted.refused = true;
      if (exchange_claims(ring_.claim(), seen, wanted)) return;
    }
  }
  /// True when a chunk is free, so that take() can return a piece.
  [[nodiscard]] bool can_go_on() const noexcept {
    return filled_ - ring_.drained().load(std::memory_order_acquire) < ring_.chunks();
  }

 private:
  Ring ring_;
  std::uint32_t generation_ = 0;
  std::uint32_t total_ = 0;
  std::uint32_t filled_ = 0;  // pieces, modulo 2^32
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

  /// True when poll() finds a piece.
  [[nodiscard]] bool ready() const noexcept { return word().seq == piece_seq(drained_); }
  enum class Poll : std::uint8_t { piece, nothing, garbage };
  /// Returns the next piece that the target has copied.  `bytes`: its chunk, valid until pop(); null: it is in place.
  /// `garbage`: the target wrote invalid values.
  Poll poll(UnitRange& piece, const std::byte*& bytes) const noexcept {
    const wire::PieceWord next = word();
    if (next.seq != piece_seq(drained_)) return Poll::nothing;
    const bool in_place = (next.first & wire::kInPlace) != 0;
    const std::uint32_t first = next.first & ~wire::kInPlace;
    if (next.units == 0 || first != arrived_ || next.units > total_ - arrived_ ||
        (!in_place && next.units > ring_.chunk_units())) {
      return Poll::garbage;
    }
    piece = {first, next.units};
    bytes = in_place ? nullptr : ring_.chunk(drained_);
    return Poll::piece;
  }
  /// Frees the chunk of the piece after the copy.
  void pop(const UnitRange& piece) noexcept {
    arrived_ += piece.count;
    ring_.drained().store(++drained_, std::memory_order_release);
  }

  /// Takes units from the back as TargetSide::take() does from the front.  Returns an empty range when no unit is left,
  /// the transfer is refused, or the claim word is invalid.
  UnitRange take_from_back(std::uint32_t least, std::uint32_t most) noexcept {
    Claims seen = claims_in(ring_.claim());
    for (;;) {
      const std::uint32_t count = std::min(std::clamp(seen.left() / 2, least, most), seen.left());
      if (count == 0 || seen.refused || seen.back > total_) return {};
      Claims wanted = seen;
      wanted.back -= count;
      if (exchange_claims(ring_.claim(), seen, wanted)) return {wanted.back, count};
    }
  }
  /// Abandons the transfer: sets `refused` and takes all untaken units.
  void close() noexcept {
    Claims seen = claims_in(ring_.claim());
    Claims wanted;
    do {
      wanted = seen;
      wanted.back = wanted.front;
      wanted.refused = true;
    } while (!exchange_claims(ring_.claim(), seen, wanted));
  }
  /// After close(): true when the target copies no more.  Drops pieces that arrive.  Also true when the target wrote
  /// invalid values; it may then still copy.
  [[nodiscard]] bool is_quiet() noexcept {
    UnitRange piece;
    const std::byte* bytes = nullptr;
    for (;;) {
      switch (poll(piece, bytes)) {
        case Poll::piece: pop(piece); break;
        case Poll::nothing: return over() || claims().front < arrived_ || claims().front > total_;
        case Poll::garbage: return true;
      }
    }
  }

  [[nodiscard]] Claims claims() const noexcept { return claims_in(ring_.claim()); }
  /// True when all units that the target took have arrived, and none is left or the transfer is refused.
  [[nodiscard]] bool over() const noexcept {
    const Claims now = claims_in(ring_.claim());
    return (now.left() == 0 || now.refused) && now.front == arrived_;
  }
  [[nodiscard]] std::uint32_t generation() const noexcept { return generation_; }

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
