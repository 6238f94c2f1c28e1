// SPDX-License-Identifier: Apache-2.0
// mpi_shim/base/object_pool.hpp — a free list of objects that live for a short time (requests, schedules, fetches).
// Objects stay constructed between uses and keep the capacity of their vectors, so the common case allocates nothing.
// If T has a handle (handle/object.hpp), the handle of an unused object names nothing.
// Owns every object it ever made, also those in use.
// Threads: externally synchronised.
#pragma once
#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <vector>

#include "mpi_shim/handle/object.hpp"

namespace mpi_shim {

template <class T, class Owner>
class ObjectPool {
 public:
  /// An unused object, valid until give_back(); made with the argument `owner` if there is none.  A T with a handle
  /// ends the process when there is no memory.
  T& take(Owner& owner) {
    if (free_count_ == 0) [[unlikely]]
      return make(owner);
    T& object = *free_[--free_count_];
    if constexpr (kHasHandle) object.set_findable(true, T::kKind);
    return object;
  }

  /// Requires: take() has returned `object`, and the caller has reset its state.
  void give_back(T& object) noexcept {
    if constexpr (kHasHandle) object.set_findable(false, T::kKind);
    free_[free_count_++] = &object;
  }

  /// Whether `is(const T&)` holds for some object, used or not.
  template <class Is>
  [[nodiscard]] bool any(Is&& is) const {
    return std::any_of(all_.begin(), all_.end(), [&](const Holder& object) { return is(*object); });
  }

 private:
  static constexpr bool kHasHandle = std::derived_from<T, handle::Object>;
  using Holder = std::conditional_t<kHasHandle, handle::Ref<T>, std::unique_ptr<T>>;

  [[gnu::noinline]] T& make(Owner& owner) {
    if constexpr (kHasHandle) {
      auto made = handle::create<T>(owner);
      if (!made) std::abort();
      all_.push_back(std::move(*made));
    } else {
      all_.push_back(std::make_unique<T>(owner));
    }
    free_.resize(all_.size());  // room for all of them, so that give_back() never allocates
    return *all_.back();
  }

  std::vector<Holder> all_;
  std::vector<T*> free_;  // the first free_count_ entries are the unused objects
  std::size_t free_count_ = 0;
};

}  // namespace mpi_shim
