// SPDX-License-Identifier: Apache-2.0
// opal/btl/shared/transfer_engine.hpp — one-sided operations that move in pieces.  The engine plans the pieces, posts
// them, holds those that meet back-pressure and posts them again, and ends the operation exactly once: with its first
// error, when none of its pieces is in flight.  A back end derives from it, owns the pieces, and bounds and moves them.
// docs/design/transfers.md.
// Owned as a part of its back end.  Threads: as the operations' owner.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>

#include "opal/btl/shared/rdma_operations.hpp"
#include "opal/core/export.hpp"

namespace opal::btl {

class RdmaEmulation;
class TransferEngine;

/// A piece of an operation, and the completion of the post that moves it.
struct OPAL_EXPORT TransferPiece : Completion {
  TransferPiece() noexcept;
  [[nodiscard]] std::byte* local() const noexcept { return operation->local + offset; }
  [[nodiscard]] std::uint64_t remote() const noexcept { return operation->base + offset; }

  TransferEngine* engine = nullptr;
  RdmaOperation* operation = nullptr;  // null: the piece is free
  std::uint64_t offset = 0;            // in the operation
  std::uint64_t size = 0;
};

class OPAL_EXPORT TransferEngine {
 public:
  /// Operations in pieces of one engine.  At most two engines share a table, so half of its slots are left for the
  /// operations that pieces are made of.
  static constexpr std::size_t kMost = RdmaOperations::kMost / 4;

  TransferEngine(const TransferEngine&) = delete;
  TransferEngine& operator=(const TransferEngine&) = delete;

  /// True when no piece waits for retry().
  [[nodiscard]] bool idle() const noexcept { return held_.empty(); }
  [[nodiscard]] std::size_t active() const noexcept { return active_; }

 protected:
  /// What has become of a piece.
  enum class Move : std::uint8_t {
    in_flight,  ///< its completion, or the back end, goes on with it
    held,       ///< back-pressure: retry() moves it again
    ended,      ///< with or without an error of its operation
  };

  explicit TransferEngine(RdmaOperations& operations) noexcept : operations_(operations) {}
  ~TransferEngine() = default;

  /// An operation of which nothing moves yet.  Null: as many are in flight as may be.
  RdmaOperation* begin(RdmaOperation::Kind kind, Endpoint& to, std::byte* local, const MemoryHandle* local_handle,
                       std::uint64_t remote_address, const MemoryHandle& remote, std::uint64_t size,
                       Completion& completion) noexcept;
  /// Posts what it can of an operation just begun.  Returns the answer of the operation's post.
  [[nodiscard]] Post start(RdmaOperation& operation) noexcept;
  /// Plans and posts more pieces; ends the operation when nothing is left.
  void advance(RdmaOperation& operation) noexcept;
  /// Goes on with a piece that was in flight, by what has become of it.
  void proceed(TransferPiece& piece, Move outcome) noexcept;
  /// Moves every held piece once more; returns how many are no longer held.
  std::size_t retry() noexcept;
  void hold(TransferPiece& piece) noexcept { held_.push_back(&piece); }

  /// Records the operation's first error.  Its held pieces then end without moving.
  static void fail(RdmaOperation& operation, const Error& why) noexcept;
  void fail(const Endpoint& endpoint, const Error& why) noexcept;
  /// Ends the operations on `endpoint` with `why`: at once, or with their pieces in flight.
  void abandon(const Endpoint& endpoint, const Error& why) noexcept;

  /// The operation of this engine that a peer's answer names; null: none.
  RdmaOperation* find(std::uint64_t name, const Endpoint& from) noexcept { return operations_.find(name, from, this); }

  /// Posts the piece as a put or get, of `to` or by messages.
  static Post post(TransferPiece& piece, Endpoint& to, std::byte* local, const MemoryHandle* registered,
                   const MemoryHandle& remote) noexcept;
  static Post post(TransferPiece& piece, RdmaEmulation& messages, const MemoryHandle& remote) noexcept;
  /// What has become of a piece by the answer of its post.
  static Move outcome_of(TransferPiece& piece, Post post) noexcept;

  RdmaOperations& operations_;

 private:
  friend struct TransferPiece;

  // The back end.
  /// A free piece for the operation; null: it has as many as it may have.
  virtual TransferPiece* take(RdmaOperation& operation) noexcept = 0;
  /// Bytes of the piece at `offset`, 1 to `left`.
  [[nodiscard]] virtual std::uint64_t plan(const RdmaOperation& operation, std::uint64_t offset,
                                           std::uint64_t left) const noexcept = 0;
  virtual Move move(TransferPiece& piece) noexcept = 0;
  /// The piece's post has completed.
  virtual Move moved(TransferPiece& piece) noexcept;
  /// The piece has ended: gives back what it holds, and the piece.
  virtual void release(TransferPiece& piece) noexcept = 0;
  /// The operation ends now.
  virtual void end(RdmaOperation& /*operation*/) noexcept {}

  [[nodiscard]] bool post_pieces(RdmaOperation& operation) noexcept;
  void settle(TransferPiece& piece, Move outcome) noexcept;

  std::size_t active_ = 0;
  std::deque<TransferPiece*> held_;  // oldest first; retry() takes them from the front
};

}  // namespace opal::btl
