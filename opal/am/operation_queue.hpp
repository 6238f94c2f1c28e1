// SPDX-License-Identifier: Apache-2.0
// opal/am/operation_queue.hpp — one-sided operations of one endpoint that its transport could not take yet,
// oldest first.  Owned by its Endpoint, while there are any.  Threads: under the Context's lock.
#pragma once
#include <cstdint>
#include <deque>

#include "opal/btl/atomic.hpp"
#include "opal/btl/memory_handle.hpp"
#include "opal/btl/post.hpp"

namespace opal::am {

struct QueuedOperation {
  enum class Kind : std::uint8_t { put, get, atomic, flush };
  Kind kind;
  const void* source = nullptr;  ///< put
  void* destination = nullptr;   ///< get
  std::uint64_t remote_address = 0;
  std::uint64_t size = 0;
  MemoryHandle handle{};    ///< the caller's is only borrowed for the call
  AtomicRequest request{};  ///< atomic, without its handle
  Completion* completion = nullptr;
  std::uint64_t order = 0;  ///< of posting, within the Context
};

struct OperationQueue : std::deque<QueuedOperation> {};

}  // namespace opal::am
