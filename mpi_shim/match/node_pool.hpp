// SPDX-License-Identifier: Apache-2.0
// mpi_shim/match/node_pool.hpp — nodes of one type that are used over and over: the unexpected messages of a process.
// Owned by the caller, whose lock serialises the calls.  Memory is taken in slabs and kept until the pool ends, so that
// after the first storm no message allocates.  Invariants: every node is given back before the pool ends.
#pragma once
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace mpi_shim::match {

template <class Node>
class NodePool {
 public:
  /// `most` nodes can be out at a time: what bounds the memory of a flood.
  explicit NodePool(std::size_t most) noexcept : most_(most) {}
  NodePool(const NodePool&) = delete;
  NodePool& operator=(const NodePool&) = delete;

  /// A new node; null when `most` are out.
  template <class... Args>
  [[nodiscard]] Node* acquire(Args&&... args) {
    if (out_ == most_) return nullptr;
    if (free_ == nullptr) add_slab();
    Slot* slot = free_;
    free_ = slot->next;
    ++out_;
    return std::construct_at(reinterpret_cast<Node*>(slot->storage), std::forward<Args>(args)...);
  }

  /// Ends a node of this pool.
  void release(Node& node) noexcept {
    node.~Node();
    Slot* slot = std::construct_at(reinterpret_cast<Slot*>(&node));
    slot->next = free_;
    free_ = slot;
    --out_;
  }

  [[nodiscard]] std::size_t in_use() const noexcept { return out_; }

 private:
  static constexpr std::size_t kSlabNodes = 128;

  union Slot {
    Slot() noexcept : next(nullptr) {}
    Slot* next;
    alignas(Node) std::byte storage[sizeof(Node)];
  };

  void add_slab() {
    slabs_.push_back(std::make_unique<Slot[]>(kSlabNodes));
    for (std::size_t i = kSlabNodes; i-- > 0;) {
      slabs_.back()[i].next = free_;
      free_ = &slabs_.back()[i];
    }
  }

  std::vector<std::unique_ptr<Slot[]>> slabs_;
  Slot* free_ = nullptr;
  std::size_t out_ = 0;
  std::size_t most_;
};

}  // namespace mpi_shim::match
