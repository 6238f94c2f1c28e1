// SPDX-License-Identifier: Apache-2.0
// tests/gpu/double/control.hpp — how a test sets up the driver double of its own process, and asks what it holds.
// The double says what it does in README.md.  With the real driver there is nothing to control: control() is null.
// Threads: everything from any thread.
#pragma once
#include <dlfcn.h>
#include "tests/gpu/cuda_test_api.hpp"

#include <cstdint>

namespace opal::cuda_double {

/// What can be set; in brackets the word of the environment variable OPAL_CUDA_DOUBLE="devices=4,ipc_limit=8".
enum class Setting : std::uint8_t {
  devices,         ///< [devices] in the machine, before cuInit; default 2
  peer_access,     ///< [peer_access] 1: every pair of devices has it (default); 0: none has
  already_mapped,  ///< [already_mapped] 1: opening memory of a process that overlaps memory of it opened here before is
                   ///< CUDA_ERROR_ALREADY_MAPPED; 0 (default): opening once more counts, as today's drivers do
  ipc_limit,       ///< [ipc_limit] mappings of other processes' memory at a time; 0 (default): no limit
  memory_limit,    ///< [memory_limit] bytes of one device; 0 (default): no limit
  reuse,           ///< [reuse] 1 (default): the lowest free address is given out; 0: no address twice
  late,            ///< [late] an operation completes only after up to this many queries; 0 (default): at once
  seed,            ///< [seed] which of those it is for which operation, so that streams overtake each other
  hold,            ///< [hold] 1: operations complete only by release() and by functions that wait
  unknown_kind,    ///< [unknown_kind] 1: memory says of itself neither legacy nor handle types nor pool
  api_version,     ///< [api_version] what cuDriverGetVersion says; default that of cuda.h
};

/// What can be counted.
enum class Count : std::uint8_t {
  opened,       ///< mappings of other processes' memory, each counted once however often it was opened
  allocations,  ///< live ones, of any kind, in this process
  streams,
  events,
  contexts,    ///< created, and primary ones that are active
  unfinished,  ///< operations in streams
};

class Control {
 public:
  virtual void set(Setting setting, std::uint64_t value) = 0;
  [[nodiscard]] virtual std::uint64_t count(Count what) const = 0;
  /// Calls of a function since the start, "cuMemAlloc" without version.
  [[nodiscard]] virtual std::uint64_t calls(const char* function) const = 0;
  /// The next `times` calls of `function` do nothing and return `result`.
  virtual void fail(const char* function, CUresult result, unsigned times = 1) = 0;
  /// Completes up to `operations` held ones: the latest stream first, in order within a stream.
  virtual void release(unsigned operations) = 0;
  /// Settings as the environment says, no failures to come.  What is allocated stays.
  virtual void reset() = 0;

 protected:
  ~Control() = default;
};

/// The double's controls; null when the real driver is loaded.
inline Control* control() {
  const auto find = reinterpret_cast<Control* (*)()>(::dlsym(RTLD_DEFAULT, "opal_cuda_double_control"));
  return find == nullptr ? nullptr : find();
}

}  // namespace opal::cuda_double
