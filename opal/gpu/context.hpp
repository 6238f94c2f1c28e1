// SPDX-License-Identifier: Apache-2.0
// opal/gpu/context.hpp — the program's CUDA contexts, used and given back as they were found.
// None is ever created: a primary context is taken only where the program has made it active.
// Threads: the calling thread's; an object ends on the thread on which it began.
#pragma once
#include <utility>

#include "opal/core/export.hpp"
#include "opal/core/result.hpp"
#include "opal/gpu/memory.hpp"

namespace opal::gpu {

/// Makes a context the calling thread's current one; the end restores the one before.
class OPAL_EXPORT CurrentContext {
 public:
  /// Errors: invalid_argument (destroyed, or none), not_supported (no driver).
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

/// What tells a context from a later one with the same handle.  Errors: invalid_argument (destroyed), not_supported.
OPAL_EXPORT Result<std::uint64_t> context_id(ContextHandle context) noexcept;

/// A context in which work with some memory may be done, and the claim that keeps it alive as long as this object, if
/// it is a primary one that was found by its device.
class OPAL_EXPORT WorkContext {
 public:
  /// The one in which `memory` was allocated; for memory that belongs to none (mapped, pooled) one on its device.
  /// Errors: as on_device().
  static Result<WorkContext> of(const Memory& memory) noexcept;

  /// The calling thread's current context if it is on this device, else the device's primary context if it is active.
  /// Errors: not_supported (the program has no context there, or no driver), invalid_argument (no such device).
  static Result<WorkContext> on_device(int ordinal) noexcept;

  /// The calling thread's current context, else any device's active primary one: for host memory on this side.
  /// Errors: not_supported (the program has none).
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
