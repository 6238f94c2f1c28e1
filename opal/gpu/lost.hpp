// SPDX-License-Identifier: Apache-2.0
// opal/gpu/lost.hpp — keeps objects (mappings, streams) that a hanging device may still access until the process ends:
// to destroy them would block on the device, and to reuse them would not be safe.  Threads: any.
#pragma once
#include <deque>
#include <mutex>
#include <utility>

namespace opal::gpu {

/// Keeps `object` until the process ends.
template <class T>
void keep_for_good(T object) {
  static std::mutex mutex;
  static auto& kept = *new std::deque<T>;  // never destroyed: nothing in it may be
  const std::lock_guard lock{mutex};
  kept.push_back(std::move(object));
}

}  // namespace opal::gpu
