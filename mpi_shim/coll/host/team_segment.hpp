// SPDX-License-Identifier: Apache-2.0
// mpi_shim/coll/host/team_segment.hpp — shared memory for the collectives of the ranks of one host.  Per rank: a cache
// line of counters, 16 or 64 cells for short data, kSlots slots for long data (docs/design/mpi-collectives.md).
// A rank writes only its own memory, and the sleepers' word.  All ranks count the exchanges alike.  A cell or slot
// begins with the number of the exchange in which its owner filled it; `finished` of a rank is the exchange up to which
// it has read the data of the others.
// A waiting rank polls, then writes its Want into its line, sets its bit among the sleepers and sleeps in its Engine.
// The rank that makes the Want true wakes it by a message (Engine::wake).
// Owns the mapping; borrows Engine, channel and peers.  Threads: one at a time.
#pragma once
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "mpi_shim/base/host_memory.hpp"
#include "mpi_shim/p2p/engine.hpp"
#include "opal/core/sync/yield_policy.hpp"

namespace mpi_shim::coll {

class TeamSegment {
 public:
  static constexpr int kMostRanks = 64;  ///< one bit each in Head::sleepers

  /// The most bytes of data in a cell.
  static constexpr std::uint64_t kCellBytes = 1072;

  /// How a rank waits; equal in all ranks but for `spin`.
  struct Manner {
    std::chrono::microseconds spin;  ///< time of polling before it sleeps
    bool core_is_shared;             ///< other ranks run on this core: it yields between polls
    bool fences_paid;  ///< all ranks accept remote fences, and the sleeper executes them (asymmetric_fence.hpp)
  };

  static std::uint64_t bytes_for(int ranks, std::uint64_t slot_bytes, bool core_is_shared) noexcept;

  /// Requires: `memory` has bytes_for(peers.size(), slot_bytes, manner.core_is_shared) bytes, zeroed by its maker;
  /// slot_bytes is a multiple of 64; peers[rank] is this process, and Engine::reach() has connected all others.
  /// `channel`: of the communicator's collectives.
  TeamSegment(HostMemory memory, std::uint64_t slot_bytes, int rank, std::vector<p2p::Peer*> peers,
              const p2p::Channel& channel, p2p::Engine& engine, Manner manner);

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return size_; }
  [[nodiscard]] std::uint64_t slot_bytes() const noexcept { return slot_bytes_; }
  [[nodiscard]] bool core_is_shared() const noexcept { return manner_.core_is_shared; }

  // --- One exchange, in this order.  Waits return an error class: MPI_ERR_PROC_ABORTED when a process of the
  //     communicator has failed, on any host.

  /// Begins the next exchange and ends the reading of earlier ones.  `most`, equal in all ranks: the most bytes that a
  /// rank fills in.  Up to kCellBytes the functions below that name a slot use a cell.  If ranks do not know how much
  /// the others fill in, `most` is kCellBytes: a rank fills its cell, and also its slot if the content of the cell says
  /// so (claim_beside(), beside()).
  void begin(std::uint64_t most) noexcept {
    end_turn();
    most > kCellBytes ? take_slot() : take_cell(most);
  }
  /// Waits until all ranks have read the old content of the own slot.
  int claim() noexcept { return claim(place_); }
  /// A rank's slot of this exchange, aligned to 16 bytes.  The own one is writable from claim() to arrive(), another
  /// rank's is readable from await() to the next begin().
  [[nodiscard]] std::byte* slot(int rank) const noexcept { return of_rank(rank) + data_; }
  /// After begin() with a cell: claim() and slot() for the slot besides the cell.  The rank fills it before arrive().
  int claim_beside() noexcept {
    const int error = claim(slot_of_exchange());
    filled_[slot_of_exchange()] = exchange_;
    return error;
  }
  /// After begin() with a cell: the slot of `rank`, which this rank then counts as filled or read in this exchange.
  [[nodiscard]] std::byte* beside(int rank) noexcept {
    slots_used_ = true;
    return of_rank(rank) + offset_of(slot_of_exchange()) + kSlotHeader;
  }
  /// Publishes the content of the own slot.
  void arrive() noexcept;
  /// Waits until `rank` has filled its slot.
  int await(int rank) noexcept {
    if (header(rank, place_).exchange.load(std::memory_order_acquire) < exchange_) [[unlikely]] {
      if (const int error = wait({exchange_, rank, place_}); error != MPI_SUCCESS) return error;
    } else {  // the rank may be ahead: prefetch the cell of a later exchange
      for_lines_of_cell(rank, kReadAhead, [](const std::byte* address) { __builtin_prefetch(address); });
    }
    has_come(rank);
    return MPI_SUCCESS;
  }
  /// Fills the own slot by write(slot): claim() to arrive().
  template <class Write>
  int fill(Write&& write) {
    if (const int error = claim(); error != MPI_SUCCESS) return error;
    write(slot(rank_));
    arrive();
    return MPI_SUCCESS;
  }
  /// A whole exchange in which only the rank `from` fills its slot; afterwards all ranks may read it.
  template <class Write>
  int fill_by(int from, std::uint64_t bytes, Write&& write) {
    begin(bytes);
    return rank_ == from ? fill(write) : await(from);
  }
  /// Waits until all other ranks have filled their slots.
  int await_all() noexcept;
  /// Begins a second filling of the same slots, which the following arrive() and await() refer to.  A rank writes only
  /// bytes of its slot that no other rank still reads.
  void refill() noexcept { ++exchange_; }

