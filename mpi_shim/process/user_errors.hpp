// SPDX-License-Identifier: Apache-2.0
// mpi_shim/process/user_errors.hpp — error classes, codes and texts that the program adds (MPI_Add_error_class).  They
// may be added before MPI_Init and outlive MPI_Finalize: one table per process.  Threads: safe from any thread.
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

  int add_class();
  /// `error_class` may be the standard's or the program's; nothing: it is none.
  std::optional<int> add_code(int error_class);
  /// Only of classes and codes that were added.  False: it is none.
  bool set_text(int code, std::string text);

  // Removes what was added.  False: it was not added, or a code or an error string still belongs to it.  A number is
  // used again only if it was the highest.
  bool remove(int code, bool is_class);
  bool remove_text(int code);

  /// The class of a class or code that was added.
  [[nodiscard]] std::optional<int> class_of(int code) const;
  /// Its text, empty if none was set.
  [[nodiscard]] std::optional<std::string> text(int code) const;
  /// MPI_LASTUSEDCODE.
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
