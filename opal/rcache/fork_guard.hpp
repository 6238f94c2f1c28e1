// SPDX-License-Identifier: Apache-2.0
// opal/rcache/fork_guard.hpp — knows every cache of the process, so that a forked child starts with empty ones: what
// the parent registered belongs to the parent's device and is neither used nor undone by the child.
// Threads: safe from any.  A fork waits for the caches' locks, which are never held for long.
#pragma once

namespace opal::rcache {

class Cache;

class ForkGuard {
 public:
  static void add(Cache& cache) noexcept;
  static void remove(Cache& cache) noexcept;

 private:
  static void before() noexcept;
  static void after_in_parent() noexcept;
  static void after_in_child() noexcept;
};

}  // namespace opal::rcache
