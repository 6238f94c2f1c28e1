// SPDX-License-Identifier: Apache-2.0
// opal/btl/shared/rdma_operations.hpp — the one-sided operations that a module has in flight, whatever carries them:
// messages (the emulation), a device, or pieces that are operations themselves.  One table, so one flush waits for all
// of them.  docs/design/transfers.md.
// A peer's answer names an operation by slot and generation, so a late or forged answer finds nothing.
// Owned by a module, or by a Context for staged transfers.  Slots are reused: nothing is allocated once as many exist
// as are ever in flight at once.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "opal/btl/memory_handle.hpp"
#include "opal/btl/post.hpp"
#include "opal/core/export.hpp"

namespace opal::btl {

class Endpoint;

struct RdmaOperation {
  enum class Kind : std::uint8_t { none, put, get, atomic };
  Kind kind = Kind::none;
  std::uint32_t slot = 0;
  std::uint32_t generation = 0;
  const void* carrier = nullptr;  // the object that moves it: only this object ends it
  Endpoint* to = nullptr;
  Completion* completion = nullptr;
  std::byte* local = nullptr;       // put: the source, which is only read; get: the destination
  std::uint64_t* result = nullptr;  // fetching atomic
  std::uint64_t base = 0;           // remote address
  std::uint64_t total = 0;
  std::uint64_t moved = 0;  // handed to the transport, or to pieces; get by messages: received
  std::uint64_t order = 0;  // of posting, for flush
  MemoryHandle handle;      // remote; a copy, since the caller's is only borrowed for the call

  // Of operations in pieces (transfer_engine.hpp).
  bool has_local_handle = false;
  bool posting = false;      // its pieces are being posted
  std::uint32_t pieces = 0;  // that have not ended
  MemoryHandle local_handle;
  Error error{};  // the first of its pieces

  [[nodiscard]] bool is_put() const noexcept { return kind == Kind::put; }
  [[nodiscard]] bool failed() const noexcept { return error.code != Errc{}; }
};

class OPAL_EXPORT RdmaOperations {
 public:
  static constexpr std::size_t kMost = 1024;  ///< in flight at once per module

  /// A free operation, or null when kMost are in flight.
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

  [[nodiscard]] std::uint64_t name_of(const RdmaOperation& operation) const noexcept {
    return (std::uint64_t{operation.generation} << 32) | operation.slot;
  }

  /// The operation that a peer's answer names, if `carrier` moves it and it was posted to that very peer.
  RdmaOperation* find(std::uint64_t name, const Endpoint& from, const void* carrier) noexcept {
    const std::uint64_t slot = name & 0xffffffffU;
    if (slot >= slots_.size()) return nullptr;
    RdmaOperation& operation = *slots_[slot];
    const bool match = operation.kind != RdmaOperation::Kind::none && operation.to == &from &&
                       operation.carrier == carrier && operation.generation == name >> 32;
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

  /// Calls visit(operation) for each that `carrier` moves for `endpoint`.  `visit` may finish the operation, and the
  /// completion may post elsewhere.
  template <class Visit>
  void for_each(const Endpoint& endpoint, const void* carrier, Visit visit) noexcept {
    for (std::size_t slot = 0; slot < slots_.size(); ++slot) {  // by index: a post may add slots
      RdmaOperation& operation = *slots_[slot];
      if (operation.kind == RdmaOperation::Kind::none || operation.carrier != carrier) continue;
      if (operation.to == &endpoint) visit(operation);
    }
  }

  [[nodiscard]] std::size_t active() const noexcept { return active_; }
  /// How many of them `carrier` moves.  Looks at every slot.
  [[nodiscard]] std::size_t active(const void* carrier) const noexcept;

 private:
  struct Flush {
    const Endpoint* to;  // null: all
    std::uint64_t upto;
    Completion* completion;
  };
  [[nodiscard]] bool open_before(const Flush& flush) const noexcept;
  void check_flushes() noexcept;

  std::vector<std::unique_ptr<RdmaOperation>> slots_;  // a module without operations holds no memory for them
  std::vector<std::uint32_t> free_;
  std::uint64_t posted_ = 0;
  std::size_t active_ = 0;
  std::vector<Flush> flushes_;
};

}  // namespace opal::btl
