// SPDX-License-Identifier: Apache-2.0
// mpi_shim/coll/host/team_segment.hpp — memory through which ranks of one host do their part of a collective: a line of
// counters, some cells for short data and a few slots for long ones per rank (docs/design/mpi-collectives.md).
// A rank writes only its own.  Operations are numbered exchanges, the same everywhere; a cell or slot begins with the
// exchange in which it was filled, in the line where a cell's data begin.  `finished` says up to which exchange a rank
// has read the others'.  A waiting rank polls first, then writes into its line what it waits for and sleeps as for
// messages; the one that makes it true wakes it with one. Threads: one at a time, as the standard has it for the
// collectives of a communicator.
#pragma once
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "mpi_shim/base/host_memory.hpp"
#include "mpi_shim/p2p/engine.hpp"
#include "opal/core/sync/yield_policy.hpp"

namespace mpi_shim::coll {

class TeamSegment {
 public:
  static constexpr int kMostRanks = 64;  ///< bits of the word of sleepers

  /// Data of at most so many bytes are short.
  static constexpr std::uint64_t kCellBytes = 1072;

  /// How it waits.
  struct Manner {
    std::chrono::microseconds spin;
    bool core_is_shared;  ///< others that run on this core make it true
    bool fences_paid;     ///< all accept remote fences (opal/core/sync/asymmetric_fence.hpp), and the sleeper pays
  };

  static std::uint64_t bytes_for(int ranks, std::uint64_t slot_bytes) noexcept;

  /// `memory` has bytes_for(peers.size(), slot_bytes); `peers` have been reached, this process is the `rank`-th.
  TeamSegment(HostMemory memory, std::uint64_t slot_bytes, int rank, std::vector<p2p::Peer*> peers, p2p::Engine& engine,
              Manner manner);

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return size_; }
  [[nodiscard]] std::uint64_t slot_bytes() const noexcept { return slot_bytes_; }

  // --- One operation, in this order.  Waits return an error class: MPI_ERR_PROC_ABORTED when a rank is gone.

  /// What was read in earlier exchanges is not needed any more.  No rank puts more than `most` bytes into its slot:
  /// short ones into a cell, which is then what is called its slot below; the same in all ranks.
  void begin(std::uint64_t most) noexcept {
    end_turn();
    most > kCellBytes ? take_slot() : take_cell(most);
  }
  /// The same where ranks do not know how much others have: each rank fills a cell and, as is to be read there, a slot
  /// beside it.
  void begin_uneven() noexcept {
    end_turn();
    take_cell(kCellBytes);
    slots_used_ = true;
  }
  /// Waits until no rank needs what is in the own slot.
  int claim() noexcept { return claim(place_); }
  /// A rank's slot of this operation, aligned to 16: the own one to be written after claim(), others' to be read after
  /// await().
  [[nodiscard]] std::byte* slot(int rank) const noexcept { return of_rank(rank) + data_; }
  /// After begin_uneven(): the same two for the slot beside the cell, which is filled before arrive().
  int claim_beside() noexcept {
    const int error = claim(slot_of_exchange());
    filled_[slot_of_exchange()] = exchange_;
    return error;
  }
  [[nodiscard]] std::byte* beside(int rank) const noexcept {
    return of_rank(rank) + offset_of(slot_of_exchange()) + kSlotHeader;
  }
  /// Says that the own slot is filled.
  void arrive() noexcept;
  int await(int rank) noexcept {
    if (header(rank, place_).exchange.load(std::memory_order_acquire) < exchange_) [[unlikely]] {
      if (const int error = wait({exchange_, rank, place_}); error != MPI_SUCCESS) return error;
    } else {  // the rank is ahead: what it may have put there meanwhile
      for_lines_of_cell(rank, kReadAhead, [](const std::byte* address) { __builtin_prefetch(address); });
    }
    has_come(rank);
    return MPI_SUCCESS;
  }
  int await_all() noexcept;
  /// From here on arrive() and await() mean a second filling of the same slots, of parts that no other rank reads yet.
  void refill() noexcept { ++exchange_; }

 private:
  static constexpr std::uint32_t kCells = 16;  // exchanges that a writer may be ahead of its readers
  static constexpr std::uint32_t kSlots = 4;
  static constexpr std::uint32_t kFinished = kCells + kSlots;  // where a place is asked for: the counter
  static constexpr std::uint64_t kCellHeader = 16;
  static constexpr std::uint64_t kSlotHeader = 64;
  static constexpr std::uint64_t kExchangesPerNotice = 4;  // of short ones; a power of two, far below kCells
  static constexpr std::uint32_t kReadAhead = 3;
  static constexpr std::uint64_t kMostLinesAhead = 5;
  static constexpr int kAll = -1;

  struct alignas(64) Head {
    std::atomic<std::uint64_t> sleepers;
  };
  struct alignas(64) Line {
    std::atomic<std::uint64_t> finished;
    std::atomic<std::uint64_t> wanted;  // a Want, packed; counts while the rank's bit among the sleepers is set
  };
  /// Of a cell or slot.
  struct Header {
    std::atomic<std::uint64_t> exchange;  // in which it was filled
  };
  static_assert(sizeof(Header) <= kCellHeader);

  /// Something that a rank waits for: a counter of one rank or all to be at least `exchange`.
  struct Want {
    std::uint64_t exchange;
    int rank;
    std::uint32_t place;  // of a cell or slot, or kFinished

    [[nodiscard]] std::uint64_t packed() const noexcept {
      return exchange << 12 | static_cast<std::uint64_t>(rank + 1) << 5 | place;
    }
    static Want unpack(std::uint64_t word) noexcept {
      return {word >> 12, static_cast<int>(word >> 5 & 0x7f) - 1, static_cast<std::uint32_t>(word & 0x1f)};
    }
  };
  static_assert(kFinished < 1U << 5 && kMostRanks < 1 << 7);

