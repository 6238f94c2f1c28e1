// SPDX-License-Identifier: Apache-2.0
#include "opal/gpu/copy.hpp"

#include <cstdint>
#include <mutex>
#include <new>
#include <vector>

#include "opal/gpu/context.hpp"
#include "opal/gpu/driver.hpp"

namespace opal::gpu {
namespace {

/// Streams for copies that are waited for, by context.  Handles of contexts come again, their ids do not.
class Streams {
 public:
  /// The current context's; it is `handle`.
  Result<CUstream> of(ContextHandle handle) noexcept try {
    OPAL_TRY_ASSIGN(const std::uint64_t id, context_id(handle));
    for (Entry& entry : entries_) {
      if (entry.context != handle) continue;
      if (entry.id != id) OPAL_TRY(make(entry, id));  // the old one went with its context
      return entry.stream;
    }
    entries_.reserve(entries_.size() + 1);
    Entry entry{handle, 0, nullptr};
    OPAL_TRY(make(entry, id));
    entries_.push_back(entry);
    return entry.stream;
  } catch (const std::bad_alloc&) {
    return Error{Errc::no_memory, 0, "gpu::copy(a stream)"};
  }

 private:
  struct Entry {
    ContextHandle context;
    std::uint64_t id;
    CUstream stream;
  };
  static Result<void> make(Entry& entry, std::uint64_t id) noexcept {
    OPAL_TRY(check(driver().stream_create(&entry.stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate"));
    entry.id = id;
    return {};
  }
  std::vector<Entry> entries_;
};

std::mutex mutex;
Streams streams;  // never destroyed one by one: they end with their contexts

Result<void> copy_by_driver(const Memory& device, void* to, const void* from, std::size_t size) noexcept {
  OPAL_TRY_ASSIGN(const WorkContext work, WorkContext::of(device));
  OPAL_TRY_ASSIGN(const CurrentContext current, CurrentContext::enter(work.handle()));
  const std::lock_guard lock{mutex};
  OPAL_TRY_ASSIGN(const CUstream stream, streams.of(work.handle()));
  OPAL_TRY(
      check(driver().copy_async(reinterpret_cast<CUdeviceptr>(to), reinterpret_cast<CUdeviceptr>(from), size, stream),
            "cuMemcpyAsync"));
  return check(driver().stream_synchronize(stream), "cuStreamSynchronize");
}

}  // namespace

Result<void> detail::copy_any(void* to, const void* from, std::size_t size) noexcept {
  if (!is_host(from)) {
    OPAL_TRY_ASSIGN(const Memory memory, inspect(from));
    make_synchronous(memory);
    return copy_by_driver(memory, to, from, size);
  }
  if (!is_host(to)) {
    OPAL_TRY_ASSIGN(const Memory memory, inspect(to));
    return copy_by_driver(memory, to, from, size);
  }
  std::memmove(to, from, size);
  return {};
}

}  // namespace opal::gpu
