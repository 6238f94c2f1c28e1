// SPDX-License-Identifier: Apache-2.0
// tests/portals4/queue.hpp — a queue that keeps its memory, so that the double allocates nothing in a steady state:
// tests count the allocations of the whole process.
#pragma once
#include <cstddef>
#include <utility>
#include <vector>

namespace opal::test::portals4 {

template <class T>
class Queue {
 public:
  [[nodiscard]] bool empty() const { return first_ == items_.size(); }
  [[nodiscard]] std::size_t size() const { return items_.size() - first_; }
  T& front() { return items_[first_]; }
  [[nodiscard]] const T& front() const { return items_[first_]; }
  auto begin() { return items_.begin() + static_cast<std::ptrdiff_t>(first_); }
  auto end() { return items_.end(); }

  void push_back(T item) {
    if (first_ != 0 && items_.size() == items_.capacity()) {
      items_.erase(items_.begin(), begin());
      first_ = 0;
    }
    items_.push_back(std::move(item));
  }
  void pop_front() {
    items_[first_] = T{};
    if (++first_ == items_.size()) clear();
  }
  void clear() {
    items_.clear();
    first_ = 0;
  }
  void swap(Queue& other) {
    items_.swap(other.items_);
    std::swap(first_, other.first_);
  }

 private:
  std::vector<T> items_;
  std::size_t first_ = 0;
};

}  // namespace opal::test::portals4
