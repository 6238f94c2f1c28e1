// SPDX-License-Identifier: Apache-2.0
// opal/btl/smcuda/exports.hpp — GPU allocations that peers were given handles of, so that peers can be told when one is
// gone: the driver does not report it, but a later allocation in its place, or the program (opal_memory_released()),
// does. Bounded: what is forgotten is found by the peer itself, which compares handles (rcache::Rgpusm). Threads:
// externally synchronised, but for released(), which may run in any thread and inside any allocation.
#pragma once
#include <atomic>
#include <cstdint>
#include <map>
#include <vector>

#include "opal/btl/smcuda/wire.hpp"
#include "opal/memory/events/events.hpp"

namespace opal::btl::smcuda {

class Exports final : public memory::Listener {
 public:
  static constexpr std::size_t kMost = 4096;

  Exports() noexcept = default;
  Exports(const Exports&) = delete;
  Exports& operator=(const Exports&) = delete;
  ~Exports() { memory::remove_listener(*this); }

  /// A handle of this allocation is given away.
  void add(const gpu::MemoryHandle& memory);

  /// Takes the next allocation that peers know and that is gone; false when there is none.
  bool take_freed(wire::Freed& freed) noexcept;
  /// Whether take_freed() may find something; two loads.
  [[nodiscard]] bool has_freed() const noexcept {
    return !freed_.empty() || reported_high_.load(std::memory_order_relaxed) != 0;
  }

  void released(memory::Range range) noexcept override;

 private:
  struct Entry {
    std::uint64_t size;
    std::uint64_t buffer_id;
  };
  void take_reported() noexcept;
  void drop_overlapping(std::uint64_t base, std::uint64_t end) noexcept;

  std::map<std::uint64_t, Entry> live_;  // by base; they do not overlap
  std::vector<wire::Freed> freed_;
  std::atomic<std::uint64_t> low_{UINT64_MAX};  // hull of live_
  std::atomic<std::uint64_t> high_{0};
  // Hull of what the program has reported since the last look.  It may cover too much: what a peer unmaps in error it
  // maps again.  Two words that change together: their reader sees by the numbers of reports begun and ended whether
  // one was in between, and leaves all to the next look.
  std::atomic<std::uint64_t> reports_begun_{0};
  std::atomic<std::uint64_t> reports_ended_{0};
  std::atomic<std::uint64_t> reported_low_{UINT64_MAX};
  std::atomic<std::uint64_t> reported_high_{0};
  bool listening_ = false;
};

}  // namespace opal::btl::smcuda
