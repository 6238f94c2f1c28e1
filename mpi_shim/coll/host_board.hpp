// SPDX-License-Identifier: Apache-2.0
// mpi_shim/coll/host_board.hpp — memory through which ranks of one host do their part of a collective: a line of
// counters and a few slots per rank (docs/design/mpi-collectives.md).
// A rank writes only its own line and slots.  Operations are numbered turns, the same everywhere; `arrived` says up to
// which turn a rank's slot is filled, `finished` up to which it has read the others'.  Whoever waits looks for a while,
// then says in its line what it waits for and sleeps as for messages; the one that makes it true wakes it with one.
// A rank that cannot read what it was to fill its slot with fills it all the same and marks it as spoiled, and so do
// those that make something of it: everybody whom it reaches knows.
// Threads: one at a time, as the standard has it for the collectives of a communicator.
#pragma once
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "mpi_shim/core/host_memory.hpp"
#include "mpi_shim/p2p/engine.hpp"
#include "opal/core/turns.hpp"

namespace mpi_shim::coll {

class HostBoard {
 public:
  static constexpr int kMostRanks = 64;  ///< bits of the word of sleepers

  /// How it waits.
  struct Manner {
    std::chrono::microseconds spin;
    bool core_is_shared;  ///< others that run on this core make it true
  };

  static std::uint64_t bytes_for(int ranks, std::uint64_t slot_bytes) noexcept;

  /// `memory` has bytes_for(peers.size(), slot_bytes); `peers` have been reached, this process is the `rank`-th.
  HostBoard(HostMemory memory, std::uint64_t slot_bytes, int rank, std::vector<p2p::Peer*> peers, p2p::Engine& engine,
            Manner manner);

  [[nodiscard]] int rank() const noexcept { return rank_; }
  [[nodiscard]] int size() const noexcept { return size_; }
  [[nodiscard]] std::uint64_t slot_bytes() const noexcept { return slot_bytes_; }

  // --- One operation, in this order.  Waits return an error class: MPI_ERR_PROC_ABORTED when a rank is gone.

  /// What was read from slots in earlier turns is not needed any more.
  void begin() noexcept;
  /// Waits until nobody needs what is in the own slot.
  int claim() noexcept;
  /// A rank's slot of this operation, on a cache line: the own one to be written after claim(), others' to be read
  /// after await().
  [[nodiscard]] std::byte* slot(int rank) const noexcept {
    return slots_ + (static_cast<std::uint64_t>(rank) * kDepth + slot_) * slot_bytes_;
  }
  /// Says that the own slot is filled.
  void arrive() noexcept;
  int await(int rank) noexcept;
  int await_all() noexcept;
  /// What this rank's slots hold from here on, until the end of the operation, is not what it should be.
  void spoil() noexcept { spoiled_ = true; }
  /// Whether it has done that, or has waited for a slot of somebody who has.
  [[nodiscard]] bool spoiled() const noexcept { return spoiled_; }
  /// The end of the operation, of however many turns: whether it was spoiled.
  [[nodiscard]] bool take_spoiled() noexcept { return std::exchange(spoiled_, false); }
  /// From here on arrive() and await() mean a second filling of the same slots, of parts that nobody else reads yet.
  void refill() noexcept { ++turn_; }

 private:
  static constexpr std::uint64_t kDepth = 4;  // turns that a writer may be ahead of its readers
  static constexpr int kAll = -1;

  struct alignas(64) Head {
    std::atomic<std::uint64_t> sleepers;
  };
  struct alignas(64) Line {
    std::atomic<std::uint64_t> arrived;
    std::atomic<std::uint64_t> finished;
    std::atomic<std::uint64_t> wanted;  // a Want, packed; counts while the rank's bit among the sleepers is set
    std::array<std::atomic<std::uint64_t>, kDepth> spoiled;  // by slot: the turn in which what it holds was so marked
  };
  /// Something that a rank waits for: a counter of one rank or all to be at least `turn`.
  struct Want {
    std::uint64_t turn;
    int rank;
    bool finished;  // which counter

    [[nodiscard]] std::uint64_t packed() const noexcept {
      return turn << 8 | static_cast<std::uint64_t>(rank + 1) << 1 | (finished ? 1U : 0U);
    }
    static Want unpack(std::uint64_t word) noexcept {
      return {word >> 8, static_cast<int>(word >> 1 & 0x7f) - 1, (word & 1) != 0};
    }
  };

  [[nodiscard]] const std::atomic<std::uint64_t>& counter(int rank, bool finished) const noexcept {
    return finished ? lines_[rank].finished : lines_[rank].arrived;
  }
  /// Whether `waiting` may go on; it does not wait for itself.
  [[nodiscard]] bool holds(const Want& want, int waiting) const noexcept;
  [[nodiscard]] bool lost_a_peer() noexcept;
  /// After waiting for the slots of these ranks.
  void look_for_spoiled(int first, int end) noexcept;
  int wait(const Want& want) noexcept;
  /// Looks for a while, resp. between turns of others that run on this core.  Whether it holds.
  bool spin(const Want& want) noexcept;
  bool give_turns(const Want& want) noexcept;
  int sleep(const Want& want) noexcept;
  /// After a store to the own line: one of the two, this rank or a sleeper, sees the other.
  void tell_sleepers() noexcept;
  /// Those that are seen to sleep.
  void wake_sleepers() noexcept;
  void wake(std::uint64_t asleep) noexcept;

  HostMemory memory_;
  Head* head_;
  Line* lines_;
  std::byte* slots_;
  const std::uint64_t slot_bytes_;
  const int rank_;
  const int size_;
  const std::vector<p2p::Peer*> peers_;
  p2p::Engine& engine_;
  const Manner manner_;
  std::unique_ptr<opal::Turns> turns_ = std::make_unique<opal::Turns>();
  std::uint64_t turn_ = 0;
  std::uint64_t slot_ = 0;
  std::uint64_t slot_turn_ = 0;  // in which slot_ was begun
  bool spoiled_ = false;
  std::uint64_t all_finished_ = 0;  // as far as known
  std::uint32_t failures_seen_;
};

}  // namespace mpi_shim::coll
