// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/shared/transfer_engine.hpp"

#include <utility>

#include "opal/btl/module.hpp"
#include "opal/btl/shared/rdma_emulation.hpp"

namespace opal::btl {

TransferPiece::TransferPiece() noexcept {
  fn = [](Completion& self) noexcept {
    auto& piece = static_cast<TransferPiece&>(self);
    piece.engine->proceed(piece, piece.engine->moved(piece));
  };
}

RdmaOperation* TransferEngine::begin(RdmaOperation::Kind kind, Endpoint& to, std::byte* local,
                                     const MemoryHandle* local_handle, std::uint64_t remote_address,
                                     const MemoryHandle& remote, std::uint64_t size, Completion& completion) noexcept {
  RdmaOperation* const operation = active_ < kMost ? operations_.begin(kind, to, completion, this) : nullptr;
  if (operation == nullptr) return nullptr;
  ++active_;
  completion.error = {};
  operation->local = local;
  operation->has_local_handle = local_handle != nullptr;
  if (local_handle != nullptr) operation->local_handle = *local_handle;
  operation->base = remote_address;
  operation->handle = remote;
  operation->total = size;
  operation->pieces = 0;
  return operation;
}

Post TransferEngine::start(RdmaOperation& operation) noexcept {
  if (post_pieces(operation)) return Post::queued;
  Completion& completion = operations_.end(operation);
  completion.error = operation.error;
  return completion.ok() ? Post::done : Post::failed;
}

void TransferEngine::advance(RdmaOperation& operation) noexcept {
  if (post_pieces(operation)) return;
  operations_.finish(operation, operation.error);
}

/// Plans and posts pieces.  False: the operation has ended for this engine; the caller ends it in the table.
bool TransferEngine::post_pieces(RdmaOperation& operation) noexcept {
  if (std::exchange(operation.posting, true)) return true;  // nested call: a piece has ended within its post below
  while (!operation.failed() && operation.moved < operation.total) {
    TransferPiece* const piece = take(operation);
    if (piece == nullptr) break;
    piece->engine = this;
    piece->operation = &operation;
    piece->offset = operation.moved;
    piece->size = plan(operation, piece->offset, operation.total - piece->offset);
    operation.moved += piece->size;
    ++operation.pieces;
    settle(*piece, move(*piece));
  }
  operation.posting = false;
  if (operation.pieces != 0 || (!operation.failed() && operation.moved < operation.total)) return true;
  end(operation);
  --active_;
  return false;
}

void TransferEngine::settle(TransferPiece& piece, Move outcome) noexcept {
  if (outcome == Move::held) hold(piece);
  if (outcome != Move::ended) return;
  release(piece);
  --std::exchange(piece.operation, nullptr)->pieces;
}

void TransferEngine::proceed(TransferPiece& piece, Move outcome) noexcept {
  RdmaOperation& operation = *piece.operation;
  settle(piece, outcome);
  if (outcome == Move::ended) advance(operation);
}

std::size_t TransferEngine::retry() noexcept {
  std::size_t count = 0;
  for (std::size_t left = held_.size(); left > 0 && !held_.empty(); --left) {  // a piece held again goes to the end
    TransferPiece& piece = *held_.front();
    held_.pop_front();
    const Move outcome = piece.operation->failed() ? Move::ended : move(piece);
    count += outcome != Move::held ? 1 : 0;
    proceed(piece, outcome);
  }
  return count;
}

TransferEngine::Move TransferEngine::moved(TransferPiece& piece) noexcept {
  if (!piece.ok()) fail(*piece.operation, piece.error);
  return Move::ended;
}

void TransferEngine::fail(RdmaOperation& operation, const Error& why) noexcept {
  if (!operation.failed()) operation.error = why;
}

void TransferEngine::fail(const Endpoint& endpoint, const Error& why) noexcept {
  operations_.for_each(endpoint, this, [&](RdmaOperation& operation) { fail(operation, why); });
}

void TransferEngine::abandon(const Endpoint& endpoint, const Error& why) noexcept {
  fail(endpoint, why);
  operations_.for_each(endpoint, this, [&](RdmaOperation& operation) {
    std::erase_if(held_, [&](TransferPiece* piece) {
      if (piece->operation != &operation) return false;
      settle(*piece, Move::ended);
      return true;
    });
    advance(operation);
  });
}

Post TransferEngine::post(TransferPiece& piece, Endpoint& to, std::byte* local, const MemoryHandle* registered,
                          const MemoryHandle& remote) noexcept {
  piece.error = {};
  return to.module().transfer(piece.operation->kind, to, local, registered, piece.remote(), remote, piece.size, piece);
}

Post TransferEngine::post(TransferPiece& piece, RdmaEmulation& messages, const MemoryHandle& remote) noexcept {
  piece.error = {};
  const RdmaOperation& operation = *piece.operation;
  return messages.transfer(operation.kind, *operation.to, piece.local(), piece.remote(), remote, piece.size, piece);
}

TransferEngine::Move TransferEngine::outcome_of(TransferPiece& piece, Post post) noexcept {
  if (post == Post::queued) return Move::in_flight;
  if (post == Post::again) return Move::held;
  if (post == Post::failed) fail(*piece.operation, piece.error);
  return Move::ended;
}

}  // namespace opal::btl
