// SPDX-License-Identifier: Apache-2.0
// mpi_shim/info/info.hpp — an MPI info object: keys and values, in the order in which the keys were first set.
// Owned by references.  Threads: one at a time.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mpi_shim/handle/object.hpp"

namespace mpi_shim::info {

class Info final : public handle::Object {
 public:
  static constexpr handle::Kind kKind = handle::Kind::info;
  using Entries = std::vector<std::pair<std::string, std::string>>;

  explicit Info(Entries entries = {}) : Object(kKind), entries_(std::move(entries)) {}
  /// MPI_INFO_ENV.
  Info(std::uintptr_t predefined, Entries entries) : Object(kKind, predefined), entries_(std::move(entries)) {}

  [[nodiscard]] const Entries& entries() const noexcept { return entries_; }

  /// The value, valid until the next set() or erase(); null if there is no such key.
  [[nodiscard]] const std::string* find(std::string_view key) const noexcept {
    for (const auto& [name, value] : entries_) {
      if (name == key) return &value;
    }
    return nullptr;
  }
  void set(std::string_view key, std::string_view value) {
    for (auto& [name, old] : entries_) {
      if (name != key) continue;
      old = value;
      return;
    }
    entries_.emplace_back(key, value);
  }
  /// False if there is no such key.
  bool erase(std::string_view key) {
    return std::erase_if(entries_, [&](const auto& entry) { return entry.first == key; }) != 0;
  }

 private:
  Entries entries_;
};

// --- MPI_INFO_ENV (environment.cpp)

/// The entries of MPI_INFO_ENV: command, argv, wdir, host, arch, and, if `size` is not 0, maxprocs (`size`) and
/// thread_level.  A value that is unknown is omitted; one longer than MPI_MAX_INFO_VAL - 1 is truncated.
/// `arguments`: argv of main(); if empty, it is read from /proc/self/cmdline.
Info::Entries describe_environment(std::span<char* const> arguments, int size, int thread_level);

/// Makes MPI_INFO_ENV and publishes it in the handle table.  Called once, during MPI_Init.
void publish_environment(int size, int thread_level);

}  // namespace mpi_shim::info
