// SPDX-License-Identifier: Apache-2.0
#include "opal/gpu/copies/copy.hpp"

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <new>
#include <optional>
#include <vector>

#include "opal/gpu/context.hpp"
#include "opal/gpu/copies/copier.hpp"
#include "opal/gpu/driver.hpp"

namespace opal::gpu {
namespace {

/// A stream for synchronous copies.
struct Stream {
  ContextHandle context;
  std::uint64_t id = 0;  ///< of the context, whose handle the driver may reuse; 0: no stream yet
  CUstream handle = nullptr;
};

std::mutex mutex;
std::vector<Stream> streams;  // one per context; the driver destroys it with the context; guarded by `mutex`

/// The stream of `context`.  Requires: it is the current context; the caller holds `mutex`.
Result<CUstream> stream_of(ContextHandle context) noexcept try {
  OPAL_TRY_ASSIGN(const std::uint64_t id, context_id(context));
  auto found = std::ranges::find(streams, context, &Stream::context);
  if (found == streams.end()) found = streams.insert(found, Stream{context});
  if (found->id != id) {  // new, or the old one went with its context
    OPAL_TRY(check(driver().stream_create(&found->handle, CU_STREAM_NON_BLOCKING), "cuStreamCreate"));
    found->id = id;
  }
  return found->handle;
} catch (const std::bad_alloc&) {
  return Error{Errc::no_memory, 0, "gpu::copy(a stream)"};
}

/// Calls `start(stream)`, which starts copies of memory of `device`, and waits for them without a limit.  After
/// kCopyHangs it logs an error.
template <class Start>
Result<void> copy_by_driver(const Memory& device, Start start) noexcept {
  OPAL_TRY_ASSIGN(const WorkContext work, WorkContext::of(device));
  OPAL_TRY_ASSIGN(const CurrentContext current, CurrentContext::enter(work.handle()));
  const std::lock_guard lock{mutex};
  OPAL_TRY_ASSIGN(const CUstream stream, stream_of(work.handle()));
  OPAL_TRY(start(stream));
  const auto done = wait_for(stream, Deadline::after(kCopyHangs));
  if (done || done.error().code != Errc::timed_out) return done;
  detail::report_hang();
  return wait_for(stream);
}

/// The GPU memory among the two ends of a copy: the source, if both are; none if both are host memory.
Result<std::optional<Memory>> device_memory_of(const void* to, const void* from) noexcept {
  std::optional<Memory> device;
  for (const void* const end : {to, from}) {
    if (is_host(end)) continue;
    OPAL_TRY_ASSIGN(device, inspect(end));
    make_synchronous(*device);
  }
  return device;
}

constexpr std::ptrdiff_t kMostPitch = (std::ptrdiff_t{1} << 31) - 1;  // CU_DEVICE_ATTRIBUTE_MAX_PITCH of all devices

}  // namespace

Result<void> detail::copy_any(void* to, const void* from, std::size_t size) noexcept {
  OPAL_TRY_ASSIGN(const std::optional<Memory> device, device_memory_of(to, from));
  if (!device) {
    std::memmove(to, from, size);
    return {};
  }
  return copy_by_driver(*device, [&](CUstream stream) {
    return check(driver().copy_async(device_pointer(to), device_pointer(from), size, stream), "cuMemcpyAsync");
  });
}

Result<void> copy_blocks(void* to, std::ptrdiff_t to_stride, const void* from, std::ptrdiff_t from_stride,
                         Blocks blocks) noexcept {
  const auto is_pitch = [&](std::ptrdiff_t stride) {
    return stride >= static_cast<std::ptrdiff_t>(blocks.size) && stride <= kMostPitch;
  };
  OPAL_TRY_ASSIGN(const std::optional<Memory> device, device_memory_of(to, from));
  if (device && is_pitch(to_stride) && is_pitch(from_stride)) {
    CUDA_MEMCPY2D rows{};
    rows.srcMemoryType = rows.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
    rows.srcDevice = device_pointer(from);
    rows.dstDevice = device_pointer(to);
    rows.srcPitch = static_cast<std::size_t>(from_stride);
    rows.dstPitch = static_cast<std::size_t>(to_stride);
    rows.WidthInBytes = blocks.size;
    rows.Height = blocks.count;
    return copy_by_driver(
        *device, [&](CUstream stream) { return check(driver().copy_rows_async(&rows, stream), "cuMemcpy2DAsync"); });
  }
  for (std::size_t i = 0; i < blocks.count; ++i) {
    OPAL_TRY(copy(static_cast<std::byte*>(to) + static_cast<std::ptrdiff_t>(i) * to_stride,
                  static_cast<const std::byte*>(from) + static_cast<std::ptrdiff_t>(i) * from_stride, blocks.size));
  }
  return {};
}

}  // namespace opal::gpu