 private:
  // Exchanges that a writer may be ahead of its readers: short ones, long ones.  A place is a number for all three: a
  // cell [0, kMostCells), a slot [kMostCells, kFinished), the counter `finished`.
  static constexpr std::uint32_t kFewCells = 16;   // they stay in the cache
  static constexpr std::uint32_t kMostCells = 64;  // where ranks share cores: fewer changes of the rank that runs
  static constexpr std::uint32_t kSlots = 4;
  static constexpr std::uint32_t kFinished = kMostCells + kSlots;
  static constexpr std::uint32_t cells_for(bool core_is_shared) noexcept {
    return core_is_shared ? kMostCells : kFewCells;
  }
  static constexpr std::uint64_t kCellHeader = 16;
  static constexpr std::uint64_t kSlotHeader = 64;
  static constexpr std::uint64_t kExchangesPerNotice = 4;  // between stores of `finished`; a power of two << kFewCells
  static constexpr std::uint32_t kReadAhead = 3;           // exchanges by which await() prefetches
  static constexpr std::uint64_t kMostLinesAhead = 5;      // cache lines of a cell that are prefetched
  static constexpr int kAll = -1;                          // as Want::rank: all ranks but the waiting one

  struct alignas(64) Head {
    std::atomic<std::uint64_t> sleepers;  // bit r: rank r sleeps or is about to
  };
  struct alignas(64) Line {
    std::atomic<std::uint64_t> finished;
    std::atomic<std::uint64_t> wanted;  // a packed Want; valid while the rank's bit is set in `sleepers`
  };
  /// At the beginning of a cell or slot.
  struct Header {
    std::atomic<std::uint64_t> exchange;  // the exchange in which its owner filled it
  };
  static_assert(sizeof(Header) <= kCellHeader);

  /// A condition that a rank waits for: a counter of `rank`, or of all ranks (kAll), is at least `exchange`.
  struct Want {
    std::uint64_t exchange;
    int rank;
    std::uint32_t place;  // the counter: of a cell or slot, or kFinished

    [[nodiscard]] std::uint64_t packed() const noexcept {
      return exchange << 14 | static_cast<std::uint64_t>(rank + 1) << 7 | place;
    }
    static Want unpack(std::uint64_t word) noexcept {
      return {word >> 14, static_cast<int>(word >> 7 & 0x7f) - 1, static_cast<std::uint32_t>(word & 0x7f)};
    }
  };
  static_assert(kFinished < 1U << 7 && kMostRanks < 1 << 7);

  /// The offset of a cell or slot in a rank's memory, which holds the line, the cells and the slots.
  [[nodiscard]] std::uint64_t offset_of(std::uint32_t place) const noexcept {
    return sizeof(Line) +
           (place < kMostCells ? place * kCellStride : cells_ * kCellStride + (place - kMostCells) * slot_stride_);
  }
  static constexpr std::uint64_t kCellStride = kCellHeader + kCellBytes;
  static_assert(kCellStride % 64 == 0);

