// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/coll/host/team_segment.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "opal/core/clock.hpp"
#include "opal/core/sync/asymmetric_fence.hpp"

namespace mpi_shim::coll {
namespace {

static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "shared between processes");

constexpr int kFirstPolls = 200;   // polls before the first fence: a peer that is in the collective answers within them
constexpr int kPollsPerPass = 32;  // polls between two rounds of progress

/// Fetches the cache line of `address` for writing, so that a later store does not wait for other cores.
/// (For a generic x86-64 target compilers turn __builtin_prefetch(address, 1) into a prefetch for reading.  Processors
/// without PREFETCHW execute it as a no-op.)
void prefetch_to_write(const void* address) noexcept {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(address)));
#else
  __builtin_prefetch(address, 1);
#endif
}

}  // namespace

std::uint64_t TeamSegment::bytes_for(int ranks, std::uint64_t slot_bytes, bool core_is_shared) noexcept {
  return sizeof(Head) + static_cast<std::uint64_t>(ranks) * (sizeof(Line) + cells_for(core_is_shared) * kCellStride +
                                                             kSlots * (kSlotHeader + slot_bytes));
}

TeamSegment::TeamSegment(HostMemory memory, std::uint64_t slot_bytes, int rank, std::vector<p2p::Peer*> peers,
                         const p2p::Channel& channel, p2p::Engine& engine, Manner manner)
    : memory_(std::move(memory)),
      head_(reinterpret_cast<Head*>(memory_.bytes().data())),  // zeroes are valid counters
      ranks_(memory_.bytes().data() + sizeof(Head)),
      cells_(cells_for(manner.core_is_shared)),
      slot_bytes_(slot_bytes),
      slot_stride_(kSlotHeader + slot_bytes),
      rank_stride_(bytes_for(1, slot_bytes, manner.core_is_shared) - sizeof(Head)),
      rank_(rank),
      size_(static_cast<int>(peers.size())),
      own_bit_(std::uint64_t{1} << rank),
      others_((UINT64_MAX >> (kMostRanks - peers.size())) & ~own_bit_),
      peers_(std::move(peers)),
      channel_(channel),
      engine_(engine),
      manner_(manner) {}

void TeamSegment::arrive() noexcept {
  header(rank_, place_).exchange.store(exchange_, std::memory_order_release);
  filled_[place_] = exchange_;
  for_lines_of_cell(rank_, 1, [](const std::byte* address) { prefetch_to_write(address); });
  tell_sleepers();
}

int TeamSegment::await_all() noexcept {
  if (const int error = wait({exchange_, kAll, place_}); error != MPI_SUCCESS) return error;
  came_ = others_;
  all_finished_ = begun_ - 1;  // see has_come()
  return MPI_SUCCESS;
}

int TeamSegment::wait_for_readers(std::uint64_t exchange) noexcept {
  if (const int error = wait({exchange, kAll, kFinished}); error != MPI_SUCCESS) return error;
  all_finished_ = UINT64_MAX;
  for (int rank = 0; rank < size_; ++rank) {
    if (rank != rank_) all_finished_ = std::min(all_finished_, line(rank).finished.load(std::memory_order_acquire));
  }
  return MPI_SUCCESS;
}

bool TeamSegment::holds(const Want& want, int waiting) const noexcept {
  if (want.rank != kAll) return counter(want.rank, want.place).load(std::memory_order_acquire) >= want.exchange;
  for (int rank = 0; rank < size_; ++rank) {
    if (rank != waiting && counter(rank, want.place).load(std::memory_order_acquire) < want.exchange) return false;
  }
  return true;
}

int TeamSegment::wait(const Want& want) noexcept {
  for (int poll = 0; poll < (manner_.core_is_shared ? 1 : kFirstPolls); ++poll) {
    if (holds(want, rank_)) [[likely]]
      return MPI_SUCCESS;
    opal::cpu_relax();
  }
  tell_sleepers();
  return (manner_.core_is_shared ? yield_while_waiting(want) : spin(want)) ? MPI_SUCCESS : sleep(want);
}

bool TeamSegment::spin(const Want& want) noexcept {
  const p2p::Engine::Polling polling{engine_};
  const opal::Deadline end = opal::Deadline::after(manner_.spin);
  do {
    engine_.poll_all();  // messages of other processes may need progress of this one
    for (int poll = 0; poll < kPollsPerPass; ++poll) {
      if (holds(want, rank_)) return true;
      opal::cpu_relax();
    }
  } while (!end.expired());
  return false;
}

bool TeamSegment::yield_while_waiting(const Want& want) noexcept {
  for (std::uint32_t left = yield_policy_->begin(manner_.spin); left != 0; --left) {
    engine_.poll_all();
    const bool again = yield_policy_->yield();
    if (holds(want, rank_)) return true;
    if (!again) break;
  }
  return false;
}

int TeamSegment::sleep(const Want& want) noexcept {
  line(rank_).wanted.store(want.packed(), std::memory_order_relaxed);
  bool held = false;
  engine_.wait_until(
      [&] {
        held = holds(want, rank_);
        if (held || lost_a_process()) return true;
        if ((head_->sleepers.load(std::memory_order_relaxed) & own_bit_) == 0) {
          // Set the bit, fence, then test: with the sender's fence in tell_sleepers(), either the waker sees the bit
          // or this rank sees the store.  The bit may be clear here again, since a late waker took it for an earlier
          // Want; then it is set anew.
          head_->sleepers.fetch_or(own_bit_, std::memory_order_seq_cst);
          opal::receiver_fence(manner_.fences_paid);
          held = holds(want, rank_);
        }
        return held;
      },
      "in a collective function for other ranks of this host");
  head_->sleepers.fetch_and(~own_bit_, std::memory_order_relaxed);
  return held ? MPI_SUCCESS : MPI_ERR_PROC_ABORTED;
}

bool TeamSegment::lost_a_process() noexcept {
  if (engine_.failures() == 0) [[likely]]
    return false;
  const am::Lock::Guard guard{engine_.lock()};
  return channel_.broken;
}

void TeamSegment::tell_sleepers() noexcept {
  opal::sender_fence(manner_.fences_paid);
  wake_sleepers();
}

void TeamSegment::wake(std::uint64_t asleep) noexcept {
  for (; asleep != 0; asleep &= asleep - 1) {
    const int rank = std::countr_zero(asleep);
    if (rank >= size_) return;  // invalid: no rank sets this bit
    const Want want = Want::unpack(line(rank).wanted.load(std::memory_order_relaxed));
    // A Want that is true stays true.  The first rank that sees it clears the bit and sends the wake-up message.
    const std::uint64_t bit = std::uint64_t{1} << rank;
    if (want.rank < size_ && want.place <= kFinished && holds(want, rank) &&
        (head_->sleepers.fetch_and(~bit, std::memory_order_acq_rel) & bit) != 0) {
      engine_.wake(*peers_[static_cast<std::size_t>(rank)]);
    }
  }
}

}  // namespace mpi_shim::coll
