// SPDX-License-Identifier: Apache-2.0
// mpi_shim/info/info.hpp — an MPI info object: keys and values, in the order in which the keys were first set.
// Owned by references.  Threads: one at a time.
#pragma once
#include <optional>
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
  /// False: there is no such key.
  bool erase(std::string_view key) {
    for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
      if (entry->first != key) continue;
      entries_.erase(entry);
      return true;
    }
    return false;
  }

 private:
  Entries entries_;
};

// --- MPI_INFO_ENV (environment.cpp)

/// The keys of the standard that are known here: command, argv, wdir, host, arch, and, when MPI runs, maxprocs (`size`;
/// 0: unknown) and thread_level.  `arguments`: those of main, the first one the command; empty: the kernel's record.
Info::Entries describe_environment(std::span<char* const> arguments, int size, int thread_level);

/// Makes MPI_INFO_ENV; once, while MPI is started.
void publish_environment(int size, int thread_level);

}  // namespace mpi_shim::info
