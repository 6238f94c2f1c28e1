// SPDX-License-Identifier: Apache-2.0
// opal/gpu/context.hpp — makes a CUDA context of the program current for a scope, and finds a context for given memory.
// No context is created: a primary context is retained only if it is active.  (If another thread releases its last
// reference between the test and the retain, the retain makes it active again.)
// Threads: a CurrentContext is destroyed on the thread that made it.  A WorkContext may be used and destroyed on any
// thread; on_device() and any() use the calling thread's current context.
#pragma once
#include <utility>

#include "opal/core/export.hpp"
#include "opal/core/result.hpp"
#include "opal/gpu/memory.hpp"

namespace opal::gpu {

/// Makes a context current on the calling thread; its destructor makes the previous one current again.
class OPAL_EXPORT CurrentContext {
 public:
  /// Requires: the context is alive; see context_alive() for handles that were kept.
  /// Errors: invalid_argument (null), not_supported (no driver, or the program has not initialised it).
  static Result<CurrentContext> enter(ContextHandle context) noexcept;

  CurrentContext(CurrentContext&& other) noexcept : entered_(std::exchange(other.entered_, false)) {}
  CurrentContext& operator=(CurrentContext&&) = delete;
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;
  ~CurrentContext();

 private:
  CurrentContext() noexcept = default;
  bool entered_ = true;
};

/// The id of a context.  Ids are unique in this process; a handle may be reused after its context was destroyed.
/// The first call for a context allocates pinned host memory in it, which ends with the context.
/// Requires: the context is alive, as that of an allocation that exists.
/// Errors: invalid_argument (null), not_supported, no_memory.
OPAL_EXPORT Result<std::uint64_t> context_id(ContextHandle context) noexcept;

/// False: the program has destroyed the context with this id.  Ask before each use of a handle, stream or event that
/// was kept: the driver does not check them, and their use corrupts its memory.  Cost: one query of the driver, by the
/// address of the memory that context_id() allocated.  (The program must not destroy a context during a copy of its
/// memory, so the answer holds while such a copy is in flight.)
OPAL_EXPORT bool context_alive(std::uint64_t id) noexcept;

/// A context in which given memory can be copied or mapped.  If on_device() or any() retained a primary context, this
/// object holds the reference.  The program may destroy any other context: see context_alive().
class OPAL_EXPORT WorkContext {
 public:
  /// The context in which `memory` was allocated; for mapped and pooled memory, which has none, on_device() of its
  /// device; for host memory any().  Errors: those of on_device() and any().
  static Result<WorkContext> of(const Memory& memory) noexcept;

  /// The calling thread's current context if it is on this device, else the device's primary context if it is active.
  /// Errors: not_supported (the program has no context there, or no driver), invalid_argument (no such device).
  static Result<WorkContext> on_device(int ordinal) noexcept;

  /// The calling thread's current context, else the active primary context of any device.  For pinning memory, and for
  /// copies in which only the peer's memory is on a device.  Errors: not_supported (no driver, or no context).
  static Result<WorkContext> any() noexcept;

  WorkContext(WorkContext&& other) noexcept
      : handle_(other.handle_), ordinal_(other.ordinal_), retained_(std::exchange(other.retained_, false)) {}
  WorkContext& operator=(WorkContext&&) = delete;
  WorkContext(const WorkContext&) = delete;
  WorkContext& operator=(const WorkContext&) = delete;
  ~WorkContext();

  [[nodiscard]] ContextHandle handle() const noexcept { return handle_; }
  [[nodiscard]] int device() const noexcept { return ordinal_; }

 private:
  WorkContext(ContextHandle handle, int ordinal, bool retained) noexcept
      : handle_(handle), ordinal_(ordinal), retained_(retained) {}

  ContextHandle handle_;
  int ordinal_;
  bool retained_;
};

}  // namespace opal::gpu
