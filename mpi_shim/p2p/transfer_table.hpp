// SPDX-License-Identifier: Apache-2.0
// mpi_shim/p2p/transfer_table.hpp — numbers for transfers of this process, which it sends to peers.  Peers return them
// in answers, and find() checks them, so bytes from a peer never become pointers.  A number is a slot index and a
// generation: find() does not find a removed transfer.  Borrows the transfers.  Threads: under the Context's lock.
#pragma once
#include <cstdint>
#include <vector>

namespace mpi_shim::p2p {

template <class T>
class TransferTable {
 public:
  /// A new number for `transfer`, not 0; valid until remove().
  std::uint64_t add(T& transfer) {
    if (free_.empty()) {
      free_.push_back(static_cast<std::uint32_t>(slots_.size()));
      slots_.push_back({});
    }
    const std::uint32_t index = free_.back();
    free_.pop_back();
    Slot& slot = slots_[index];
    slot.transfer = &transfer;
    return (std::uint64_t{slot.generation} << 32) | index;
  }

  /// Null when the number is unused.
  [[nodiscard]] T* find(std::uint64_t id) const noexcept {
    const std::uint64_t index = id & 0xffffffffU;
    if (index >= slots_.size() || slots_[index].generation != id >> 32) return nullptr;
    return slots_[index].transfer;
  }

  /// Does nothing for an unused number.
  void remove(std::uint64_t id) {
    if (find(id) == nullptr) return;
    Slot& slot = slots_[id & 0xffffffffU];
    slot.transfer = nullptr;
    if (++slot.generation == 0) slot.generation = 1;
    free_.push_back(static_cast<std::uint32_t>(id & 0xffffffffU));
  }

  [[nodiscard]] bool empty() const noexcept { return free_.size() == slots_.size(); }

  /// Calls `visit(T&)` for every transfer; visit may remove the transfer that it is called for.
  template <class Visit>
  void for_each(Visit&& visit) {
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      if (slots_[i].transfer != nullptr) visit(*slots_[i].transfer);
    }
  }

 private:
  struct Slot {
    T* transfer = nullptr;
    std::uint32_t generation = 1;  // grows with each remove(); never 0, so that no number is 0
  };
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> free_;
};

}  // namespace mpi_shim::p2p
