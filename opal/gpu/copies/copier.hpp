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
#include <span>
#include <vector>

#include "opal/core/export.hpp"
#include "opal/core/result.hpp"
#include "opal/gpu/config.hpp"
#include "opal/gpu/memory.hpp"

namespace opal::gpu {

class OPAL_EXPORT Copier {
 public:
  /// The callback of a copy: progress(), finish() or the destructor calls it exactly once per started copy.  It may
  /// call copy(), but not block and not call finish().
  struct Done {
    void (*call)(void* user, const Result<void>& result) noexcept;
    void* user;
  };

  /// The time after which a copy that has not ended is reported as timed_out.
  static constexpr std::chrono::milliseconds kTimeout{30'000};

  explicit Copier(const Config& config, std::chrono::milliseconds timeout = kTimeout) noexcept;
  Copier(const Copier&) = delete;
  Copier& operator=(const Copier&) = delete;
  /// Ends the copies in flight as finish() does; a copy() in a callback fails with canceled.
  ~Copier();

  /// Starts a copy in `context` between any two kinds of memory that it can access.  The caller does not touch, free or
  /// unmap either buffer before `done`.
  /// Errors, after which `done` is not called: busy (all events are in use: call progress()), invalid_argument (context
  /// or address), those of the driver; timed_out: the copy is in flight but its end cannot be detected, so its buffers
  /// are lost, see finish().
  Result<void> copy(ContextHandle context, std::uint64_t queue, void* to, const void* from, std::size_t size,
                    Done done) noexcept;

  /// Calls the callbacks of ended copies; returns their number.  Cost: queries the oldest copies of each stream in use.
  std::size_t progress() noexcept;

  /// Waits, at most for the Copier's timeout, until the copies of these queues have ended, and calls their callbacks.
  /// Copies that have not ended then are reported as timed_out.  A copy cannot be canceled: the buffers of such a copy
  /// are lost, that is, the caller never unmaps or reuses them, since the device may still access them.
  /// Copies of other queues continue; new ones do not use the streams of hanging copies.  Requires: not in a callback.
  void finish(std::span<const std::uint64_t> queues) noexcept;

  /// Copies in flight.
  [[nodiscard]] std::size_t pending() const noexcept { return pending_; }

 private:
  struct Context;  // streams and idle events of one CUDA context
  struct Stream;
  Result<Context*> context_of(ContextHandle handle) noexcept;
  Result<Stream*> stream_of(Context& context, std::uint64_t queue) noexcept;
  Result<void> take_event(Context& context) noexcept;
  std::size_t report_done(Context& context, Stream& stream) noexcept;
  void drop_drained_streams() noexcept;
  void drop_dead_contexts() noexcept;
  template <class Pending>
  void wait_for(Pending pending) noexcept;
  /// Reports the copies of queues for which `mine(queue)` is true as timed_out.
  template <class Mine>
  void give_up(Stream& stream, Mine mine) noexcept;
  template <class Function>
  void for_each_stream(Function function) noexcept;

  const std::uint32_t most_streams_;  // per context
  const std::uint32_t most_events_;
  const std::chrono::milliseconds timeout_;
  std::vector<std::unique_ptr<Context>> contexts_;
  std::size_t pending_ = 0;
  std::size_t events_ = 0;  // events that exist, in use or idle
  bool ending_ = false;     // inside the destructor
  bool reporting_ = false;  // inside progress()
};

/// As copy() (copy.hpp), if at least one range is not host memory.  Errors: as there; timed_out: the copy has not ended
/// within `timeout`, or an earlier timed-out copy has not ended yet; then both ranges are lost, see Copier::finish().
OPAL_EXPORT Result<void> copy_within(std::chrono::milliseconds timeout, void* to, const void* from,
                                     std::size_t size) noexcept;

}  // namespace opal::gpu
