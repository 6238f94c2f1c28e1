// SPDX-License-Identifier: Apache-2.0
// tests/rcache/fake_device.hpp — a device that keeps a table of registrations, runs out of room, fails to order and
// records what it was told.  It checks on its own that nothing is deregistered twice or left registered.
// Threads: safe from any thread.
#pragma once
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <vector>

#include "opal/rcache/cache.hpp"

namespace opal::rcache::test {

inline constexpr std::size_t kPage = 4096;

/// Addresses are only numbers to a cache: nothing is mapped there.
inline const void* at(std::uintptr_t address) { return reinterpret_cast<const void*>(address); }

inline const char* name(Overlap overlap) { return overlap == Overlap::containing ? "containing" : "page_refcount"; }

class FakeDevice final : public Device {
 public:
  struct Entry {
    std::uintptr_t begin;
    std::uintptr_t end;
    Access access;
  };

  Result<void> register_memory(Registration& registration) noexcept override {
    if (during_register) during_register(registration);
    std::unique_lock lock{mutex_};
    ++register_calls;
    if ((registration.access() & forbidden) != 0) return Error{Errc::permission, 13, "FakeDevice"};
    if (table.size() >= capacity) {
      lock.unlock();
      if (on_full) on_full();
      return Error{when_full, 12, "FakeDevice(full)"};
    }
    const std::uint64_t key = ++last_key_;
    table.emplace(key, Entry{registration.begin(), registration.end(), registration.access()});
    registration.cookie().set(key);
    most = std::max(most, table.size());
    return {};
  }

  void deregister_memory(Registration& registration) noexcept override {
    if (during_deregister) during_deregister();
    const std::lock_guard lock{mutex_};
    const auto key = registration.cookie().get<std::uint64_t>();
    EXPECT_EQ(table.erase(key), 1u) << "deregistered something that was not registered";
    deregistered.push_back(key);
  }

  void invalidated_part(const Registration& registration, memory::Range gone) noexcept override {
    refused_parts.emplace_back(registration.cookie().get<std::uint64_t>(), gone);
    EXPECT_TRUE(registration.valid());
  }

  void invalidated(const Registration& registration) noexcept override {
    refused.insert(registration.cookie().get<std::uint64_t>());
    EXPECT_FALSE(registration.valid());
  }

  static std::uint64_t key_of(const Registration& registration) { return registration.cookie().get<std::uint64_t>(); }

  std::size_t capacity = std::numeric_limits<std::size_t>::max();
  Errc when_full = Errc::no_memory;
  Access forbidden = 0;  ///< rights that registering fails with
  std::function<void(const Registration&)> during_register;
  std::function<void()> during_deregister;
  std::function<void()> on_full;  ///< after it is clear that registering fails, before the cache hears of it

  std::map<std::uint64_t, Entry> table;  ///< live registrations by key
  std::vector<std::uint64_t> deregistered;
  std::set<std::uint64_t> refused;
  std::vector<std::pair<std::uint64_t, memory::Range>> refused_parts;
  std::uint64_t register_calls = 0;
  std::size_t most = 0;  ///< registrations at a time

 private:
  std::mutex mutex_;
  std::uint64_t last_key_ = 0;
};

}  // namespace opal::rcache::test
