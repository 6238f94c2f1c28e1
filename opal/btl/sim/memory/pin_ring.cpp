// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/sim/memory/pin_ring.hpp"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <new>

namespace opal::btl::sim {
namespace {

Error unsupported(const char* where) noexcept { return {Errc::not_supported, errno, where}; }

Mapping map(int ring, std::size_t size, off_t offset) noexcept {
  void* mapped = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, offset);
  if (mapped == MAP_FAILED) return {};
  return Mapping::adopt({static_cast<std::byte*>(mapped), size});
}

}  // namespace

Result<std::unique_ptr<PinRing>> PinRing::open(std::uint32_t buffers) {
  io_uring_params params{};
  Fd ring{static_cast<int>(::syscall(SYS_io_uring_setup, 2, &params))};
  if (!ring) return unsupported("io_uring_setup(sim: pinned pages)");
  if ((params.features & IORING_FEAT_SINGLE_MMAP) == 0) {
    return Error{Errc::not_supported, 0, "sim: io_uring of this kernel is too old", params.features};
  }
  const std::size_t submissions = params.sq_off.array + params.sq_entries * sizeof(std::uint32_t);
  const std::size_t completions = params.cq_off.cqes + params.cq_entries * sizeof(io_uring_cqe);
  Mapping queues = map(ring.get(), std::max(submissions, completions), IORING_OFF_SQ_RING);
  if (!queues) return unsupported("mmap(sim: io_uring rings)");
  Mapping entries = map(ring.get(), params.sq_entries * sizeof(io_uring_sqe), IORING_OFF_SQES);
  if (!entries) return unsupported("mmap(sim: io_uring entries)");
  io_uring_rsrc_register table{};
  table.nr = buffers;
  table.flags = IORING_RSRC_REGISTER_SPARSE;
  if (::syscall(SYS_io_uring_register, ring.get(), IORING_REGISTER_BUFFERS2, &table, sizeof table) != 0) {
    return unsupported("io_uring_register(sim: table of buffers)");
  }
  return std::unique_ptr<PinRing>{new PinRing{std::move(ring), std::move(queues), std::move(entries), params}};
}

PinRing::PinRing(Fd ring, Mapping queues, Mapping entries, const io_uring_params& params) noexcept
    : ring_(std::move(ring)), queues_(std::move(queues)), entries_(std::move(entries)), params_(params) {}

std::uint32_t& PinRing::word(std::uint32_t offset) const noexcept {
  return *reinterpret_cast<std::uint32_t*>(queues_.data() + offset);
}

int PinRing::set_buffer(std::uint32_t index, void* base, std::size_t size) noexcept {
  const iovec range{base, size};
  io_uring_rsrc_update2 update{};
  update.offset = index;
  update.data = reinterpret_cast<std::uint64_t>(&range);
  update.nr = 1;
  const long set =
      ::syscall(SYS_io_uring_register, ring_.get(), IORING_REGISTER_BUFFERS_UPDATE, &update, sizeof update);
  return set == 1 ? 0 : errno;
}

int PinRing::transfer(std::uint32_t index, std::uint64_t address, std::uint32_t size, int pipe, bool fill) noexcept {
  const std::uint32_t tail = word(params_.sq_off.tail);
  const std::uint32_t place = tail & word(params_.sq_off.ring_mask);
  auto& entry = reinterpret_cast<io_uring_sqe*>(entries_.data())[place];
  entry = {};
  entry.opcode = fill ? IORING_OP_READ_FIXED : IORING_OP_WRITE_FIXED;
  entry.fd = pipe;
  entry.off = UINT64_MAX;  // a pipe has no offset
  entry.addr = address;
  entry.len = size;
  entry.buf_index = static_cast<std::uint16_t>(index);
  (&word(params_.sq_off.array))[place] = place;
  std::atomic_ref{word(params_.sq_off.tail)}.store(tail + 1, std::memory_order_release);
  while (::syscall(SYS_io_uring_enter, ring_.get(), 1, 1, IORING_ENTER_GETEVENTS, nullptr, 0) < 0) {
    if (errno != EINTR) return -errno;
  }
  std::uint32_t& head = word(params_.cq_off.head);
  std::atomic_ref completed{word(params_.cq_off.tail)};
  // A signal may have ended the wait after the submission: wait for the completion alone.
  while (completed.load(std::memory_order_acquire) == head) {
    if (::syscall(SYS_io_uring_enter, ring_.get(), 0, 1, IORING_ENTER_GETEVENTS, nullptr, 0) < 0 && errno != EINTR) {
      return -errno;
    }
  }
  const auto* results = reinterpret_cast<const io_uring_cqe*>(queues_.data() + params_.cq_off.cqes);
  const int result = results[head & word(params_.cq_off.ring_mask)].res;
  std::atomic_ref{head}.store(head + 1, std::memory_order_release);
  return result;
}

}  // namespace opal::btl::sim
