// SPDX-License-Identifier: Apache-2.0
// opal/btl/shared/transfer_engine.hpp — one-sided operations that move in pieces.  docs/design/transfers.md.
// The engine plans and posts the pieces.  Under back-pressure it holds a piece and posts it again in retry().  It ends
// each operation exactly once, when none of its pieces is in flight, with the first error of a piece.
// A back end derives from it, owns the pieces, limits their number, and posts them.
// Threads: as the owner of the RdmaOperations.
#pragma once
#include <cstddef>
#include <cstdint>
#include <list>

#include "opal/btl/shared/rdma_operations.hpp"
#include "opal/core/export.hpp"

namespace opal::btl {

class RdmaEmulation;
class TransferEngine;

/// A piece of an operation.  It is the completion of the post that moves it.
struct OPAL_EXPORT TransferPiece : Completion {
  TransferPiece() noexcept;
  [[nodiscard]] std::byte* local() const noexcept { return operation->local + offset; }
  [[nodiscard]] std::uint64_t remote() const noexcept { return operation->base + offset; }

  TransferEngine* engine = nullptr;
  RdmaOperation* operation = nullptr;  // null: the piece is free
  std::uint64_t offset = 0;            // from the operation's first byte
  std::uint64_t size = 0;
};

class OPAL_EXPORT TransferEngine {
 public:
  /// Most operations of one engine in flight.  At most two engines share a table, so half of its slots stay free for
  /// the operations that move the pieces.
  static constexpr std::size_t kMost = RdmaOperations::kMost / 4;

  TransferEngine(const TransferEngine&) = delete;
  TransferEngine& operator=(const TransferEngine&) = delete;

  /// True when no piece waits for retry().
  [[nodiscard]] bool idle() const noexcept { return held_.empty(); }
  /// Number of operations of this engine in flight.
  [[nodiscard]] std::size_t active() const noexcept { return active_; }

 protected:
  /// The state of a piece after a step.
  enum class Move : std::uint8_t {
    in_flight,  ///< its completion, or the back end, calls proceed() later
    held,       ///< back-pressure: retry() calls move() again
    ended,      ///< it has moved, or its operation has an error: fail() was called
  };

  explicit TransferEngine(RdmaOperations& operations) noexcept : operations_(operations) {}
  ~TransferEngine() = default;

  /// Makes an operation without pieces.  Null: kMost are in flight, or the table is full; the post returns `again`.
  RdmaOperation* begin(RdmaOperation::Kind kind, Endpoint& to, std::byte* local, const MemoryHandle* local_handle,
                       std::uint64_t remote_address, const MemoryHandle& remote, std::uint64_t size,
                       Completion& completion) noexcept;
  /// Posts the first pieces of an operation that begin() has made.  Returns the result of the operation's post.
  [[nodiscard]] Post start(RdmaOperation& operation) noexcept;
  /// Plans and posts more pieces.  Ends the operation if none is in flight and none is left to post.
  void advance(RdmaOperation& operation) noexcept;
  /// Continues after a piece that was in flight: `outcome` is its new state.
  void proceed(TransferPiece& piece, Move outcome) noexcept;
  /// Calls move() once for every held piece; returns how many are no longer held.
  std::size_t retry() noexcept;
  void hold(TransferPiece& piece) noexcept { held_.push_back(&piece); }

  /// Records the error of the operation, unless it has one.  Its held pieces then end without being posted.
  static void fail(RdmaOperation& operation, const Error& why) noexcept;
  /// The same for every operation on `endpoint`.
  void fail(const Endpoint& endpoint, const Error& why) noexcept;
  /// Ends the operations on `endpoint` with `why`: at once, or when their pieces in flight have ended.
  void abandon(const Endpoint& endpoint, const Error& why) noexcept;

  /// The operation of this engine with the name in an answer of the peer; null: none.
  RdmaOperation* find(std::uint64_t name, const Endpoint& from) noexcept { return operations_.find(name, from, this); }

  /// Posts the piece as a put or get: on the endpoint `to`, or by the emulation `messages`.
  static Post post(TransferPiece& piece, Endpoint& to, std::byte* local, const MemoryHandle* registered,
                   const MemoryHandle& remote) noexcept;
  static Post post(TransferPiece& piece, RdmaEmulation& messages, const MemoryHandle& remote) noexcept;
  /// Converts the result of a piece's post; after `failed` it also records the error.
  static Move outcome_of(TransferPiece& piece, Post post) noexcept;

  RdmaOperations& operations_;

 private:
  friend struct TransferPiece;

  // Implemented by the back end.
  /// Returns a free piece for the operation; null: the operation has as many pieces as the back end allows.
  virtual TransferPiece* take(RdmaOperation& operation) noexcept = 0;
  /// Returns the size of the piece at `offset` in bytes, 1 to `left`.
  [[nodiscard]] virtual std::uint64_t plan(const RdmaOperation& operation, std::uint64_t offset,
                                           std::uint64_t left) const noexcept = 0;
  /// Does the next step of the piece, as a rule its post.
  virtual Move move(TransferPiece& piece) noexcept = 0;
  /// The piece's post has completed; piece.error is set.  Default: records an error; the piece has ended.
  virtual Move moved(TransferPiece& piece) noexcept;
  /// The piece has ended: releases its registrations and makes it free.
  virtual void release(TransferPiece& piece) noexcept = 0;
  /// The operation ends; its completion runs next.
  virtual void end(RdmaOperation& /*operation*/) noexcept {}

  [[nodiscard]] bool post_pieces(RdmaOperation& operation) noexcept;
  void settle(TransferPiece& piece, Move outcome) noexcept;

  std::size_t active_ = 0;
  std::list<TransferPiece*> held_;  // oldest first; retry() takes them from the front.  Small while it is empty
};

}  // namespace opal::btl
