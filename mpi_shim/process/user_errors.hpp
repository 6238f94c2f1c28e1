// SPDX-License-Identifier: Apache-2.0
// mpi_shim/process/user_errors.hpp — error classes, codes and texts that the program adds (MPI_Add_error_class).  One
// table per process, valid also before MPI_Init and after MPI_Finalize.  Threads: any.
#pragma once
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "mpi_shim/include/mpi.h"

namespace mpi_shim {

class UserErrors {
 public:
  static UserErrors& of_process();

  /// Returns the number of a new error class.
  int add_class();
  /// Returns a new code of `error_class`, a class of the standard or of the program; nullopt: it is no error class.
  std::optional<int> add_code(int error_class);
  /// Sets the text of an added class or code.  False: it was not added.
  bool set_text(int code, std::string text);

  /// Removes an added class (is_class) or code.  False: it was not added, or it still has a text or, as a class, codes.
  /// Only the highest number is assigned again.
  bool remove(int code, bool is_class);
  /// False: the class or code was not added, or has no text.
  bool remove_text(int code);

  /// The class of an added class or code; nullopt: it was not added.
  [[nodiscard]] std::optional<int> class_of(int code) const;
  /// The text of an added class or code, "" if none was set; nullopt: it was not added.
  [[nodiscard]] std::optional<std::string> text(int code) const;
  /// The value of the attribute MPI_LASTUSEDCODE.
  [[nodiscard]] int last_used() const;

 private:
  struct Entry {
    int error_class;
    std::optional<std::string> text;
  };
  [[nodiscard]] int last() const noexcept { return entries_.empty() ? MPI_ERR_LASTCODE : entries_.rbegin()->first; }

  mutable std::mutex mutex_;
  std::map<int, Entry> entries_;  // by code; a class is its own class
};

}  // namespace mpi_shim
