// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/sim/memory/pages.hpp"

#include <fcntl.h>
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "opal/core/system/mapping.hpp"

namespace opal::btl::sim {
namespace {

constexpr std::size_t kPiece = 64 << 10;  // the default capacity of a pipe, bytes

std::byte* at(std::uint64_t address) noexcept { return reinterpret_cast<std::byte*>(address); }

Error copy_error(const char* where, std::int64_t answer, std::uint64_t address) noexcept {
  const int why = answer < 0 ? static_cast<int>(-answer) : 0;
  return {why == EFAULT ? Errc::invalid_argument : Errc::os, why, where, address};
}

std::int64_t or_errno(ssize_t answer) noexcept { return answer < 0 ? -errno : answer; }

/// Discards the bytes that a failed copy has left in the pipe.
void empty(int pipe) noexcept {
  std::byte sink[4096];
  while (::read(pipe, sink, sizeof sink) > 0) {
  }
}

Error unsupported(const char* where) noexcept { return {Errc::not_supported, errno, where}; }

Mapping map(int ring, std::size_t size, off_t offset) noexcept {
  void* mapped = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, offset);
  if (mapped == MAP_FAILED) return {};
  return Mapping::adopt({static_cast<std::byte*>(mapped), size});
}

}  // namespace

/// An io_uring with a sparse table of registered buffers, by system calls without liburing.  It does one transfer at a
/// time between a buffer and a pipe.
struct Pages::Ring {
  /// Makes a ring with a table of `buffers` empty entries.  Errors: not_supported (with errno).
  static Result<std::unique_ptr<Ring>> open(std::uint32_t buffers);
  /// Registers [base, +size) as entry `index`; size 0 empties the entry.  Returns 0 or an errno.
  int set_buffer(std::uint32_t index, void* base, std::size_t size) const noexcept;
  /// Copies up to `size` bytes between the buffer at `address` and the pipe: to the buffer if `fill`, else to the pipe.
  /// Returns the number of bytes or -errno.
  int transfer(std::uint32_t index, std::uint64_t address, std::uint32_t size, int pipe, bool fill) const noexcept;
  /// The 32-bit word at `offset` of the shared rings.
  [[nodiscard]] std::uint32_t& word(std::uint32_t offset) const noexcept {
    return *reinterpret_cast<std::uint32_t*>(queues.data() + offset);
  }

  Fd fd;
  Mapping queues;   // submission ring and completion ring
  Mapping entries;  // submission entries
  io_uring_params params;
};

Result<std::unique_ptr<Pages::Ring>> Pages::Ring::open(std::uint32_t buffers) {
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
  return std::unique_ptr<Ring>{new Ring{std::move(ring), std::move(queues), std::move(entries), params}};
}

int Pages::Ring::set_buffer(std::uint32_t index, void* base, std::size_t size) const noexcept {
  const iovec range{base, size};
  io_uring_rsrc_update2 update{};
  update.offset = index;
  update.data = reinterpret_cast<std::uint64_t>(&range);
  update.nr = 1;
  const long set = ::syscall(SYS_io_uring_register, fd.get(), IORING_REGISTER_BUFFERS_UPDATE, &update, sizeof update);
  return set == 1 ? 0 : errno;
}

int Pages::Ring::transfer(std::uint32_t index, std::uint64_t address, std::uint32_t size, int pipe,
                          bool fill) const noexcept {
  const std::uint32_t tail = word(params.sq_off.tail);
  const std::uint32_t place = tail & word(params.sq_off.ring_mask);
  auto& entry = reinterpret_cast<io_uring_sqe*>(entries.data())[place];
  entry = {};
  entry.opcode = fill ? IORING_OP_READ_FIXED : IORING_OP_WRITE_FIXED;
  entry.fd = pipe;
  entry.off = UINT64_MAX;  // a pipe has no offset
  entry.addr = address;
  entry.len = size;
  entry.buf_index = static_cast<std::uint16_t>(index);
  (&word(params.sq_off.array))[place] = place;
  std::atomic_ref{word(params.sq_off.tail)}.store(tail + 1, std::memory_order_release);
  while (::syscall(SYS_io_uring_enter, fd.get(), 1, 1, IORING_ENTER_GETEVENTS, nullptr, 0) < 0) {
    if (errno != EINTR) return -errno;
  }
  std::uint32_t& head = word(params.cq_off.head);
  std::atomic_ref completed{word(params.cq_off.tail)};
  // A signal may have ended the wait after the submission: wait for the completion alone.
  while (completed.load(std::memory_order_acquire) == head) {
    if (::syscall(SYS_io_uring_enter, fd.get(), 0, 1, IORING_ENTER_GETEVENTS, nullptr, 0) < 0 && errno != EINTR) {
      return -errno;
    }
  }
  const auto* results = reinterpret_cast<const io_uring_cqe*>(queues.data() + params.cq_off.cqes);
  const int result = results[head & word(params.cq_off.ring_mask)].res;
  std::atomic_ref{head}.store(head + 1, std::memory_order_release);
  return result;
}

