// SPDX-License-Identifier: Apache-2.0
#include "opal/am/transports/staged_transfers.hpp"

#include <algorithm>
#include <new>
#include <optional>
#include <utility>

#include "opal/btl/shared/registrations/claims.hpp"
#include "opal/gpu/context.hpp"

namespace opal::am {

/// A chunk of pinned memory, and the piece of a transfer that uses it.
struct StagedTransfers::Chunk : btl::TransferPiece {
  enum class Next : std::uint8_t { copy, post };
  std::byte* data = nullptr;
  Next next = Next::copy;
  bool copying = false;
};

StagedTransfers::StagedTransfers(const gpu::Config& config)
    : TransferEngine(table_), config_(config), copier_(config) {}
StagedTransfers::~StagedTransfers() = default;

Result<void> StagedTransfers::make_chunks() noexcept try {
  if (!chunks_.empty()) return {};
  const auto each = static_cast<std::size_t>(config_.stage_chunk.bytes);
  OPAL_TRY_ASSIGN(memory_, gpu::StagingMemory::make(each * config_.stage_chunks));
  free_.reserve(config_.stage_chunks);
  chunks_.resize(config_.stage_chunks);
  for (std::size_t i = 0; i < chunks_.size(); ++i) {
    Chunk& chunk = chunks_[i];
    chunk.data = memory_.pages.data() + i * each;
    free_.push_back(&chunk);
  }
  return {};
} catch (const std::bad_alloc&) {
  return Error{Errc::no_memory, 0, "StagedTransfers: chunks", config_.stage_chunks};
}

Post StagedTransfers::transfer(Kind kind, btl::Endpoint& to, std::byte* here, std::uint64_t remote_address,
                               const MemoryHandle& remote, std::uint64_t size, Completion& completion) noexcept {
  if (to.dead()) return btl::refuse(completion, to.error());
  if (&to == leaving_) return btl::refuse(completion, {Errc::canceled, 0, "am: disconnected"});
  if (const auto made = make_chunks(); !made) return btl::refuse(completion, made.error());
  if (size == 0) {  // the transport checks the bounds
    return to.module().transfer(kind, to, memory_.pages.data(), nullptr, remote_address, remote, 0, completion);
  }
  const auto memory = gpu::inspect(here);
  if (!memory) return btl::refuse(completion, memory.error());
  gpu::make_synchronous(*memory);
  auto context = gpu::WorkContext::of(*memory);
  if (!context) return btl::refuse(completion, context.error());
  btl::RdmaOperation* const operation = begin(kind, to, here, nullptr, remote_address, remote, size, completion);
  if (operation == nullptr) return Post::again;
  if (contexts_.size() <= operation->slot) contexts_.resize(operation->slot + 1);
  contexts_[operation->slot].emplace(std::move(*context));
  unplanned_.push_back(operation);
  // progress() starts the work: the completion must not run before this post has returned `queued`.
  return Post::queued;
}

std::size_t StagedTransfers::work() noexcept {
  std::size_t count = copier_.progress() + retry();
  while (!unplanned_.empty() && !free_.empty()) {
    btl::RdmaOperation& operation = *unplanned_.front();
    unplanned_.pop_front();
    if (operation.failed()) continue;  // it ends when its chunks in flight have ended
    // One chunk per operation in turn, so that a small transfer does not wait for all of a large one.
    if (operation.total - operation.moved > config_.stage_chunk.bytes) unplanned_.push_back(&operation);
    turn_ = &operation;
    advance(operation);
    ++count;
  }
  return count;
}

btl::TransferPiece* StagedTransfers::take(btl::RdmaOperation& operation) noexcept {
  if (std::exchange(turn_, nullptr) != &operation) return nullptr;
  Chunk* const chunk = free_.back();
  free_.pop_back();
  chunk->next = operation.is_put() ? Chunk::Next::copy : Chunk::Next::post;
  return chunk;
}

std::uint64_t StagedTransfers::plan(const btl::RdmaOperation& /*operation*/, std::uint64_t /*offset*/,
                                    std::uint64_t left) const noexcept {
  return std::min(config_.stage_chunk.bytes, left);
}

std::uint64_t StagedTransfers::queue_of(const Chunk& chunk) const noexcept {
  return static_cast<std::uint64_t>(&chunk - chunks_.data());
}

StagedTransfers::Move StagedTransfers::move(btl::TransferPiece& piece) noexcept {
  auto& chunk = static_cast<Chunk&>(piece);
  if (chunk.next == Chunk::Next::copy) return copy(chunk);
  const btl::RdmaOperation& operation = *chunk.operation;
  const Move outcome = outcome_of(chunk, post(chunk, *operation.to, chunk.data, nullptr, operation.handle));
  const bool arrived = outcome == Move::ended && !operation.failed() && !operation.is_put();
  return arrived ? copy(chunk) : outcome;
}

/// Copies between chunk and GPU.
StagedTransfers::Move StagedTransfers::copy(Chunk& chunk) noexcept {
  const btl::RdmaOperation& operation = *chunk.operation;
  const gpu::Copier::Done done{[](void* user, const Result<void>& result) noexcept {
                                 auto& chunk = *static_cast<Chunk*>(user);
                                 auto& owner = static_cast<StagedTransfers&>(*chunk.engine);
                                 owner.proceed(chunk, owner.copied(chunk, result));
                               },
                               &chunk};
  std::byte* to = chunk.local();
  std::byte* from = chunk.data;
  if (operation.is_put()) std::swap(to, from);
  const auto started = copier_.copy(contexts_[operation.slot]->handle(), queue_of(chunk), to, from, chunk.size, done);
  chunk.next = Chunk::Next::copy;
  chunk.copying = static_cast<bool>(started);
  if (started) return Move::in_flight;
  return started.error().code == Errc::busy ? Move::held : copied(chunk, started);
}

StagedTransfers::Move StagedTransfers::copied(Chunk& chunk, const Result<void>& result) noexcept {
  btl::RdmaOperation& operation = *chunk.operation;
  chunk.copying = false;
  if (!result) fail(operation, result.error());
  if (operation.failed() || !operation.is_put()) return Move::ended;
  chunk.next = Chunk::Next::post;
  return move(chunk);
}

/// Posts the put or get between chunk and peer.
StagedTransfers::Move StagedTransfers::moved(btl::TransferPiece& piece) noexcept {
  btl::RdmaOperation& operation = *piece.operation;
  if (!piece.ok()) fail(operation, piece.error);
  return operation.failed() || operation.is_put() ? Move::ended : copy(static_cast<Chunk&>(piece));
}

void StagedTransfers::release(btl::TransferPiece& piece) noexcept { free_.push_back(&static_cast<Chunk&>(piece)); }

void StagedTransfers::end(btl::RdmaOperation& operation) noexcept {
  contexts_[operation.slot].reset();
  if (operation.failed()) std::erase(unplanned_, &operation);
}

void StagedTransfers::disconnecting(btl::Endpoint& endpoint, const Error& why) noexcept {
  leaving_ = &endpoint;
  abandon(endpoint, why);
}

void StagedTransfers::abandon(btl::Endpoint& endpoint, const Error& why) noexcept {
  fail(endpoint, why);
  // A chunk is free only when the GPU's copy is complete.
  copier_.progress_until([&] {
    return std::ranges::none_of(chunks_,
                                [&](const Chunk& chunk) { return chunk.copying && chunk.operation->to == &endpoint; });
  });
  TransferEngine::abandon(endpoint, why);
}

}  // namespace opal::am