  /// From the beginning of a rank's memory on: the line, the cells, the slots.
  [[nodiscard]] std::uint64_t offset_of(std::uint32_t place) const noexcept {
    return sizeof(Line) +
           (place < kCells ? place * kCellStride : kCells * kCellStride + (place - kCells) * slot_stride_);
  }
  static constexpr std::uint64_t kCellStride = kCellHeader + kCellBytes;
  static_assert(kCellStride % 64 == 0);

  [[nodiscard]] std::uint32_t cell_of_exchange() const noexcept {
    return static_cast<std::uint32_t>(exchange_ % kCells);
  }
  [[nodiscard]] std::uint32_t slot_of_exchange() const noexcept {
    return kCells + static_cast<std::uint32_t>(exchange_ % kSlots);
  }
  [[nodiscard]] std::byte* of_rank(int rank) const noexcept {
    return ranks_ + static_cast<std::uint64_t>(rank) * rank_stride_;
  }
  [[nodiscard]] Line& line(int rank) const noexcept { return *reinterpret_cast<Line*>(of_rank(rank)); }
  [[nodiscard]] Header& header(int rank, std::uint32_t place) const noexcept {
    return *reinterpret_cast<Header*>(of_rank(rank) + offset_of(place));
  }
  [[nodiscard]] const std::atomic<std::uint64_t>& counter(int rank, std::uint32_t place) const noexcept {
    return place == kFinished ? line(rank).finished : header(rank, place).exchange;
  }

  /// Of the cell that a rank fills so many exchanges from now, if what comes is of the length of what is there now.
  template <class Use>
  void for_lines_of_cell(int rank, std::uint32_t ahead, Use&& use) const noexcept {
    const std::byte* const cell = of_rank(rank) + offset_of((place_ + ahead) % kCells);
    for (std::uint64_t line = 0; line < cell_lines_; ++line) use(cell + line * 64);
  }

  void take_cell(std::uint64_t most) noexcept {
    place_ = cell_of_exchange();
    data_ = offset_of(place_) + kCellHeader;
    cell_lines_ = std::min((kCellHeader + most + 63) / 64, kMostLinesAhead);
    slots_used_ = false;
  }
  void take_slot() noexcept {
    place_ = slot_of_exchange();
    data_ = offset_of(place_) + kSlotHeader;
    cell_lines_ = 0;
    slots_used_ = true;
  }
  /// Says, at the latest after a few exchanges and at once after one with slots, up to where this rank has read.
  /// Without a fence, so that a rank that falls asleep at this very moment may be missed unless it pays for fences; it
  /// hears of it with what comes next: arrive(), or the first wait that is not over at once.
  void end_turn() noexcept {
    if (slots_used_ || exchange_ % kExchangesPerNotice == 0) {
      line(rank_).finished.store(exchange_, std::memory_order_release);
      wake_sleepers();
    }
    ++exchange_;
    begun_ = exchange_;
    came_ = 0;
  }
  int claim(std::uint32_t place) noexcept {
    return all_finished_ >= filled_[place] ? MPI_SUCCESS : wait_for_readers(filled_[place]);
  }
  int wait_for_readers(std::uint64_t exchange) noexcept;
  /// The `rank`-th has filled its slot in this exchange, so has finished those before.
  void has_come(int rank) noexcept {
    came_ |= std::uint64_t{1} << rank;
    if (came_ == others_) all_finished_ = begun_ - 1;
  }
  /// Whether `waiting` may go on; it does not wait for itself.
  [[nodiscard]] bool holds(const Want& want, int waiting) const noexcept;
  [[nodiscard]] bool lost_a_peer() noexcept;
  int wait(const Want& want) noexcept;
  /// Polls for a while, or yields between polls if the core is shared.  Returns whether the condition holds.
  bool spin(const Want& want) noexcept;
  bool yield_while_waiting(const Want& want) noexcept;
  int sleep(const Want& want) noexcept;
  /// After a store to the own memory: one of the two, this rank or a sleeper, sees the other.
  void tell_sleepers() noexcept;
  /// Those that are seen to sleep.
  void wake_sleepers() noexcept {
    const std::uint64_t asleep = head_->sleepers.load(std::memory_order_acquire) & ~own_bit_;
    if (asleep != 0) [[unlikely]]
      wake(asleep);
  }
  void wake(std::uint64_t asleep) noexcept;

  HostMemory memory_;
  Head* head_;
  std::byte* ranks_;
  const std::uint64_t slot_bytes_;
  const std::uint64_t slot_stride_;
  const std::uint64_t rank_stride_;
  const int rank_;
  const int size_;
  const std::uint64_t own_bit_;
  const std::uint64_t others_;  // a bit for each
  const std::vector<p2p::Peer*> peers_;
  p2p::Engine& engine_;
  const Manner manner_;
  std::unique_ptr<opal::YieldPolicy> yield_policy_ = std::make_unique<opal::YieldPolicy>();
  std::uint64_t exchange_ = 0;
  std::uint64_t begun_ = 0;  // exchange_ before any refill()
  std::uint32_t place_ = 0;
  bool slots_used_ = false;
  std::uint64_t cell_lines_ = 0;                         // that are worth to be fetched ahead
  std::uint64_t data_ = 0;                               // of place_
  std::uint64_t came_ = 0;                               // ranks seen in this exchange
  std::array<std::uint64_t, kCells + kSlots> filled_{};  // the own ones: when last
  std::uint64_t all_finished_ = 0;                       // as far as known
  std::uint32_t failures_seen_;
};

}  // namespace mpi_shim::coll
