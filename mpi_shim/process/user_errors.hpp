// SPDX-License-Identifier: Apache-2.0
// mpi_shim/process/user_errors.hpp — error classes, codes and texts that the program adds (MPI_Add_error_class).  One
// table per process, valid also before MPI_Init and after MPI_Finalize.  Threads: any.
#pragma once
#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "mpi_shim/base/error_class.hpp"
#include "mpi_shim/include/mpi.h"

namespace mpi_shim {

class UserErrors {
 public:
  struct Entry {
    int error_class;                  ///< of a class: itself
    std::optional<std::string> text;  ///< empty: none is set
  };

  static UserErrors& of_process() {
    static UserErrors errors;
    return errors;
  }

  /// Returns the number of a new error class.
  int add_class() {
    const std::lock_guard guard{mutex_};
    const int number = last() + 1;
    entries_[number] = {number, std::nullopt};
    return number;
  }
  /// Returns a new code of `error_class`, a class of the standard or of the program; nullopt: it is no error class.
  std::optional<int> add_code(int error_class) {
    const std::lock_guard guard{mutex_};
    const auto own = entries_.find(error_class);
    const bool is_class =
        own != entries_.end() ? own->second.error_class == error_class : error_class_name(error_class) != nullptr;
    if (!is_class) return std::nullopt;
    const int number = last() + 1;
    entries_[number] = {error_class, std::nullopt};
    return number;
  }
  /// Sets or removes the text of an added class or code.  False: it was not added, or has no text to remove.
  bool set_text(int code, std::optional<std::string> text) {
    const std::lock_guard guard{mutex_};
    const auto found = entries_.find(code);
    if (found == entries_.end() || (!text && !found->second.text)) return false;
    found->second.text = std::move(text);
    return true;
  }
  /// Removes an added class (is_class) or code.  False: it was not added, or it still has a text or, as a class, codes.
  /// Only the highest number is assigned again.
  bool remove(int code, bool is_class) {
    const std::lock_guard guard{mutex_};
    const auto found = entries_.find(code);
    if (found == entries_.end() || (found->second.error_class == code) != is_class || found->second.text) return false;
    const bool has_codes = std::ranges::any_of(
        entries_, [&](const auto& entry) { return entry.first != code && entry.second.error_class == code; });
    if (!has_codes) entries_.erase(found);
    return !has_codes;
  }

  /// An added class or code; nullopt: it was not added.
  [[nodiscard]] std::optional<Entry> find(int code) const {
    const std::lock_guard guard{mutex_};
    const auto found = entries_.find(code);
    return found == entries_.end() ? std::nullopt : std::optional{found->second};
  }
  /// The value of the attribute MPI_LASTUSEDCODE.
  [[nodiscard]] int last_used() const {
    const std::lock_guard guard{mutex_};
    return last();
  }

 private:
  [[nodiscard]] int last() const noexcept { return entries_.empty() ? MPI_ERR_LASTCODE : entries_.rbegin()->first; }

  mutable std::mutex mutex_;
  std::map<int, Entry> entries_;  // by code
};

}  // namespace mpi_shim
