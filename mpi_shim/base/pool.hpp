// SPDX-License-Identifier: Apache-2.0
// mpi_shim/base/pool.hpp — plain objects that come and go often: kept constructed, with their capacity, and used again.
// Owns every object it ever made, also those in use.  Threads: externally synchronised.
#pragma once
#include <memory>
#include <vector>

namespace mpi_shim {

template <class T, class Owner>
class Pool {
 public:
  /// An object that nobody uses.
  T& take(Owner& owner) {
    if (free_.empty()) [[unlikely]] {
      all_.push_back(std::make_unique<T>(owner));
      free_.reserve(all_.capacity());  // so that give_back() never allocates
      return *all_.back();
    }
    T& object = *free_.back();
    free_.pop_back();
    return object;
  }
  void give_back(T& object) noexcept { free_.push_back(&object); }

 private:
  std::vector<std::unique_ptr<T>> all_;
  std::vector<T*> free_;
};

}  // namespace mpi_shim
