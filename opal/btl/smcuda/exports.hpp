// SPDX-License-Identifier: Apache-2.0
// opal/btl/smcuda/exports.hpp — the GPU allocations of which peers may have handles.  The module notifies peers when
// one is freed.  The driver does not report that.  It follows from a later allocation at the same address, or the
// program reports it (opal_memory_released()).  At most kMost allocations are kept; a missing notification is harmless,
// since the peer also compares handles (rcache::Rgpusm).  Threads: externally synchronised, except released(), which
// may run in any thread and inside any allocation.
#pragma once
#include <atomic>
#include <cstdint>
#include <map>
#include <vector>

#include "opal/btl/smcuda/wire.hpp"
#include "opal/core/sync/backlog.hpp"
#include "opal/memory/events/events.hpp"

namespace opal::btl::smcuda {

class Exports final : public memory::Listener {
 public:
  static constexpr std::size_t kMost = 4096;

  Exports() noexcept = default;
  Exports(const Exports&) = delete;
  Exports& operator=(const Exports&) = delete;
  ~Exports() { memory::remove_listener(*this); }

  /// Adds an allocation, before peers get its handle.  Earlier allocations that it overlaps count as freed.
  void add(const gpu::MemoryHandle& memory);

  /// Returns in `freed` the next freed allocation, and removes it; false: there is none.
  bool take_freed(wire::Freed& freed) noexcept;
  /// True when take_freed() may find one; two loads.
  [[nodiscard]] bool has_freed() const noexcept { return !freed_.empty() || reported_.any(); }

  void released(memory::Range range) noexcept override;

 private:
  struct Entry {
    std::uint64_t size;
    std::uint64_t buffer_id;
  };
  void drop_overlapping(std::uint64_t base, std::uint64_t end) noexcept;

  std::map<std::uint64_t, Entry> live_;  // by base; they do not overlap
  std::vector<wire::Freed> freed_;
  // [low_, high_) covers all allocations that were ever in live_.
  std::atomic<std::uint64_t> low_{UINT64_MAX};
  std::atomic<std::uint64_t> high_{0};
  Backlog<memory::Range, 64> reported_;  // by the program; if some are lost, all allocations count as freed, and a
                                         // peer that unmaps too much maps it again
  bool listening_ = false;               // released() is called
};

}  // namespace opal::btl::smcuda
