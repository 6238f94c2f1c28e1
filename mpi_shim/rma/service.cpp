// SPDX-License-Identifier: Apache-2.0
// The target's side: grants its access lock to peers and executes their access messages.  All functions run
// inside progress under the Context's lock and do not wait.  If a lock is taken, progress tries again later.
#include <algorithm>
#include <cstring>
#include <utility>

#include "mpi_shim/rma/window.hpp"
#include "opal/core/log.hpp"

namespace mpi_shim::rma {

/// Handles a LockRequest.  False: the rank waits for the lock or holds it already.
bool Window::on_lock(int rank, bool exclusive) noexcept {
  Target& asker = target(rank);
  if (asker.asks || asker.granted_to != Target::LockMode::nothing) return false;
  asker.asks = true;
  waiting_.push_back({rank, exclusive});
  update_claim_for_others();
  if (!grant_again_.waits && !grant_waiting()) engine().wait_for_transport(grant_again_);
  return true;
}

/// Grants the lock to the waiting ranks, in the order of their requests, or refuses if the lock is lost.  False: a rank
/// still waits.
bool Window::grant_waiting() noexcept {
  AccessLock& lock = own().control->access;
  while (!waiting_.empty()) {
    Waiting& next = waiting_.front();
    const bool taken = next.exclusive ? lock.try_exclusive() : lock.try_shared();
    if (!taken && !is_access_lock_lost(own())) {
      // Only the first of the queue keeps new readers out.  A writer behind a reader would block that reader and
      // itself.
      if (next.exclusive && !std::exchange(next.announced, true)) lock.begin_waiting();
      return false;
    }
    if (next.announced) lock.end_waiting();
    const Waiting answered = next;
    waiting_.pop_front();
    Target& asker = target(answered.rank);
    asker.asks = false;
    if (taken) {
      asker.granted_to = answered.exclusive ? Target::LockMode::exclusive : Target::LockMode::shared;
      ++granted_;
    }
    update_claim_for_others();
    send_signal(asker, taken ? wire::kGranted : wire::kRefused);
  }
  return true;
}

/// Handles an unlock message.  False: the rank does not hold the lock in this mode.
bool Window::on_unlock(int rank, bool exclusive) noexcept {
  Target& holder = target(rank);
  if (holder.granted_to != (exclusive ? Target::LockMode::exclusive : Target::LockMode::shared)) return false;
  holder.granted_to = Target::LockMode::nothing;
  own().control->access.release();
  --granted_;
  update_claim_for_others();
  send_signal(holder, wire::kUnlocked);
  return true;
}

void Window::update_claim_for_others() noexcept {
  if (granted_ != 0 || !waiting_.empty()) {
    own_claim(own()).fetch_or(kClaimsForOthers, std::memory_order_relaxed);
  } else {
    own_claim(own()).fetch_and(static_cast<std::uint8_t>(~kClaimsForOthers), std::memory_order_release);
  }
}

void Window::on_rank_failed(int rank) noexcept {
  Target& gone = target(rank);
  gone.failed.store(true, std::memory_order_release);
  gone.received = nullptr;  // it may have counted a message that it has not sent
  if (gone.granted_to != Target::LockMode::nothing) own_claim(own()).fetch_or(kClaimIsLost, std::memory_order_relaxed);
  if (!gone.asks) return;
  gone.asks = false;
  const auto asked = std::ranges::find_if(waiting_, [&](const Waiting& one) { return one.rank == rank; });
  if (asked->announced) own().control->access.end_waiting();
  waiting_.erase(asked);
  update_claim_for_others();
}

/// Whether all of this memory belongs to the window in this process.
bool Window::owns(std::uint64_t address, std::uint64_t size) const noexcept {
  if (flavor_ != Flavor::dynamic) {
    const Target& mine = targets_[static_cast<std::size_t>(comm_.rank())];
    return AttachedRegion{mine.base, mine.size}.contains(address, size);
  }
  // An access may span adjacent attached regions.
  for (std::uint64_t covered = 0; covered < size;) {
    const auto region = std::ranges::find_if(
        attached_, [&](const Attached& attached) { return attached.region.contains(address + covered, 1); });
    if (region == attached_.end()) return false;
    covered += region->region.base + region->region.size - (address + covered);
  }
  return true;
}

void Window::on_access(am::Endpoint& from, const wire::AccessHeader& header, ByteSpan data) noexcept {
  UpdateLock& lock = own().control->update;
  // Transfers need no lock, but must not overtake deferred updates.
  const bool take = header.action != wire::Action::transfer;
  if (!deferred_.empty() || (take && !lock.try_lock(comm_.rank()))) {
    deferred_.push_back({&from, header, {data.begin(), data.end()}});
    engine().wait_for_transport(serve_again_);
    return;
  }
  serve(from, header, data);
  if (take) lock.unlock();
}

/// Executes deferred access messages in their order.  False: the update lock is still taken.
bool Window::serve_deferred() noexcept {
  UpdateLock& lock = own().control->update;
  while (!deferred_.empty()) {
    const Deferred& next = deferred_.front();
    const bool take = next.header.action != wire::Action::transfer;
    const bool taken = take && lock.try_lock(comm_.rank());
    if (take && !taken && !has_failed(lock.holder())) return false;
    if (taken || !take) {
      serve(*next.from, next.header, next.data);
    } else {
      fetched_.clear();
      answer(*next.from, next.header, MPI_ERR_PROC_ABORTED);
    }
    if (taken) lock.unlock();
    deferred_.pop_front();
  }
  return true;
}

/// Executes one piece and sends the answer.
void Window::serve(am::Endpoint& from, const wire::AccessHeader& header, ByteSpan data) noexcept {
  fetched_.clear();
  const int error = carry_out(header, data, from.attributes().max_send - sizeof(wire::AccessReply));
  if (error != MPI_SUCCESS) fetched_.clear();
  answer(from, header, error);
}

/// Whether ranks of this host have counted messages that this process has not executed.
bool Window::has_counted_messages() noexcept {
  return std::ranges::any_of(host_ranks_, [&](int rank) {
    const Target& origin = target(rank);
    return origin.received != nullptr && origin.received->get() != origin.executed;
  });
}

/// Sends the answer, with the data in fetched_.  Each origin limits the answers that wait by its pieces in flight.
void Window::answer(am::Endpoint& from, const wire::AccessHeader& header, int error) noexcept {
  if (header.has(wire::kCounted)) ++target(header.rank).executed;
  const wire::AccessReply reply{header.id, header.bytes, static_cast<std::uint32_t>(error)};
  engine().send_control(from, wire::kAccessReply, bytes_of(reply), fetched_);
}

/// Sets blocks_ to the blocks of the message and removes their list from `data`.  An error: the list is garbled, or a
/// block is not in the window.
int Window::read_blocks(const wire::AccessHeader& header, ByteSpan& data) {
  const std::uint64_t size = header.more * std::uint64_t{sizeof(wire::Blocks)};
  if (size > data.size()) return MPI_ERR_INTERN;
  const std::uint64_t base = flavor_ == Flavor::dynamic ? 0 : own().base;
  blocks_.items.clear();
  std::uint64_t left = header.bytes;
  const auto add = [&](const wire::Blocks& blocks) {
    const std::uint64_t bytes = std::uint64_t{blocks.bytes} * blocks.count;
    if (bytes == 0 || bytes > left) return MPI_ERR_INTERN;
    std::uint64_t address = base + blocks.displacement;
    datatype::Item& item = blocks_.items.emplace_back();
    item.offset = static_cast<std::int64_t>(address);
    item.stride = blocks.count > 1 ? static_cast<std::int64_t>(blocks.stride) : 0;
    item.count = blocks.count;
    item.bytes = blocks.bytes;
    item.begin = static_cast<std::int64_t>(header.bytes - left);
    left -= bytes;
    for (std::uint32_t i = 0; i < blocks.count; ++i, address += blocks.stride) {
      if (!owns(address, blocks.bytes)) return MPI_ERR_RMA_RANGE;
    }
    return MPI_SUCCESS;
  };
  int error = add(header.first);
  for (std::uint64_t at = 0; at < size && error == MPI_SUCCESS; at += sizeof(wire::Blocks)) {
    wire::Blocks blocks{};
    (void)read_object(data.subspan(at), blocks);
    error = add(blocks);
  }
  data = data.subspan(size);
  blocks_.bytes = header.bytes;
  blocks_.root_last = header.more + 1;
  blocks_.depth = 1;
  return error == MPI_SUCCESS && left != 0 ? MPI_ERR_INTERN : error;
}

int Window::carry_out(const wire::AccessHeader& header, ByteSpan data, std::uint64_t reply_room) {
  // The message may be wrong: everything in it is checked before memory is touched.
  if (header.bytes > reply_room || header.element >= datatype::kElements) return MPI_ERR_INTERN;
  if (const int error = read_blocks(header, data); error != MPI_SUCCESS) return error;
  const bool pair = header.action == wire::Action::compare_swap;
  const std::uint64_t sends = header.has(wire::kStores) ? (pair ? 2 : 1) * std::uint64_t{header.bytes} : 0;
  if (data.size() != sends) return MPI_ERR_INTERN;
  datatype::Cursor cursor;
  cursor.start(blocks_);
  if (header.has(wire::kFetches)) {
    fetched_.resize(header.bytes);
    cursor.pack(fetched_);
    p2p::check_copy(cursor.failure());
    cursor.seek(0);
  }
  if (!header.has(wire::kStores)) return MPI_SUCCESS;
  switch (header.action) {
    case wire::Action::transfer: cursor.unpack(data); break;
    case wire::Action::update: {
      const auto op = static_cast<op::OpKind>(header.op);
      const auto element = static_cast<datatype::Element>(header.element);
      if (!op::accumulate(op, element, data, cursor, scratch_)) return MPI_ERR_OP;
      break;
    }
    case wire::Action::compare_swap:
      if (header.has(wire::kFetches) && std::memcmp(fetched_.data(), data.data() + header.bytes, header.bytes) == 0) {
        cursor.unpack(data.first(header.bytes));
      }
      break;
    default: return MPI_ERR_INTERN;
  }
  p2p::check_copy(cursor.failure());
  return MPI_SUCCESS;
}

}  // namespace mpi_shim::rma