Pages::Pages() noexcept = default;
Pages::~Pages() = default;

Result<void> Pages::open_pipe_locked() noexcept {
  if (pipe_in_) return {};
  int ends[2] = {};
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return Error{Errc::os, errno, "pipe2(sim: memory of a device)"};
  pipe_out_ = Fd{ends[0]};
  pipe_in_ = Fd{ends[1]};
  return {};
}

Result<void> Pages::open_ring_locked() noexcept {
  if (ring_ != nullptr) return {};
  if (no_ring_.code != Errc{}) return no_ring_;
  auto ring = Ring::open(kMostPins);
  if (!ring) return no_ring_ = ring.error();
  ring_ = std::move(*ring);
  free_pins_.resize(kMostPins);
  for (std::uint32_t i = 0; i < kMostPins; ++i) free_pins_[i] = kMostPins - 1 - i;
  return {};
}

Result<void> Pages::can_pin() noexcept {
  const std::lock_guard lock{mutex_};
  return open_ring_locked();
}

Result<Pin> Pages::pin(void* base, std::size_t size) noexcept {
  const std::lock_guard lock{mutex_};
  OPAL_TRY(open_ring_locked());
  if (free_pins_.empty()) return Error{Errc::limit_reached, 0, "sim: the io_uring holds no more pins", kMostPins};
  const std::uint32_t index = free_pins_.back();
  if (const int why = ring_->set_buffer(index, base, size); why != 0) {
    const bool memory = why == ENOMEM || why == EAGAIN;
    return Error{memory ? Errc::limit_reached : Errc::invalid_argument, why, "io_uring_register(sim: pin)", size};
  }
  free_pins_.pop_back();
  return Pin{index};
}

void Pages::unpin(Pin pin) noexcept {
  if (!pin) return;
  const std::lock_guard lock{mutex_};
  (void)ring_->set_buffer(*pin, nullptr, 0);  // cannot fail: the entry exists
  free_pins_.push_back(*pin);
}

Result<void> Pages::read(Pin pin, std::uint64_t address, MutableBytes out) noexcept {
  const std::lock_guard lock{mutex_};
  OPAL_TRY(open_pipe_locked());
  while (!out.empty()) {
    const std::size_t size = std::min(out.size(), kPiece);
    const std::int64_t moved =
        pin ? ring_->transfer(*pin, address, static_cast<std::uint32_t>(size), pipe_in_.get(), false)
            : or_errno(::write(pipe_in_.get(), at(address), size));
    if (moved <= 0) return copy_error("sim: a device read memory that is not there", moved, address);
    const std::int64_t taken = or_errno(::read(pipe_out_.get(), out.data(), static_cast<std::size_t>(moved)));
    if (taken != moved) {
      empty(pipe_out_.get());
      return copy_error("read(sim: pipe)", taken, address);
    }
    address += static_cast<std::uint64_t>(moved);
    out = out.subspan(static_cast<std::size_t>(moved));
  }
  return {};
}

Result<void> Pages::write(Pin pin, std::uint64_t address, ByteSpan bytes) noexcept {
  const std::lock_guard lock{mutex_};
  OPAL_TRY(open_pipe_locked());
  while (!bytes.empty()) {
    const std::int64_t put = or_errno(::write(pipe_in_.get(), bytes.data(), std::min(bytes.size(), kPiece)));
    if (put <= 0) return copy_error("write(sim: pipe)", put, address);
    const auto size = static_cast<std::size_t>(put);
    for (std::size_t done = 0; done < size;) {
      const std::int64_t moved =
          pin ? ring_->transfer(*pin, address + done, static_cast<std::uint32_t>(size - done), pipe_out_.get(), true)
              : or_errno(::read(pipe_out_.get(), at(address + done), size - done));
      if (moved <= 0) {
        empty(pipe_out_.get());
        return copy_error("sim: a device wrote memory that is not there", moved, address + done);
      }
      done += static_cast<std::size_t>(moved);
    }
    address += size;
    bytes = bytes.subspan(size);
  }
  return {};
}

}  // namespace opal::btl::sim
