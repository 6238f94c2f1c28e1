// SPDX-License-Identifier: Apache-2.0
// Updates (accumulate, fetch-and-op, compare-and-swap) that the origin executes itself, under the target's UpdateLock
// in shared memory.  Mapped contiguous memory is updated in place; else a copy that is put back.
#include <sched.h>

#include <algorithm>
#include <mutex>

#include "mpi_shim/rma/window.hpp"
#include "mpi_shim/rma/windows.hpp"
#include "opal/core/clock.hpp"

namespace mpi_shim::rma {
namespace {

constexpr std::uint64_t kCopyChunk = std::uint64_t{64} << 10;  // bytes copied while the lock is held once

/// The data of `buffer` as contiguous host memory: the buffer itself, or a packed copy in `room`.
const std::byte* find_dense(const Buffer& buffer, std::vector<std::byte>& room) {
  if (buffer.contiguous() != nullptr && !buffer.on_gpu()) return buffer.contiguous();
  room.resize(buffer.bytes());
  pack(buffer, room);
  return room.data();
}

bool is_pair(datatype::Element element) noexcept {
  return datatype::info(element).element_class == datatype::ElementClass::pair;
}

}  // namespace

/// Takes the update lock.  Its critical sections are short: spins, then yields the core, since the holder may need it.
/// MPI_ERR_PROC_ABORTED: the holder has failed.
int Window::lock_updates(Control& control) noexcept {
  for (int tries = 0; !control.update.try_lock(comm_.rank()); ++tries) {
    if (tries < 100) {
      opal::cpu_relax();
      continue;
    }
    ::sched_yield();
    if (tries % 64 != 0) continue;
    engine().poll_all();  // a holder that copies through the transport may need progress here
    if (has_failed(control.update.holder())) return MPI_ERR_PROC_ABORTED;
  }
  return MPI_SUCCESS;
}

/// Copies the packed bytes [first, first + dense.size()) of `memory` to `dense`, or puts them back (`store`).  Waits.
/// `memory`: at its addresses here if it is mapped.
int Window::copy_pieces(Target& target, const ChosenPath& chosen, const Buffer& memory, std::uint64_t first,
                        MutableBytes dense, bool store) {
  if (chosen.path == Target::Path::mapped) {
    store ? unpack(dense, memory, first) : pack(memory, dense, first);
    return MPI_SUCCESS;
  }
  Transfer* transfer = nullptr;
  {
    const am::Lock::Guard guard{engine().lock()};
    transfer = &windows_.new_transfer();
    transfer->prepare(store ? Direction::put : Direction::get, target, *chosen.handle,
                      Buffer::of_bytes(dense.data(), dense.size()), memory, first);
    if (transfer->try_at_once()) return MPI_SUCCESS;
    transfer->start();
  }
  engine().wait(*transfer);
  const int error = transfer->outcome().error;
  transfer->put_back();
  return error;
}

int Window::update_directly(Target& target, const ChosenPath& chosen, op::OpKind kind, const Buffer& origin,
                            const Buffer* result, const Buffer& there) {
  const datatype::Element element = *there.type().signature().uniform;
  const std::uint64_t unit = datatype::info(element).size;
  std::vector<std::byte> room;
  const bool stores = kind != op::OpKind::no_op;
  const std::byte* const source = stores ? find_dense(origin, room) : nullptr;
  const bool mapped = chosen.path == Target::Path::mapped;
  const Buffer memory = mapped ? here(target, there) : there;
  if (mapped && memory.contiguous() != nullptr && !is_pair(element) && !memory.on_gpu()) {  // in place
    if (const int error = lock_updates(*target.control); error != MPI_SUCCESS) return error;
    const std::lock_guard guard{target.control->update, std::adopt_lock};
    if (result != nullptr) p2p::copy(memory, *result);
    if (stores) {
      op::find_kernel(kind, element)(source, memory.contiguous(), static_cast<std::int64_t>(memory.bytes() / unit));
    }
    return MPI_SUCCESS;
  }
  const std::uint64_t chunk = std::max<std::uint64_t>(kCopyChunk / unit, 1) * unit;
  datatype::Cursor results;
  if (result != nullptr) result->start(results);
  std::array<std::byte, 64> few;
  std::vector<std::byte> many;
  for (std::uint64_t first = 0; first < there.bytes(); first += chunk) {
    const std::uint64_t bytes = std::min(chunk, there.bytes() - first);
    if (bytes > few.size()) many.resize(bytes);
    const MutableBytes values = bytes > few.size() ? MutableBytes{many} : MutableBytes{few}.first(bytes);
    if (const int error = lock_updates(*target.control); error != MPI_SUCCESS) return error;
    const std::lock_guard guard{target.control->update, std::adopt_lock};
    if (kind != op::OpKind::replace || result != nullptr) {
      if (const int error = copy_pieces(target, chosen, memory, first, values, false); error != MPI_SUCCESS)
        return error;
    }
    if (result != nullptr) results.unpack(values);
    if (!stores) continue;
    op::combine_packed(kind, element, {source + first, bytes}, values);
    if (const int error = copy_pieces(target, chosen, memory, first, values, true); error != MPI_SUCCESS) return error;
  }
  p2p::check_copy(results.failure());
  return MPI_SUCCESS;
}

/// `operands`: the new value, then the one to compare with.
int Window::swap_directly(Target& target, const ChosenPath& chosen, ByteSpan operands, void* result,
                          const Buffer& there) {
  const Buffer memory = chosen.path == Target::Path::mapped ? here(target, there) : there;
  std::array<std::byte, 64> room;
  const MutableBytes found = MutableBytes{room}.first(there.bytes());
  if (const int error = lock_updates(*target.control); error != MPI_SUCCESS) return error;
  const std::lock_guard guard{target.control->update, std::adopt_lock};
  if (const int error = copy_pieces(target, chosen, memory, 0, found, false); error != MPI_SUCCESS) return error;
  p2p::copy_bytes(result, found.data(), found.size());
  if (!std::ranges::equal(found, operands.subspan(found.size()))) return MPI_SUCCESS;
  std::ranges::copy(operands.first(found.size()), found.begin());
  return copy_pieces(target, chosen, memory, 0, found, true);
}

}  // namespace mpi_shim::rma