  [[nodiscard]] std::uint32_t cell_of_exchange() const noexcept {
    return static_cast<std::uint32_t>(exchange_) & (cells_ - 1);
  }
  [[nodiscard]] std::uint32_t slot_of_exchange() const noexcept {
    return kMostCells + static_cast<std::uint32_t>(exchange_ % kSlots);
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

  /// Calls `use(address)` for the cache lines of the cell that `rank` fills `ahead` exchanges from now.  Assumes that
  /// its data are as long as those of this exchange.
  template <class Use>
  void for_lines_of_cell(int rank, std::uint32_t ahead, Use&& use) const noexcept {
    const std::byte* const cell = of_rank(rank) + offset_of((place_ + ahead) & (cells_ - 1));
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
  /// Publishes the exchange up to which this rank has read: after each exchange with slots, and after every
  /// kExchangesPerNotice-th other one.  It executes no fence, so unless fences_paid it may miss a rank that is falling
  /// asleep.  That rank is woken by the next tell_sleepers(): in arrive(), or in the next wait that has to poll long.
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
  /// `rank` has filled its slot in this exchange, which implies that it has finished the earlier exchanges.
  void has_come(int rank) noexcept {
    came_ |= std::uint64_t{1} << rank;
    if (came_ == others_) all_finished_ = begun_ - 1;
  }
  /// Whether `want` of the rank `waiting` is true.
  [[nodiscard]] bool holds(const Want& want, int waiting) const noexcept;
  /// Whether a process of the communicator has failed.  One of another host counts: a leader that waits for it ends
  /// the collective with an error, and never fills its slot.
  [[nodiscard]] bool lost_a_process() noexcept;
  int wait(const Want& want) noexcept;
  /// Polls for manner_.spin; yield_while_waiting() yields the core between polls.  Returns whether `want` is true.
  bool spin(const Want& want) noexcept;
  bool yield_while_waiting(const Want& want) noexcept;
  int sleep(const Want& want) noexcept;
  /// wake_sleepers() after a fence: a store before it is seen by a rank that falls asleep, or this rank sees its bit.
  void tell_sleepers() noexcept;
  /// Wakes the ranks whose bit is seen in `sleepers` and whose Want is true.
  void wake_sleepers() noexcept {
    const std::uint64_t asleep = head_->sleepers.load(std::memory_order_acquire) & ~own_bit_;
    if (asleep != 0) [[unlikely]]
      wake(asleep);
  }
  void wake(std::uint64_t asleep) noexcept;

  HostMemory memory_;
  Head* head_;
  std::byte* ranks_;
  const std::uint32_t cells_;  // a power of two
  const std::uint64_t slot_bytes_;
  const std::uint64_t slot_stride_;
  const std::uint64_t rank_stride_;
  const int rank_;
  const int size_;
  const std::uint64_t own_bit_;
  const std::uint64_t others_;  // the bits of all other ranks
  const std::vector<p2p::Peer*> peers_;
  const p2p::Channel& channel_;
  p2p::Engine& engine_;
  const Manner manner_;
  std::unique_ptr<opal::YieldPolicy> yield_policy_ = std::make_unique<opal::YieldPolicy>();
  std::uint64_t exchange_ = 0;                     // the current one
  std::uint64_t begun_ = 0;                        // exchange_ at the last begin(), before any refill()
  std::uint32_t place_ = 0;                        // the cell or slot of this exchange
  bool slots_used_ = false;                        // by this rank in this exchange
  std::uint64_t cell_lines_ = 0;                   // cache lines of a cell to prefetch; 0: a slot
  std::uint64_t data_ = 0;                         // offset of the data of place_ in a rank's memory
  std::uint64_t came_ = 0;                         // bits of the ranks that have filled their slot in this exchange
  std::array<std::uint64_t, kFinished> filled_{};  // by place: the exchange in which this rank last filled it
  std::uint64_t all_finished_ = 0;                 // all other ranks are known to have finished it
};

}  // namespace mpi_shim::coll
