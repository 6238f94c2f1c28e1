// SPDX-License-Identifier: Apache-2.0
#include "opal/gpu/memory.hpp"

#include <array>

#include "opal/gpu/context.hpp"
#include "opal/gpu/driver.hpp"

namespace opal::gpu {
namespace {

/// The attributes of an address, from one call of the driver; all zero if the driver does not know the address.
struct Attributes {
  CUcontext context = nullptr;
  unsigned type = 0;
  unsigned managed = 0;
  int device = -1;
  unsigned long long buffer_id = 0;
  unsigned legacy = 0;
  CUmemoryPool pool = nullptr;
};

CUresult ask(const void* address, Attributes& attributes) noexcept {
  std::array kinds{CU_POINTER_ATTRIBUTE_CONTEXT,       CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                   CU_POINTER_ATTRIBUTE_IS_MANAGED,    CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                   CU_POINTER_ATTRIBUTE_BUFFER_ID,     CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
                   CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE};
  std::array<void*, kinds.size()> data{&attributes.context, &attributes.type,      &attributes.managed,
                                       &attributes.device,  &attributes.buffer_id, &attributes.legacy,
                                       &attributes.pool};
  return driver().pointer_get_attributes(static_cast<unsigned>(kinds.size()), kinds.data(), data.data(),
                                         device_pointer(address));
}

/// Before cuInit(), after the driver's end and in a forked child there is no device memory.
bool nothing_there(CUresult result) noexcept {
  return result == CUDA_ERROR_NOT_INITIALIZED || result == CUDA_ERROR_DEINITIALIZED ||
         result == CUDA_ERROR_INVALID_CONTEXT || result == CUDA_ERROR_INVALID_VALUE;
}

bool is_virtual_mapping(const void* address) noexcept {
  CUmemGenericAllocationHandle handle = 0;
  // The function takes a non-const pointer but does not write through it.
  if (driver().retain_allocation(&handle, const_cast<void*>(address)) != CUDA_SUCCESS) return false;
  driver().release_allocation(handle);
  return true;
}

MemoryKind kind_on_device(const Attributes& attributes, const void* address) noexcept {
  if (attributes.managed != 0) return MemoryKind::managed;
  if (attributes.pool != nullptr) return MemoryKind::pooled;
  if (attributes.legacy != 0) return MemoryKind::legacy;
  return is_virtual_mapping(address) ? MemoryKind::mapped : MemoryKind::other;
}

/// Waits for the legacy default stream, which cuMemcpy and cuMemset use.
void wait_for_default_stream(const Memory& memory) noexcept {
  const auto work = WorkContext::of(memory);
  if (!work) return;
  if (const auto current = CurrentContext::enter(work->handle())) (void)wait_for(nullptr, Deadline::after(kFirstUse));
}

}  // namespace

namespace detail {

bool ask_whether_host(const void* address) noexcept {
  const std::uint64_t releases = host_pages.releases();
  unsigned managed = 0;
  unsigned type = 0;
  std::array kinds{CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED};
  std::array<void*, kinds.size()> data{&type, &managed};
  const CUresult result = driver().pointer_get_attributes(static_cast<unsigned>(kinds.size()), kinds.data(),
                                                          data.data(), device_pointer(address));
  const bool host =
      result != CUDA_SUCCESS ? nothing_there(result) : managed == 0 && (type == 0 || type == CU_MEMORYTYPE_HOST);
  if (host) host_pages.add(address, releases);
  return host;
}

}  // namespace detail

Result<Memory> inspect(const void* address) noexcept {
  if (!active()) return Memory{};
  Attributes attributes;
  if (const CUresult result = ask(address, attributes); result != CUDA_SUCCESS) {
    if (nothing_there(result)) return Memory{};
    return error_of(result, "cuPointerGetAttributes");
  }
  if (attributes.type == 0 && attributes.managed == 0) return Memory{};

  Memory memory;
  memory.context = attributes.context;
  memory.buffer_id = attributes.buffer_id;
  if (attributes.type == CU_MEMORYTYPE_HOST && attributes.managed == 0) {
    memory.kind = MemoryKind::pinned;
  } else {
    memory.kind = kind_on_device(attributes, address);
    memory.device = attributes.device;
  }
  CUdeviceptr base = 0;
  OPAL_TRY(
      check(driver().memory_get_address_range(&base, &memory.size, device_pointer(address)), "cuMemGetAddressRange"));
  memory.base = base;
  return memory;
}

void make_synchronous(const Memory& memory) noexcept {
  if (memory.kind != MemoryKind::legacy && memory.kind != MemoryKind::mapped) return;
  // Ids of buffers whose attribute is set already; ids are not reused.
  static std::array<std::atomic<std::uint64_t>, 256> recent{};
  std::atomic<std::uint64_t>& slot = recent[memory.buffer_id % recent.size()];
  if (slot.load(std::memory_order_relaxed) == memory.buffer_id) return;
  const unsigned yes = 1;
  unsigned before = 0;
  (void)driver().pointer_get_attribute(&before, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, memory.base);
  if (driver().pointer_set_attribute(&yes, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, memory.base) != CUDA_SUCCESS) return;
  slot.store(memory.buffer_id, std::memory_order_relaxed);
  if (before == 0) wait_for_default_stream(memory);
}

}  // namespace opal::gpu
