// SPDX-License-Identifier: Apache-2.0
// Accesses: checks epoch and memory, chooses the path to the target, and starts the access.
#include <algorithm>
#include <array>
#include <new>

#include "mpi_shim/request/done_requests.hpp"
#include "mpi_shim/rma/message_access.hpp"
#include "mpi_shim/rma/window.hpp"
#include "mpi_shim/rma/windows.hpp"
#include "opal/core/clock.hpp"

namespace mpi_shim::rma {
namespace {

// Bytes up to which messages cost less than the transport's put and get if the target polls.
constexpr std::uint64_t kMessageGets = 4 << 10;   // in a longer get the target helps
constexpr std::uint64_t kMessagePuts = 32 << 10;  // and in a longer put; a message copies each byte twice
constexpr std::uint64_t kMessageUpdates = 512 << 10;

constexpr int kFewBlocks = 4;  // up to 4 puts cost no more than one access message and its answer

/// Whether `there` consists of at most kFewBlocks contiguous blocks.
bool is_few_blocks(const Buffer& there) noexcept {
  if (there.contiguous() != nullptr) return true;
  datatype::Cursor cursor;
  there.start(cursor);
  for (int blocks = 0; blocks < kFewBlocks; ++blocks) {
    if (cursor.next_piece(there.bytes()).bytes == 0) return true;
  }
  return cursor.done();
}

/// Starts the access.  An R form gets its request; else the request puts itself back when the access completes.
/// Requires: the Context's lock is held.
template <class Access>
void begin(Access& access, MPI_Request* request) {
  access.start();
  if (request != nullptr) {
    *request = access.mpi_handle();
  } else {
    const am::Lock::Guard guard{access.engine()->lock()};  // the helper thread may complete it
    if (!access.abandon()) access.put_back();
  }
}

}  // namespace

/// MPI_SUCCESS if an epoch is open in which this process may access `rank`; MPI_ERR_RMA_SYNC if not.  `passive_only`:
/// only a passive epoch counts.  In an epoch of MPI_Win_lock_all the first access locks the target.
int Window::enter(int rank, bool passive_only) {
  Target& target = this->target(rank);
  if (target.held.load(std::memory_order_relaxed) != Target::LockMode::nothing) return MPI_SUCCESS;
  if (locks_all_) return lock_at_first_access(target);
  if (passive_only) return MPI_ERR_RMA_SYNC;
  if (target.started) return MPI_SUCCESS;
  if (!fence_open_ || access_open_ || locks_ != 0) return MPI_ERR_RMA_SYNC;
  fence_used_ = true;
  return MPI_SUCCESS;
}

/// enter(), and sets `there` to the memory of `place`, with the target's addresses.  MPI_ERR_RMA_RANGE if a part of it
/// is outside the window; not checked for a dynamic window.
int Window::begin_access(const Place& place, bool passive_only, Buffer& there) {
  if (const int error = enter(place.rank, passive_only); error != MPI_SUCCESS) return error;
  if (!Buffer::fits(place.count, *place.type)) return MPI_ERR_COUNT;
  const Target& target = this->target(place.rank);
  std::int64_t offset = place.displacement;
  const bool dynamic = flavor_ == Flavor::dynamic;
  if (!dynamic && __builtin_mul_overflow(place.displacement, target.disp_unit, &offset)) return MPI_ERR_RMA_RANGE;
  const std::uint64_t address = (dynamic ? 0 : target.base) + static_cast<std::uint64_t>(offset);
  there = Buffer{reinterpret_cast<const void*>(address), place.count, *place.type};
  if (dynamic || there.bytes() == 0) return MPI_SUCCESS;  // dynamic: only the target knows the attached memory
  const Buffer::Span span = there.span();
  std::int64_t first = 0;
  if (__builtin_add_overflow(offset, span.offset, &first) || first < 0) return MPI_ERR_RMA_RANGE;
  const auto from = static_cast<std::uint64_t>(first);
  return from <= target.size && span.size <= target.size - from ? MPI_SUCCESS : MPI_ERR_RMA_RANGE;
}

/// The same memory at its addresses in this process.  Computed with integers, since a dynamic window has a null base.
Buffer Window::here(const Target& target, const Buffer& there) noexcept {
  const std::uint64_t offset = reinterpret_cast<std::uint64_t>(there.base()) - target.base;
  const std::uint64_t address = reinterpret_cast<std::uint64_t>(target.mapped) + offset;
  return there.at(reinterpret_cast<const void*>(address));
}

/// Chooses the path to the target, at the first access, and connects to its process if necessary.
int Window::reach(Target& target) {
  const am::Lock::Guard guard{engine().lock()};
  if (target.path.load(std::memory_order_relaxed) != Target::Path::unknown) return MPI_SUCCESS;
  if (target.accessed == nullptr) {
    target.accessed = std::unique_ptr<Target::Accessed>{new (std::nothrow) Target::Accessed};
    if (target.accessed == nullptr) return MPI_ERR_NO_MEM;
    Target::Queue& queue = target.accessed->queue;
    queue.window = this;
    queue.target = &target;
    queue.resume = [](p2p::Stalled& self) noexcept {
      auto& stalled = static_cast<Target::Queue&>(self);
      MessageAccess::pump(*stalled.window, *stalled.target);
      return true;  // pump() has put the queue at the end of the engine's list if the transport is full again
    };
  }
  Target::Path path = Target::Path::mapped;
  if (target.mapped == nullptr && &target != &own()) {
    if (const int error = engine().reach(*target.peer); error != MPI_SUCCESS) return error;
    path = Target::Path::messages;
    const bool direct = target.control != nullptr && target.peer->endpoint->one_sided();
    const auto handle = target.peer->endpoint->unpack_key(target.key);
    if (handle) {
      target.accessed->handle = *handle;
      if (direct) path = Target::Path::one_sided;
    } else {
      target.key.clear();  // no registration (e.g. a dynamic window), or not one of this transport
      if (direct && target.attached != nullptr) path = Target::Path::one_sided;
    }
  }
  target.path.store(path, std::memory_order_release);
  return MPI_SUCCESS;
}

int Window::choose_path(Target& target, const Buffer& there, std::uint64_t most_by_message, ChosenPath& chosen) {
  if (target.path.load(std::memory_order_acquire) == Target::Path::unknown) [[unlikely]] {
    if (const int error = reach(target); error != MPI_SUCCESS) return error;
  }
  if (target.failed.load(std::memory_order_relaxed)) [[unlikely]]
    return MPI_ERR_PROC_ABORTED;
  chosen.path = target.path.load(std::memory_order_relaxed);
  if (flavor_ == Flavor::dynamic) {
    if (const int error = find_attached(target, there, chosen); error != MPI_SUCCESS) return error;
  } else if (!target.key.empty()) {
    chosen.handle = &target.accessed->handle;
  }
  if (chosen.path == Target::Path::one_sided && target.sent != nullptr)
    use_attention(target, there, most_by_message, chosen);
  return MPI_SUCCESS;
}

/// Changes the path of an access of at most `most_by_message` bytes to messages if the target polls.  Otherwise waits
/// for earlier messages, which a direct access must not overtake; the target executes them before it ends to poll.
/// In a fence epoch messages need no polling target: it executes them in the fence that ends the epoch at the latest.
void Window::use_attention(Target& target, const Buffer& there, std::uint64_t most_by_message,
                           ChosenPath& chosen) noexcept {
  Target::Queue& queue = target.accessed->queue;
  const bool fits = there.bytes() <= most_by_message && there.type().predefined_handle() != 0;
  const bool has_messages = queue.in_flight != 0 || !queue.accesses.empty();
  const bool fenced = in_fence_epoch(target);
  chosen.counted = !fenced && fits && target.sent->count(target.control->attention);
  if (chosen.counted || (fenced && (fits || has_messages))) {
    chosen.path = Target::Path::messages;
    chosen.handle = nullptr;
    return;
  }
  if (has_messages) engine().wait_until([&] { return queue.in_flight == 0 && queue.accesses.empty(); });
  if (target.control->attention.sleeps() && ++target.accessed->while_asleep % kAccessesPerWake == 0) {
    engine().wake(*target.peer);
  }
}

/// Starts an access message.  Sends all of a counted one now, since the target waits for it before it ends to poll.
int Window::start_message(MessageAccess& access, const ChosenPath& chosen, MPI_Request* request) {
  Target& target = access.target();  // the access itself may be reused when it has begun
  begin(access, request);
  const auto sends = [&] { return chosen.counted && !target.accessed->queue.accesses.empty(); };
  if (sends()) {
    const opal::Deadline end = opal::Deadline::after(kLongestAttention);
    while (sends() && (target.control->attention.polls() || !end.expired())) engine().poll_all();
  }
  return MPI_SUCCESS;
}

/// Sets the path of one access to a dynamic window.  The memory of this process is checked here.  For a one-sided
/// target the region is looked up in its table; if it is not there, the access uses messages, and the target checks it.
int Window::find_attached(Target& target, const Buffer& there, ChosenPath& chosen) {
  // Both paths may be used for one target, and a direct access must not overtake earlier messages: wait for them.
  if (chosen.path == Target::Path::one_sided && target.pending.load(std::memory_order_acquire) != 0) {
    engine().wait_until([&] { return target.pending.load(std::memory_order_acquire) == 0; });
  }
  const Buffer::Span span = there.span();
  const std::uint64_t first = reinterpret_cast<std::uint64_t>(there.base()) + static_cast<std::uint64_t>(span.offset);
  if (chosen.path == Target::Path::mapped) {
    const am::Lock::Guard guard{engine().lock()};
    return owns(first, span.size) ? MPI_SUCCESS : MPI_ERR_RMA_RANGE;
  }
  if (chosen.path != Target::Path::one_sided) return MPI_SUCCESS;
  Target::Accessed& accessed = *target.accessed;
  const AttachedTable& table = *target.attached;
  if (table.version.load(std::memory_order_acquire) != accessed.regions_version.load(std::memory_order_acquire)) {
    if (const int error = lock_updates(*target.control); error != MPI_SUCCESS) return error;
    const std::lock_guard updates{target.control->update, std::adopt_lock};
    const am::Lock::Guard guard{engine().lock()};
    accessed.regions.assign(table.regions.begin(), table.regions.begin() + std::min(table.count, AttachedTable::kMost));
    accessed.regions_version.store(table.version.load(std::memory_order_relaxed), std::memory_order_release);
  }
  const am::Lock::Guard guard{engine().lock()};
  chosen.path = Target::Path::messages;
  for (const AttachedRegion& region : accessed.regions) {
    if (!region.contains(first, span.size)) continue;
    const ByteSpan key = ByteSpan{region.key}.first(std::min<std::uint64_t>(region.key_size, region.key.size()));
    const auto handle = target.peer->endpoint->unpack_key(key);
    if (!handle) continue;
    chosen.of_region = *handle;
    chosen.handle = &*chosen.of_region;
    chosen.path = Target::Path::one_sided;
    break;
  }
  return MPI_SUCCESS;
}

int Window::put_or_get(Direction direction, const Buffer& origin, const Place& place, MPI_Request* request) {
  const bool puts = direction == Direction::put;
  Buffer there;
  if (const int error = begin_access(place, request != nullptr, there); error != MPI_SUCCESS) return error;
  const std::uint64_t bytes = puts ? origin.bytes() : there.bytes();
  if (bytes > (puts ? there : origin).bytes()) return MPI_ERR_TRUNCATE;
  if (bytes == 0) return give_done_request(request);
  Target& target = this->target(place.rank);
  ChosenPath chosen;
  const std::uint64_t most_by_message = puts ? kMessagePuts : kMessageGets;
  if (const int error = choose_path(target, there, most_by_message, chosen); error != MPI_SUCCESS) return error;
  if (chosen.path == Target::Path::mapped) {
    const Buffer mapped = here(target, there);
    puts ? p2p::copy(origin, mapped) : p2p::copy(mapped, origin);
    return give_done_request(request);
  }
  const am::Lock::Guard guard{engine().lock()};
  if (chosen.handle != nullptr && (chosen.path == Target::Path::one_sided || is_few_blocks(there))) {
    Transfer& transfer = windows_.new_transfer();
    transfer.prepare(direction, target, *chosen.handle, origin, there);
    // Between processes of one host the transport mostly copies within the call: then no request is needed.
    if (request == nullptr && origin.contiguous() != nullptr && transfer.try_at_once()) return MPI_SUCCESS;
    begin(transfer, request);
    return MPI_SUCCESS;
  }
  MessageAccess& access = windows_.new_message_access();
  access.prepare(*this, target, wire::Action::transfer, puts ? op::OpKind::replace : op::OpKind::no_op, there,
                 chosen.counted);
  puts ? access.from(origin) : access.into(origin);
  return start_message(access, chosen, request);
}

int Window::update(op::OpKind kind, const Buffer& origin, const Buffer* result, const Place& place,
                   MPI_Request* request) {
  Buffer there;
  if (const int error = begin_access(place, request != nullptr, there); error != MPI_SUCCESS) return error;
  const bool stores = kind != op::OpKind::no_op;
  if (stores && origin.bytes() != there.bytes()) return MPI_ERR_TRUNCATE;
  if (result != nullptr && there.bytes() > result->bytes()) return MPI_ERR_TRUNCATE;
  if (there.bytes() == 0 || (!stores && result == nullptr)) return give_done_request(request);
  Target& target = this->target(place.rank);
  ChosenPath chosen;
  if (const int error = choose_path(target, there, kMessageUpdates, chosen); error != MPI_SUCCESS) return error;
  if (chosen.path != Target::Path::messages) {
    const int error = update_directly(target, chosen, kind, origin, result, there);
    return error == MPI_SUCCESS ? give_done_request(request) : error;
  }
  const am::Lock::Guard guard{engine().lock()};
  MessageAccess& access = windows_.new_message_access();
  access.prepare(*this, target, wire::Action::update, kind, there, chosen.counted);
  if (stores) access.from(origin);
  if (result != nullptr) access.into(*result);
  return start_message(access, chosen, request);
}

int Window::compare_and_swap(const void* origin, const void* compare, void* result, const Place& place) {
  Buffer there;
  if (const int error = begin_access(place, false, there); error != MPI_SUCCESS) return error;
  std::array<std::byte, 64> room;  // two values of the longest type
  p2p::copy_bytes(room.data(), origin, there.bytes());
  p2p::copy_bytes(room.data() + there.bytes(), compare, there.bytes());
  const ByteSpan operands = ByteSpan{room}.first(2 * there.bytes());
  Target& target = this->target(place.rank);
  ChosenPath chosen;
  if (const int error = choose_path(target, there, kMessageUpdates, chosen); error != MPI_SUCCESS) return error;
  if (chosen.path != Target::Path::messages) return swap_directly(target, chosen, operands, result, there);
  const am::Lock::Guard guard{engine().lock()};
  MessageAccess& access = windows_.new_message_access();
  access.prepare(*this, target, wire::Action::compare_swap, op::OpKind::replace, there, chosen.counted);
  access.from_pair(operands);
  access.into(Buffer{result, 1, *place.type});
  return start_message(access, chosen, nullptr);
}

}  // namespace mpi_shim::rma
