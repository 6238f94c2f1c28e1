// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/sim/memory/pages.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "opal/btl/sim/memory/pin_ring.hpp"

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

}  // namespace

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
  auto ring = PinRing::open(kMostPins);
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
