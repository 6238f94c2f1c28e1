// SPDX-License-Identifier: Apache-2.0
// opal/btl/shared/rdma_operations.hpp — an initiator's one-sided operations under way, found by the name that their answers
// carry, and the flushes that wait for them.  A name is slot and generation, so a late or forged answer finds nothing.
// Owned by whoever posts them (the emulation, or a transport); slots are reused, so nothing is allocated once as many
// exist as are ever under way at once.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "opal/btl/memory_handle.hpp"
#include "opal/btl/post.hpp"
#include "opal/core/export.hpp"

namespace opal::btl {

class Endpoint;

struct RdmaOperation {
  enum class Kind : std::uint8_t { none, put, get, atomic };
  Kind kind = Kind::none;
  bool composite = false;  // made of others, which end it: see pipelined_transfers.hpp
  std::uint32_t slot = 0;
  std::uint32_t generation = 0;
  Endpoint* to = nullptr;
  Completion* completion = nullptr;
  const std::byte* source = nullptr;  // put
  std::byte* destination = nullptr;   // get
  std::uint64_t* result = nullptr;    // fetching atomic
  std::uint64_t base = 0;
  std::uint64_t total = 0;
  std::uint64_t moved = 0;  // put: handed to the transport; get: received
  std::uint64_t order = 0;  // of posting, for flush
  MemoryHandle handle;      // put: the caller's is only borrowed for the call
};

class OPAL_EXPORT RdmaOperations {
 public:
  static constexpr std::size_t kMost = 1024;  ///< under way at once per module

  /// A free operation, or null when kMost are under way.
  RdmaOperation* begin(RdmaOperation::Kind kind, Endpoint& to, Completion& completion) {
    if (free_.empty()) {
      if (slots_.size() == kMost) return nullptr;
      free_.push_back(static_cast<std::uint32_t>(slots_.size()));
      slots_.emplace_back().slot = free_.back();
    }
    RdmaOperation& operation = slots_[free_.back()];
    free_.pop_back();
    operation.kind = kind;
    operation.composite = false;
    operation.to = &to;
    operation.completion = &completion;
    operation.result = nullptr;
    operation.moved = 0;
    operation.order = ++posted_;
    ++active_;
    return &operation;
  }

  [[nodiscard]] std::uint64_t name_of(const RdmaOperation& operation) const noexcept {
    return (std::uint64_t{operation.generation} << 32) | operation.slot;
  }

  /// The operation under way that a peer's answer names, if it was posted to that very peer.
  RdmaOperation* find(std::uint64_t name, const Endpoint& from) noexcept {
    const std::uint64_t slot = name & 0xffffffffU;
    if (slot >= slots_.size()) return nullptr;
    RdmaOperation& operation = slots_[slot];
    const bool match =
        operation.kind != RdmaOperation::Kind::none && operation.to == &from && operation.generation == name >> 32;
    return match ? &operation : nullptr;
  }

  /// Frees the slot; the completion is the caller's to call.
  Completion& end(RdmaOperation& operation) {
    operation.kind = RdmaOperation::Kind::none;
    ++operation.generation;
    --active_;
    free_.push_back(operation.slot);
    return *operation.completion;
  }

  /// Frees the slot, calls the completion, and those of the flushes that waited for it.
  void finish(RdmaOperation& operation, const Error& why) noexcept;

  /// Completes when every put and atomic posted before on `to` (null: all endpoints) has finished.
  Post flush(const Endpoint* to, Completion& completion) noexcept;

  [[nodiscard]] std::size_t active() const noexcept { return active_; }
  std::deque<RdmaOperation>& slots() noexcept { return slots_; }

 private:
  struct Flush {
    const Endpoint* to;  // null: all
    std::uint64_t upto;
    Completion* completion;
  };
  [[nodiscard]] bool open_before(const Flush& flush) const noexcept;
  void check_flushes() noexcept;

  std::deque<RdmaOperation> slots_;  // stable addresses
  std::vector<std::uint32_t> free_;
  std::uint64_t posted_ = 0;
  std::size_t active_ = 0;
  std::vector<Flush> flushes_;
};

}  // namespace opal::btl
