// SPDX-License-Identifier: Apache-2.0
// opal/btl/sim/memory/pages.hpp — how a simulated device reaches memory: not through the program's own loads and
// stores, but as hardware does.  Two ways:
//   pinned     the physical pages that lay under the range when it was pinned, whatever has been mapped there since:
//              the kernel's own pinning (FOLL_PIN | FOLL_LONGTERM, as for RDMA), had by registering a buffer with an
//              io_uring.  A device with a stale registration so reads old bytes and writes into unused pages.
//   on demand  the page table at the time of the access, as devices with on-demand paging do; an unmapped page is an
//              error and no signal.
// Limits: pinned memory must be writable, anonymous or shared (the kernel refuses other files), and counts against
// RLIMIT_MEMLOCK without CAP_IPC_LOCK; one simulated process has one address space, so an address names the same
// memory for every device.  The copy goes through a pipe: about 1 us for 4 KiB.
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

class PinRing;

/// Names pinned pages; none: on demand.
using Pin = std::optional<std::uint32_t>;

class OPAL_EXPORT Pages {
 public:
  static constexpr std::uint32_t kMostPins = 16384;  ///< what one io_uring can hold

  Pages() noexcept;
  ~Pages();
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  /// Whether this kernel pins for us.  Errors: not_supported (with errno: no io_uring, or not for this process).
  Result<void> can_pin() noexcept;

  /// Pins [base, +size), 0 < size <= 1 GiB.  Errors: not_supported, limit_reached (kMostPins, or the kernel's
  /// limit), invalid_argument (not mapped, not writable, or memory that cannot be pinned).
  Result<Pin> pin(void* base, std::size_t size) noexcept;
  void unpin(Pin pin) noexcept;

  /// Copies `out.size()` bytes from `address` on; with a pin, which must contain them, from the pages it holds.
  /// Errors: invalid_argument (not mapped), os.
  Result<void> read(Pin pin, std::uint64_t address, MutableBytes out) noexcept;
  Result<void> write(Pin pin, std::uint64_t address, ByteSpan bytes) noexcept;

 private:
  Result<void> open_pipe_locked() noexcept;
  Result<void> open_ring_locked() noexcept;

  std::mutex mutex_;
  Fd pipe_in_;  // opened at first use, like the ring
  Fd pipe_out_;
  std::unique_ptr<PinRing> ring_;
  Error no_ring_{};  // why there is none, once tried
  std::vector<std::uint32_t> free_pins_;
};

}  // namespace opal::btl::sim
