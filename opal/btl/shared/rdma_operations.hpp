// SPDX-License-Identifier: Apache-2.0
// opal/btl/shared/rdma_operations.hpp — the table of the one-sided operations that a module has in flight, so that one
// flush waits for all of them.  The carrier moves an operation: the emulation by messages, a device, a TransferEngine
// by operations of a module, or a HelpedInitiator.  docs/design/transfers.md.
// A peer's answer names an operation by slot and generation, so a late answer finds nothing.
// Owned by a module, or by a Context for staged transfers.  Threads: as the owner.
// Slots are reused: memory is allocated only when more operations are in flight than ever before.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "opal/btl/memory_handle.hpp"
#include "opal/btl/module.hpp"
#include "opal/btl/post.hpp"
#include "opal/core/export.hpp"

namespace opal::btl {

struct RdmaOperation {
  using Kind = OperationKind;
  Kind kind = Kind::none;  // none: the slot is free
  std::uint32_t slot = 0;
  std::uint32_t generation = 0;
  const void* carrier = nullptr;  // the object that moves it; compared only.  Only this object ends it
  Endpoint* to = nullptr;
  Completion* completion = nullptr;
  std::byte* local = nullptr;       // put: the source, which is only read; get: the destination
  std::uint64_t* result = nullptr;  // atomic: receives the old value; null: not wanted
  std::uint64_t base = 0;           // remote address
  std::uint64_t total = 0;          // bytes
  std::uint64_t moved = 0;          // bytes given to the transport or to pieces; of an emulated get: received
  std::uint64_t order = 0;          // number of the post in this table, from 1, for flush()
  MemoryHandle handle;              // remote; a copy of the caller's

  // Only of operations in pieces (transfer_engine.hpp).
  bool has_local_handle = false;
  bool posting = false;      // TransferEngine::post_pieces() runs for it
  std::uint32_t pieces = 0;  // pieces that have not ended
  MemoryHandle local_handle;
  Error error{};  // the first error of a piece

  [[nodiscard]] bool is_put() const noexcept { return kind == Kind::put; }
  [[nodiscard]] bool failed() const noexcept { return error.code != Errc{}; }
};

class OPAL_EXPORT RdmaOperations {
 public:
  static constexpr std::size_t kMost = 1024;  ///< in flight at once per module

  /// Takes a free slot for an operation.  Sets the parameters and `order`, and clears `result`, `moved` and `error`.
  /// Other members keep old values: the caller sets those that it uses.  Null: kMost operations are in flight.
  RdmaOperation* begin(RdmaOperation::Kind kind, Endpoint& to, Completion& completion, const void* carrier) {
    if (free_.empty()) {
      if (slots_.size() == kMost) return nullptr;
      free_.push_back(static_cast<std::uint32_t>(slots_.size()));
      slots_.push_back(std::make_unique<RdmaOperation>());
      slots_.back()->slot = free_.back();
    }
    RdmaOperation& operation = *slots_[free_.back()];
    free_.pop_back();
    operation.kind = kind;
    operation.carrier = carrier;
    operation.to = &to;
    operation.completion = &completion;
    operation.result = nullptr;
    operation.moved = 0;
    operation.error = {};
    operation.order = ++posted_;
    ++active_;
    return &operation;
  }

  /// The name by which a peer's answer refers to the operation.
  [[nodiscard]] std::uint64_t name_of(const RdmaOperation& operation) const noexcept {
    return (std::uint64_t{operation.generation} << 32) | operation.slot;
  }

  /// The operation with this name; null unless `carrier` moves it and it was posted on `from`.
  RdmaOperation* find(std::uint64_t name, const Endpoint& from, const void* carrier) noexcept {
    const std::uint64_t slot = name & 0xffffffffU;
    if (slot >= slots_.size()) return nullptr;
    RdmaOperation& operation = *slots_[slot];
    const bool match = operation.kind != RdmaOperation::Kind::none && operation.to == &from &&
                       operation.carrier == carrier && operation.generation == name >> 32;
    return match ? &operation : nullptr;
  }

  /// Frees the slot and returns the completion, which the caller finishes.  Does not check flushes.
  Completion& end(RdmaOperation& operation) {
    if (!flushes_.empty()) [[unlikely]]
      tell_flushes(operation);
    operation.kind = RdmaOperation::Kind::none;
    ++operation.generation;
    --active_;
    free_.push_back(operation.slot);
    return *operation.completion;
  }

  /// Frees the slot, finishes its completion with `why`, and completes the flushes that waited for it alone.
  void finish(RdmaOperation& operation, const Error& why) noexcept;

  /// Completes when every put and atomic posted before on `to` (null: on any endpoint) has ended.  Cost: a scan of all
  /// slots, once.
  /// Returns `done` or `queued`.
  Post flush(const Endpoint* to, Completion& completion) noexcept;

  /// Calls visit(operation) for each operation that `carrier` moves on `endpoint`.  `visit` may finish the operation,
  /// and its completion may post on other endpoints.
  template <class Visit>
  void for_each(const Endpoint& endpoint, const void* carrier, Visit visit) noexcept {
    for (std::size_t slot = 0; slot < slots_.size(); ++slot) {  // by index: a post may add slots
      RdmaOperation& operation = *slots_[slot];
      if (operation.kind == RdmaOperation::Kind::none || operation.carrier != carrier) continue;
      if (operation.to == &endpoint) visit(operation);
    }
  }

  /// Number of operations in flight.
  [[nodiscard]] std::size_t active() const noexcept { return active_; }
  /// Number of operations that `carrier` moves.  Cost: a scan of all slots.
  [[nodiscard]] std::size_t active(const void* carrier) const noexcept;

 private:
  struct Flush {
    const Endpoint* to;  // null: all
    std::uint64_t upto;  // waits for operations whose `order` is not higher
    std::size_t open;    // such operations that are in flight
    Completion* completion;
  };
  [[nodiscard]] static bool is_awaited(const RdmaOperation& operation, const Flush& flush) noexcept;
  void tell_flushes(const RdmaOperation& ended) noexcept;
  void check_flushes() noexcept;

  std::vector<std::unique_ptr<RdmaOperation>> slots_;  // grows on demand
  std::vector<std::uint32_t> free_;
  std::uint64_t posted_ = 0;  // operations ever begun
  std::size_t active_ = 0;
  std::vector<Flush> flushes_;
};

}  // namespace opal::btl
