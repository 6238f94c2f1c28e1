// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/process/user_errors.hpp"

#include <algorithm>

#include "mpi_shim/base/error_class.hpp"

namespace mpi_shim {

UserErrors& UserErrors::of_process() {
  static UserErrors errors;
  return errors;
}

int UserErrors::add_class() {
  const std::lock_guard guard{mutex_};
  const int number = last() + 1;
  entries_[number] = {number, std::nullopt};
  return number;
}

std::optional<int> UserErrors::add_code(int error_class) {
  const std::lock_guard guard{mutex_};
  const auto own = entries_.find(error_class);
  const bool is_class =
      own != entries_.end() ? own->second.error_class == error_class : error_class_name(error_class) != nullptr;
  if (!is_class) return std::nullopt;
  const int number = last() + 1;
  entries_[number] = {error_class, std::nullopt};
  return number;
}

bool UserErrors::set_text(int code, std::string text) {
  const std::lock_guard guard{mutex_};
  const auto found = entries_.find(code);
  if (found == entries_.end()) return false;
  found->second.text = std::move(text);
  return true;
}

bool UserErrors::remove(int code, bool is_class) {
  const std::lock_guard guard{mutex_};
  const auto found = entries_.find(code);
  if (found == entries_.end() || (found->second.error_class == code) != is_class || found->second.text) return false;
  const bool has_codes = std::any_of(entries_.begin(), entries_.end(), [&](const auto& entry) {
    return entry.first != code && entry.second.error_class == code;
  });
  if (!has_codes) entries_.erase(found);
  return !has_codes;
}

bool UserErrors::remove_text(int code) {
  const std::lock_guard guard{mutex_};
  const auto found = entries_.find(code);
  if (found == entries_.end() || !found->second.text) return false;
  found->second.text.reset();
  return true;
}

std::optional<int> UserErrors::class_of(int code) const {
  const std::lock_guard guard{mutex_};
  const auto found = entries_.find(code);
  return found == entries_.end() ? std::nullopt : std::optional{found->second.error_class};
}

std::optional<std::string> UserErrors::text(int code) const {
  const std::lock_guard guard{mutex_};
  const auto found = entries_.find(code);
  if (found == entries_.end()) return std::nullopt;
  return found->second.text.value_or("");
}

int UserErrors::last_used() const {
  const std::lock_guard guard{mutex_};
  return last();
}

}  // namespace mpi_shim
