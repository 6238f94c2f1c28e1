// SPDX-License-Identifier: Apache-2.0
#include "opal/gpu/copies/copy.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "opal/gpu/context.hpp"
#include "opal/gpu/copies/copier.hpp"
#include "opal/gpu/driver.hpp"

namespace opal::gpu {
namespace {

/// A stream for synchronous copies.
struct Stream {
  ContextHandle context;
  std::uint64_t id;  ///< of the context: its handle may come again
  CUstream handle;
  bool hangs = false;  ///< a copy in it did not end
};

class Streams {
 public:
  /// The current context's; it is `handle`.  Errors: timed_out (what hung in it still does).
  Result<Stream*> of(ContextHandle handle) noexcept try {
    OPAL_TRY_ASSIGN(const std::uint64_t id, context_id(handle));
    auto found = std::find_if(streams_.begin(), streams_.end(), [&](const auto& s) { return s->context == handle; });
    if (found == streams_.end()) {
      found = streams_.insert(found, std::make_unique<Stream>(Stream{handle, 0, nullptr}));
    }
    Stream& stream = **found;
    if (stream.id != id) {  // new, or the old one went with its context
      OPAL_TRY(check(driver().stream_create(&stream.handle, CU_STREAM_NON_BLOCKING), "cuStreamCreate"));
      stream.id = id;
      stream.hangs = false;
    }
    if (stream.hangs) {
      OPAL_TRY(wait_for(stream.handle, std::chrono::milliseconds{0}));
      stream.hangs = false;
    }
    return &stream;
  } catch (const std::bad_alloc&) {
    return Error{Errc::no_memory, 0, "gpu::copy(a stream)"};
  }

 private:
  std::vector<std::unique_ptr<Stream>> streams_;  // one per context
};

std::mutex mutex;
Streams streams;  // streams are not destroyed: they end with their contexts

Result<void> copy_by_driver(const Memory& device, void* to, const void* from, std::size_t size,
                            std::chrono::milliseconds timeout) noexcept {
  OPAL_TRY_ASSIGN(const WorkContext work, WorkContext::of(device));
  OPAL_TRY_ASSIGN(const CurrentContext current, CurrentContext::enter(work.handle()));
  const std::lock_guard lock{mutex};
  OPAL_TRY_ASSIGN(Stream* const stream, streams.of(work.handle()));
  OPAL_TRY(check(
      driver().copy_async(reinterpret_cast<CUdeviceptr>(to), reinterpret_cast<CUdeviceptr>(from), size, stream->handle),
      "cuMemcpyAsync"));
  const auto done = wait_for(stream->handle, timeout);
  stream->hangs = !done && done.error().code == Errc::timed_out;
  return done;
}

}  // namespace

Result<void> copy_within(std::chrono::milliseconds timeout, void* to, const void* from, std::size_t size) noexcept {
  if (!is_host(from)) {
    OPAL_TRY_ASSIGN(const Memory memory, inspect(from));
    make_synchronous(memory);
    return copy_by_driver(memory, to, from, size, timeout);
  }
  if (!is_host(to)) {
    OPAL_TRY_ASSIGN(const Memory memory, inspect(to));
    return copy_by_driver(memory, to, from, size, timeout);
  }
  std::memmove(to, from, size);
  return {};
}

Result<void> detail::copy_any(void* to, const void* from, std::size_t size) noexcept {
  return copy_within(Copier::kTimeout, to, from, size);
}

}  // namespace opal::gpu
