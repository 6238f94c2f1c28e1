// SPDX-License-Identifier: Apache-2.0
// mpi_shim/core/object_pool.hpp — objects that come and go often (requests, schedules): kept constructed and used
// again, so that the common case allocates nothing.  Objects keep their capacity between uses; whoever gives one back
// resets it. T is an object behind a handle (handle/object.hpp) and is not findable while nobody uses it. Owns every
// object it ever made, also those in use.  Threads: externally synchronised.
#pragma once
#include <cstddef>
#include <cstdlib>
#include <vector>

#include "mpi_shim/handle/object.hpp"

namespace mpi_shim {

template <class T, class Owner>
class ObjectPool {
 public:
  /// An object that nobody uses.  Ends the process when there is no memory, as operator new would by its exception.
  T& take(Owner& owner) {
    if (free_.empty()) [[unlikely]] {
      auto made = handle::create<T>(owner);
      if (!made) std::abort();
      all_.push_back(std::move(*made));
      free_.reserve(all_.capacity());  // so that give_back() never allocates
      return *all_.back();
    }
    T& object = *free_.back();
    free_.pop_back();
    object.set_findable(true, T::kKind);
    return object;
  }

  void give_back(T& object) noexcept {
    object.set_findable(false, T::kKind);
    free_.push_back(&object);
  }

 private:
  std::vector<handle::Ref<T>> all_;
  std::vector<T*> free_;
};

}  // namespace mpi_shim
