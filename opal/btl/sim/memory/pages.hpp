// SPDX-License-Identifier: Apache-2.0
// opal/btl/sim/memory/pages.hpp — the memory accesses of a simulated device, which behave as those of hardware:
//   pinned     The device uses the physical pages that were mapped at the range when it was pinned, whatever is mapped
//              there later: a stale registration reads old bytes and writes to unused pages.  The kernel pins them
//              (FOLL_PIN | FOLL_LONGTERM, as for RDMA) when the range is registered as a buffer of an io_uring.
//   on demand  The device uses the page table at the time of the access, as with on-demand paging.  An access to an
//              unmapped page is an error, not a signal.
// Limits: pinned memory must be writable, anonymous or shared (the kernel refuses other files), and counts against
// RLIMIT_MEMLOCK without CAP_IPC_LOCK.  All devices are in one process, so an address names the same memory for each.
// Cost: bytes are copied through a pipe, about 1 us for 4 KiB.
// Threads: safe from any thread.
#pragma once
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "opal/core/bytes.hpp"
#include "opal/core/export.hpp"
#include "opal/core/result.hpp"
#include "opal/core/system/fd.hpp"

namespace opal::btl::sim {

/// The number of a pinned range; nullopt: on demand.
using Pin = std::optional<std::uint32_t>;

class OPAL_EXPORT Pages {
 public:
  static constexpr std::uint32_t kMostPins = 16384;  ///< most buffers of one io_uring

  Pages() noexcept;
  ~Pages();
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  /// Checks whether pin() can work here.  Errors: not_supported (with errno: no io_uring, or not for this process).
  Result<void> can_pin() noexcept;

  /// Pins [base, +size), 0 < size <= 1 GiB.  Errors: not_supported, limit_reached (kMostPins, or the kernel's
  /// limit), invalid_argument (not mapped, not writable, or memory that cannot be pinned).
  Result<Pin> pin(void* base, std::size_t size) noexcept;
  /// Releases the pages of pin().  Does nothing for nullopt.
  void unpin(Pin pin) noexcept;

  /// Copies out.size() bytes from `address` to `out`, or `bytes` to `address`.  With a pin, which must contain the
  /// range, the pinned pages are accessed.  After an error a part may have been copied.
  /// Errors: invalid_argument (not mapped), os.
  Result<void> read(Pin pin, std::uint64_t address, MutableBytes out) noexcept;
  Result<void> write(Pin pin, std::uint64_t address, ByteSpan bytes) noexcept;

 private:
  struct Ring;
  Result<void> open_pipe_locked() noexcept;
  Result<void> open_ring_locked() noexcept;

  std::mutex mutex_;
  Fd pipe_in_;  // made at the first use, like ring_
  Fd pipe_out_;
  std::unique_ptr<Ring> ring_;
  Error no_ring_{};  // why ring_ could not be made; not tried again
  std::vector<std::uint32_t> free_pins_;
};

}  // namespace opal::btl::sim
