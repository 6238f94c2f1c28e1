// SPDX-License-Identifier: Apache-2.0
// What a window does for its peers, inside progress: grants locks of its memory, carries out access messages.  Nothing
// here waits: what finds a lock taken is tried again from progress.
#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "mpi_shim/rma/window.hpp"
#include "opal/core/log.hpp"

namespace mpi_shim::rma {

void Window::on_lock(int rank, bool exclusive) noexcept {
  waiting_.push_back({rank, exclusive});
  if (waiting_.size() == 1 && !grant_waiting()) engine().wait_for_transport(grant_again_);
}

/// Grants in the order of asking; false: somebody still waits.
bool Window::grant_waiting() noexcept {
  AccessLock& lock = own().control->access;
  while (!waiting_.empty()) {
    Waiting& next = waiting_.front();
    if (next.exclusive ? !lock.try_exclusive() : !lock.try_shared()) {
      // Only the first of the queue may keep readers out: one of them could be before a writer behind it.
      if (next.exclusive && !std::exchange(next.announced, true)) lock.begin_waiting();
      return false;
    }
    if (next.announced) lock.end_waiting();
    const int rank = next.rank;
    waiting_.pop_front();
    send_signal(target(rank), wire::kGranted);
  }
  return true;
}

void Window::on_unlock(int rank, bool exclusive) noexcept {
  AccessLock& lock = own().control->access;
  if (exclusive) {
    lock.release_exclusive();
  } else {
    lock.release_shared();
  }
  send_signal(target(rank), wire::kUnlocked);
}

/// Whether the window has all of this memory here.
bool Window::owns(std::uint64_t address, std::uint64_t size) const noexcept {
  if (flavor_ != Flavor::dynamic) {
    const Target& mine = targets_[static_cast<std::size_t>(comm_.rank())];
    return AttachedRegion{mine.base, mine.size}.contains(address, size);
  }
  // Regions that were attached one behind the other serve an access together.
  for (std::uint64_t covered = 0; covered < size;) {
    const auto region = std::find_if(attached_.begin(), attached_.end(), [&](const Attached& attached) {
      return attached.region.contains(address + covered, 1);
    });
    if (region == attached_.end()) return false;
    covered += region->region.base + region->region.size - (address + covered);
  }
  return true;
}

void Window::on_access(am::Endpoint& from, const wire::AccessHeader& header, datatype::DatatypeRef type,
                       ByteSpan data) noexcept {
  UpdateLock& lock = own().control->update;
  // Transfers need no lock, but must not overtake the updates before them.
  const bool take = header.action != wire::Action::transfer;
  if (!deferred_.empty() || (take && !lock.try_lock())) {
    deferred_.push_back({&from, header, std::move(type), {data.begin(), data.end()}});
    if (deferred_.size() == 1) engine().wait_for_transport(serve_again_);
    return;
  }
  serve(from, header, *type, data);
  if (take) lock.unlock();
}

/// False: the update lock is still taken.
bool Window::serve_deferred() noexcept {
  UpdateLock& lock = own().control->update;
  while (!deferred_.empty()) {
    const Deferred& next = deferred_.front();
    const bool take = next.header.action != wire::Action::transfer;
    if (take && !lock.try_lock()) return false;
    serve(*next.from, next.header, *next.type, next.data);
    if (take) lock.unlock();
    deferred_.pop_front();
  }
  return true;
}

/// Carries out one piece and answers.
void Window::serve(am::Endpoint& from, const wire::AccessHeader& header, const datatype::Datatype& type,
                   ByteSpan data) noexcept {
  wire::AccessReply reply{header.id, header.offset, header.bytes, MPI_SUCCESS, 0};
  fetched_.clear();
  reply.error = static_cast<std::uint32_t>(carry_out(header, type, data, from.attributes().max_send - sizeof reply));
  if (reply.error != MPI_SUCCESS) fetched_.clear();
  if (from.send_or_queue(wire::kAccessReply, bytes_of(reply), fetched_) == Post::failed && !from.dead()) {
    log::error("mpi", "the answer to an access of peer {} is lost: {}", to_string(from.peer()),
               to_string(from.error()));
  }
}

int Window::carry_out(const wire::AccessHeader& header, const datatype::Datatype& type, ByteSpan data,
                      std::uint64_t reply_room) {
  // Nothing of the header is believed.
  if (!Buffer::fits(header.count, type)) return MPI_ERR_COUNT;
  const std::uint64_t base = flavor_ == Flavor::dynamic ? 0 : own().base;
  const std::uint64_t start = base + static_cast<std::uint64_t>(header.displacement);
  const Buffer there{reinterpret_cast<const void*>(start), header.count, type};
  const Buffer::Span span = there.span();
  const bool pair = header.action == wire::Action::compare_swap;
  const std::uint64_t sends = header.stores == 0 ? 0 : pair ? 2 * header.bytes : header.bytes;
  if (header.offset > there.bytes() || header.bytes > there.bytes() - header.offset || data.size() != sends ||
      header.bytes > reply_room) {
    return MPI_ERR_INTERN;
  }
  if (!owns(start + static_cast<std::uint64_t>(span.offset), span.size)) return MPI_ERR_RMA_RANGE;
  datatype::Cursor cursor;
  there.start(cursor);
  cursor.seek(static_cast<std::int64_t>(header.offset));
  if (header.fetches != 0) {
    fetched_.resize(header.bytes);
    cursor.pack(fetched_);
    if (const int error = p2p::copy_error(cursor.failure()); error != MPI_SUCCESS) return error;
    cursor.seek(static_cast<std::int64_t>(header.offset));
  }
  if (header.stores == 0) return MPI_SUCCESS;
  switch (header.action) {
    case wire::Action::transfer: cursor.unpack(data); break;
    case wire::Action::update: {
      const auto element = type.signature().uniform();
      if (!element || header.op > static_cast<std::uint8_t>(op::OpKind::no_op)) return MPI_ERR_OP;
      if (!op::accumulate(static_cast<op::OpKind>(header.op), *element, data, cursor)) return MPI_ERR_OP;
      break;
    }
    case wire::Action::compare_swap:
      if (header.fetches != 0 && std::memcmp(fetched_.data(), data.data() + header.bytes, header.bytes) == 0) {
        cursor.unpack(data.first(header.bytes));
      }
      break;
    default: return MPI_ERR_INTERN;
  }
  return p2p::copy_error(cursor.failure());
}

}  // namespace mpi_shim::rma
