// SPDX-License-Identifier: Apache-2.0
// opal/gpu/lost.hpp — what a device that has stopped answering may still write to: kept for the life of the process,
// because undoing it would wait for the device, and using it for something else would not be safe.
// Threads: everything from any thread.
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
