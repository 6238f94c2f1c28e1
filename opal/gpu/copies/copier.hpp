// SPDX-License-Identifier: Apache-2.0
// opal/gpu/copies/copier.hpp — asynchronous copies from and to device memory, and what is called when each is done.
// Streams are made in the caller's contexts when first needed and used again; events come from a pool with a bound.
// Copies with the same `queue` are done, and reported, in the order in which they were started; others overlap.
// They do not wait for the program's own streams: a buffer is ready when it is passed, and export_memory() or
// make_synchronous() makes that true for the driver's synchronous functions.
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
  /// What is called by progress(), once for each copy that was started.  It may start copies, but not wait.
  struct Done {
    void (*call)(void* user, const Result<void>& result) noexcept;
    void* user;
  };

  /// The longest wait for a copy before the device counts as hanging.
  static constexpr std::chrono::milliseconds kTimeout{30'000};

  explicit Copier(const Config& config, std::chrono::milliseconds timeout = kTimeout) noexcept;
  Copier(const Copier&) = delete;
  Copier& operator=(const Copier&) = delete;
  /// Ends the copies in flight as finish() does; what is called can start none any more (canceled).
  ~Copier();

  /// Starts a copy in `context` between any two kinds of memory that it can reach.  Neither buffer may be touched,
  /// freed or unmapped before `done`.  Errors, after which `done` is not called: busy (all events are in use:
  /// progress()), invalid_argument (context or address), what the driver says; timed_out: the copy is in flight and
  /// nothing will tell of its end, so its buffers are the device's for good, as finish() says.
  Result<void> copy(ContextHandle context, std::uint64_t queue, void* to, const void* from, std::size_t size,
                    Done done) noexcept;

  /// Reports what is done; returns how many.  Looks at the oldest copy of each stream that is in use, not at all.
  std::size_t progress() noexcept;

  /// Waits until the copies of these queues are done, and reports them: for at most its timeout.  What is not then
  /// is reported as timed_out: a copy cannot be called back, so its buffers are the device's for good, and may not be
  /// unmapped or used for anything else.  Copies of other queues go on, as far as the device does; new ones do not
  /// queue up behind what hangs.  Not from within what is called.
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
  /// Those that `mine(queue)` names.
  template <class Mine>
  void give_up(Stream& stream, Mine mine) noexcept;
  template <class Function>
  void for_each_stream(Function function) noexcept;

  const std::uint32_t most_streams_;  // per context
  const std::uint32_t most_events_;
  const std::chrono::milliseconds timeout_;
  std::vector<std::unique_ptr<Context>> contexts_;
  std::size_t pending_ = 0;
  std::size_t events_ = 0;  // that exist
  bool ending_ = false;     // within the destructor
  bool reporting_ = false;  // within progress()
};

/// copy() (copy.hpp) between memory of which some is not the host's.  Errors: as there; timed_out: it was not done
/// within `timeout`, or what was given up so before still is not; both ranges are then the device's, as finish() says.
OPAL_EXPORT Result<void> copy_within(std::chrono::milliseconds timeout, void* to, const void* from,
                                     std::size_t size) noexcept;

}  // namespace opal::gpu
