// SPDX-License-Identifier: Apache-2.0
// opal/gpu/copies/copier.hpp — asynchronous copies from and to device memory, each with a callback at its end.
// Streams are made in the caller's contexts on demand and reused; the number of events is bounded.
// Copies with the same `queue` end, and are reported, in the order in which they were started; others overlap.
// Copies do not wait for the program's streams: the data of a buffer must be complete when it is passed.
// export_memory() and make_synchronous() ensure that after the driver's synchronous functions.
// Owns: streams and events.  Threads: externally synchronised, like the transport that owns it.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "opal/core/clock.hpp"
#include "opal/core/export.hpp"
#include "opal/core/result.hpp"
#include "opal/gpu/config.hpp"
#include "opal/gpu/memory.hpp"

namespace opal::gpu {

/// A wait for copies that takes so long logs an error, and goes on: a copy cannot be canceled, and the device may still
/// access its buffers.
inline constexpr std::chrono::seconds kCopyHangs{30};

namespace detail {
OPAL_EXPORT void report_hang() noexcept;
}  // namespace detail

class OPAL_EXPORT Copier {
 public:
  /// The callback of a copy: progress() or the destructor calls it exactly once per started copy.  It may call copy()
  /// and progress(), but not block.
  struct Done {
    void (*call)(void* user, const Result<void>& result) noexcept;
    void* user;
  };

  explicit Copier(const Config& config) noexcept;
  Copier(const Copier&) = delete;
  Copier& operator=(const Copier&) = delete;
  /// Waits for the copies in flight; a copy() in a callback fails with canceled.
  ~Copier();

  /// Starts a copy in `context` between any two kinds of memory that it can access.  The caller does not touch, free or
  /// unmap either buffer before `done`.
  /// Errors, after which `done` is not called: busy (all events of the stream are in use: call progress()),
  /// invalid_argument (context or address), those of the driver.
  Result<void> copy(ContextHandle context, std::uint64_t queue, void* to, const void* from, std::size_t size,
                    Done done) noexcept;

  /// Calls the callbacks of ended copies; returns their number.  Cost: queries the oldest copies of each stream in use.
  std::size_t progress() noexcept;

  /// Calls progress() until `is_done()` is true, which must depend only on copies in flight.
  template <class IsDone>
  void progress_until(IsDone is_done) noexcept {
    for (const Deadline hangs = Deadline::after(kCopyHangs); !is_done(); progress()) {
      if (hangs.expired()) detail::report_hang();
    }
  }

  /// Copies in flight.
  [[nodiscard]] std::size_t pending() const noexcept { return pending_; }

 private:
  struct Context;  // streams of one CUDA context
  struct Stream;
  Result<Context*> context_of(ContextHandle handle) noexcept;
  Result<Stream*> stream_of(Context& context, std::uint64_t queue) noexcept;
  std::size_t report_done(Context& context, Stream& stream) noexcept;
  void drop_dead_contexts() noexcept;

  const std::uint32_t most_streams_;  // per context
  const std::uint32_t most_events_;   // per stream
  std::vector<std::unique_ptr<Context>> contexts_;
  std::size_t pending_ = 0;
  bool ending_ = false;     // inside the destructor
  bool reporting_ = false;  // inside progress()
};

}  // namespace opal::gpu
