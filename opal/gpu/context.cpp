// SPDX-License-Identifier: Apache-2.0
#include "opal/gpu/context.hpp"

#include <optional>

#include "opal/gpu/driver.hpp"

namespace opal::gpu {
namespace {

struct Current {
  ContextHandle handle;
  int device;
};

/// The calling thread's current context, unless there is none or it was destroyed.
std::optional<Current> current_context() noexcept {
  Current current{};
  if (driver().context_get_current(&current.handle) != CUDA_SUCCESS || current.handle == nullptr) return std::nullopt;
  if (driver().context_get_device(&current.device) != CUDA_SUCCESS) return std::nullopt;
  return current;
}

}  // namespace

Result<CurrentContext> CurrentContext::enter(ContextHandle context) noexcept {
  OPAL_TRY(usable());
  OPAL_TRY(check(driver().context_push_current(context), "cuCtxPushCurrent"));
  return CurrentContext{};
}

CurrentContext::~CurrentContext() {
  ContextHandle popped = nullptr;
  if (entered_) driver().context_pop_current(&popped);
}

Result<std::uint64_t> context_id(ContextHandle context) noexcept {
  OPAL_TRY(usable());
  unsigned long long id = 0;
  OPAL_TRY(check(driver().context_get_id(context, &id), "cuCtxGetId"));
  return std::uint64_t{id};
}

Result<WorkContext> WorkContext::of(const Memory& memory) noexcept {
  if (memory.kind == MemoryKind::host) return any();
  if (memory.context != nullptr) return WorkContext{memory.context, memory.device, false};
  return on_device(memory.device);
}

Result<WorkContext> WorkContext::on_device(int ordinal) noexcept {
  OPAL_TRY(usable());
  if (const auto current = current_context(); current && current->device == ordinal) {
    return WorkContext{current->handle, ordinal, false};
  }
  unsigned flags = 0;
  int is_active = 0;
  OPAL_TRY(check(driver().primary_context_get_state(ordinal, &flags, &is_active), "cuDevicePrimaryCtxGetState"));
  if (is_active == 0) {
    return Error{Errc::not_supported, 0, "the program has no CUDA context on this device, and none is made for it",
                 static_cast<std::uint64_t>(ordinal)};
  }
  ContextHandle primary = nullptr;
  OPAL_TRY(check(driver().primary_context_retain(&primary, ordinal), "cuDevicePrimaryCtxRetain"));
  return WorkContext{primary, ordinal, true};
}

Result<WorkContext> WorkContext::any() noexcept {
  OPAL_TRY(usable());
  if (const auto current = current_context()) return WorkContext{current->handle, current->device, false};
  int count = 0;
  OPAL_TRY(check(driver().device_get_count(&count), "cuDeviceGetCount"));
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    if (auto found = on_device(ordinal)) return found;
  }
  return Error{Errc::not_supported, 0, "the program has no CUDA context, and none is made for it"};
}

WorkContext::~WorkContext() {
  if (retained_) driver().primary_context_release(ordinal_);
}

}  // namespace opal::gpu
