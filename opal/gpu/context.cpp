// SPDX-License-Identifier: Apache-2.0
#include "opal/gpu/context.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <vector>

#include "opal/gpu/driver.hpp"

namespace opal::gpu {
namespace {

struct Current {
  ContextHandle handle;
  int device;
};

/// A context, and memory in it by which its end is noticed.
struct Known {
  ContextHandle handle;
  std::uint64_t id;
  void* memory;
  unsigned long long buffer_id;  // of the memory
};

/// The contexts that context_id() knows.  Never destroyed: other objects ask for contexts until the process ends.
struct KnownContexts {
  std::mutex mutex;
  std::vector<Known> list;
  std::uint64_t last_id = 0;
};
KnownContexts& known_contexts() noexcept {
  static auto& instance = *std::make_unique<KnownContexts>().release();
  return instance;
}

/// The driver frees a context's memory with the context.  Memory that comes to this address later has another buffer
/// id.
bool exists(const Known& known) noexcept {
  CUcontext context = nullptr;
  unsigned long long buffer_id = 0;
  std::array kinds{CU_POINTER_ATTRIBUTE_CONTEXT, CU_POINTER_ATTRIBUTE_BUFFER_ID};
  std::array<void*, kinds.size()> data{&context, &buffer_id};
  return driver().pointer_get_attributes(static_cast<unsigned>(kinds.size()), kinds.data(), data.data(),
                                         device_pointer(known.memory)) == CUDA_SUCCESS &&
         context == known.handle && buffer_id == known.buffer_id;
}

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
  if (context == nullptr) return Error{Errc::invalid_argument, 0, "gpu: no context"};
  OPAL_TRY(check(driver().context_push_current(context), "cuCtxPushCurrent"));
  return CurrentContext{};
}

CurrentContext::~CurrentContext() {
  ContextHandle popped = nullptr;
  if (entered_) driver().context_pop_current(&popped);
}

Result<std::uint64_t> context_id(ContextHandle context) noexcept try {
  KnownContexts& contexts = known_contexts();
  const std::lock_guard lock{contexts.mutex};
  const auto found = std::ranges::find_if(contexts.list, [&](const Known& known) { return known.handle == context; });
  if (found != contexts.list.end()) {
    if (exists(*found)) return found->id;
    contexts.list.erase(found);
  }
  OPAL_TRY_ASSIGN(const CurrentContext current, CurrentContext::enter(context));
  constexpr std::size_t kSize = 64;
  Known known{context, contexts.last_id + 1, nullptr, 0};
  contexts.list.reserve(contexts.list.size() + 1);
  OPAL_TRY(check(driver().host_allocate(&known.memory, kSize, 0), "cuMemHostAlloc"));
  (void)driver().pointer_get_attribute(&known.buffer_id, CU_POINTER_ATTRIBUTE_BUFFER_ID, device_pointer(known.memory));
  contexts.list.push_back(known);
  return ++contexts.last_id;
} catch (const std::bad_alloc&) {
  return Error{Errc::no_memory, 0, "gpu::context_id"};
}

bool context_alive(std::uint64_t id) noexcept {
  KnownContexts& contexts = known_contexts();
  const std::lock_guard lock{contexts.mutex};
  const auto found = std::ranges::find_if(contexts.list, [&](const Known& known) { return known.id == id; });
  return found != contexts.list.end() && exists(*found);
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
