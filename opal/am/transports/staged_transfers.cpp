// SPDX-License-Identifier: Apache-2.0
#include "opal/am/transports/staged_transfers.hpp"

#include <algorithm>
#include <new>
#include <optional>
#include <utility>

#include "opal/gpu/context.hpp"

namespace opal::am {

struct StagedTransfers::Transfer {
  btl::RdmaOperation* operation = nullptr;
  std::byte* here = nullptr;
  std::uint64_t remote_address = 0;
  MemoryHandle remote;
  std::uint64_t size = 0;
  std::uint64_t started = 0;  // bytes that have or had a chunk
  std::size_t under_way = 0;  // chunks
  Error error{};
  std::optional<gpu::WorkContext> work;

  [[nodiscard]] bool is_put() const noexcept { return operation->kind == Kind::put; }
  [[nodiscard]] bool failed() const noexcept { return error.code != Errc{}; }
};

/// A piece of pinned memory, and the piece of a transfer that is in it.  A Completion of the transport's half.
struct StagedTransfers::Chunk : Completion {
  enum class Next : std::uint8_t { copy, post };
  StagedTransfers* owner = nullptr;
  std::byte* data = nullptr;
  Transfer* transfer = nullptr;
  std::uint64_t offset = 0;  // in the transfer
  std::uint64_t size = 0;
  Next next = Next::copy;  // while it is held up
  bool copying = false;
  bool lost = false;  // a copy from or to it did not end: it is the device's
};

StagedTransfers::StagedTransfers(const gpu::Config& config) : config_(config), copier_(config) {}
StagedTransfers::~StagedTransfers() = default;

Result<void> StagedTransfers::make_chunks() noexcept try {
  if (!chunks_.empty()) return {};
  const auto each = static_cast<std::size_t>(config_.stage_chunk.bytes);
  OPAL_TRY(memory_.make(each * config_.stage_chunks));
  free_.reserve(config_.stage_chunks);
  held_up_.reserve(config_.stage_chunks);
  queues_.reserve(config_.stage_chunks);
  chunks_.resize(config_.stage_chunks);
  for (std::size_t i = 0; i < chunks_.size(); ++i) {
    Chunk& chunk = chunks_[i];
    chunk.owner = this;
    chunk.data = memory_.data() + i * each;
    chunk.fn = [](Completion& self) noexcept {
      auto& ended = static_cast<Chunk&>(self);
      ended.owner->moved(ended);
    };
    free_.push_back(&chunk);
  }
  return {};
} catch (const std::bad_alloc&) {
  return Error{Errc::no_memory, 0, "StagedTransfers: chunks", config_.stage_chunks};
}

Post StagedTransfers::put(btl::Endpoint& to, const void* here, std::uint64_t remote_address, const MemoryHandle& remote,
                          std::uint64_t size, Completion& completion) noexcept {
  // It is only read.
  return begin(Kind::put, to, static_cast<std::byte*>(const_cast<void*>(here)), remote_address, remote, size,
               completion);
}

Post StagedTransfers::get(btl::Endpoint& to, void* here, std::uint64_t remote_address, const MemoryHandle& remote,
                          std::uint64_t size, Completion& completion) noexcept {
  return begin(Kind::get, to, static_cast<std::byte*>(here), remote_address, remote, size, completion);
}

Post StagedTransfers::begin(Kind kind, btl::Endpoint& to, std::byte* here, std::uint64_t remote_address,
                            const MemoryHandle& remote, std::uint64_t size, Completion& completion) noexcept {
  const auto refuse = [&](const Error& why) { return completion.error = why, Post::failed; };
  if (to.dead()) return refuse(to.error());
  if (&to == leaving_) return refuse({Errc::canceled, 0, "am: disconnected"});
  if (const auto made = make_chunks(); !made) return refuse(made.error());
  if (memory_.lost())
    return refuse({Errc::os, 0, "am: GPU memory is not staged any more: the device has stopped copying"});
  const auto memory = gpu::inspect(here);
  if (!memory) return refuse(memory.error());
  if (kind == Kind::put) gpu::make_synchronous(*memory);
  auto work = gpu::WorkContext::of(*memory);
  if (!work) return refuse(work.error());
  btl::RdmaOperation* const operation = operations_.begin(kind, to, completion, this);
  if (operation == nullptr) return Post::again;
  completion.error = {};
  if (transfers_.size() <= operation->slot) transfers_.resize(operation->slot + 1);
  Transfer& transfer = transfers_[operation->slot];
  transfer = {};
  transfer.operation = operation;
  transfer.here = here;
  transfer.remote_address = remote_address;
  transfer.remote = remote;
  transfer.size = size;
  transfer.work.emplace(std::move(*work));
  unstarted_.push_back(&transfer);
  // Nothing ends before progress(): the transport may answer at once, and this post has said `queued`.
  return Post::queued;
}

std::size_t StagedTransfers::advance() noexcept {
  std::size_t count = copier_.progress();
  std::vector<Chunk*>& waiting = held_up_;
  for (std::size_t left = waiting.size(); left > 0; --left) {  // those that are held up again go to the back
    Chunk& chunk = *waiting.front();
    waiting.erase(waiting.begin());
    chunk.next == Chunk::Next::copy ? copy(chunk) : post(chunk);
  }
  while (!unstarted_.empty() && !free_.empty()) {
    Transfer& transfer = *unstarted_.front();
    unstarted_.pop_front();
    start_chunks(transfer);
    ++count;
  }
  return count;
}

/// Gives the transfer one chunk and the next one its turn, so that a small one never waits for all of a large one.
void StagedTransfers::start_chunks(Transfer& transfer) noexcept {
  Chunk& chunk = *free_.back();
  free_.pop_back();
  chunk.transfer = &transfer;
  chunk.offset = transfer.started;
  chunk.size = std::min(config_.stage_chunk.bytes, transfer.size - transfer.started);
  transfer.started += chunk.size;
  ++transfer.under_way;
  if (transfer.started < transfer.size) unstarted_.push_back(&transfer);
  transfer.is_put() && chunk.size != 0 ? copy(chunk) : post(chunk);
}

std::uint64_t StagedTransfers::queue_of(const Chunk& chunk) const noexcept {
  return static_cast<std::uint64_t>(&chunk - chunks_.data());
}

/// Between chunk and GPU.
void StagedTransfers::copy(Chunk& chunk) noexcept {
  Transfer& transfer = *chunk.transfer;
  if (transfer.failed()) return chunk_ended(chunk, transfer.error);
  std::byte* const device = transfer.here + chunk.offset;
  const gpu::Copier::Done done{[](void* user, const Result<void>& result) noexcept {
                                 auto& copied = *static_cast<Chunk*>(user);
                                 copied.owner->copied(copied, result);
                               },
                               &chunk};
  const std::uint64_t queue = queue_of(chunk);
  const auto started = transfer.is_put()
                           ? copier_.copy(transfer.work->handle(), queue, chunk.data, device, chunk.size, done)
                           : copier_.copy(transfer.work->handle(), queue, device, chunk.data, chunk.size, done);
  if (started) {
    chunk.copying = true;
  } else if (started.error().code == Errc::busy) {
    chunk.next = Chunk::Next::copy;
    held_up_.push_back(&chunk);
  } else {
    copied(chunk, started.error());
  }
}

void StagedTransfers::copied(Chunk& chunk, const Result<void>& result) noexcept {
  chunk.copying = false;
  // The device may still write to it, or read what should be there.
  if (!result && result.error().code == Errc::timed_out) {
    memory_.lose();
    chunk.lost = true;
  }
  if (!result) return chunk_ended(chunk, result.error());
  chunk.transfer->is_put() ? post(chunk) : chunk_ended(chunk, {});
}

/// Between chunk and peer.
void StagedTransfers::post(Chunk& chunk) noexcept {
  Transfer& transfer = *chunk.transfer;
  if (transfer.failed()) return chunk_ended(chunk, transfer.error);
  btl::Endpoint& to = *transfer.operation->to;
  const std::uint64_t address = transfer.remote_address + chunk.offset;
  chunk.error = {};
  const Post post = transfer.is_put()
                        ? to.module().put(to, chunk.data, nullptr, address, transfer.remote, chunk.size, chunk)
                        : to.module().get(to, chunk.data, nullptr, address, transfer.remote, chunk.size, chunk);
  switch (post) {
    case Post::queued: return;
    case Post::done: return moved(chunk);
    case Post::failed: return chunk_ended(chunk, chunk.error);
    case Post::again: break;
  }
  chunk.next = Chunk::Next::post;
  held_up_.push_back(&chunk);
}

void StagedTransfers::moved(Chunk& chunk) noexcept {
  if (!chunk.ok() || chunk.transfer->is_put() || chunk.size == 0) return chunk_ended(chunk, chunk.error);
  copy(chunk);
}

void StagedTransfers::chunk_ended(Chunk& chunk, const Error& why) noexcept {
  Transfer& transfer = *chunk.transfer;
  chunk.transfer = nullptr;
  if (!chunk.lost) free_.push_back(&chunk);
  --transfer.under_way;
  if (!transfer.failed()) transfer.error = why;
  if (transfer.failed() && transfer.started < transfer.size) {
    transfer.started = transfer.size;
    std::erase(unstarted_, &transfer);
  }
  end_if_over(transfer);
}

void StagedTransfers::end_if_over(Transfer& transfer) noexcept {
  if (transfer.under_way != 0 || transfer.started < transfer.size) return;
  transfer.work.reset();
  operations_.finish(*transfer.operation, transfer.error);
}

void StagedTransfers::disconnecting(btl::Endpoint& endpoint, const Error& why) noexcept {
  leaving_ = &endpoint;
  abandon(endpoint, why);
}

void StagedTransfers::abandon(btl::Endpoint& endpoint, const Error& why) noexcept {
  const auto concerned = [&](const Transfer& transfer) {
    return transfer.operation != nullptr && transfer.operation->kind != Kind::none &&
           transfer.operation->to == &endpoint && &transfers_[transfer.operation->slot] == &transfer;
  };
  for (Transfer& transfer : transfers_) {
    if (concerned(transfer) && !transfer.failed()) transfer.error = why;
  }
  // A slot is free only when the GPU's copy is complete.
  std::vector<std::uint64_t> queues = std::exchange(queues_, {});  // a completion may come here again
  for (const Chunk& chunk : chunks_) {
    if (chunk.copying && concerned(*chunk.transfer)) queues.push_back(queue_of(chunk));
  }
  copier_.finish(queues);
  queues.clear();
  queues_ = std::move(queues);
  for (std::size_t i = 0; i < held_up_.size();) {
    Chunk& chunk = *held_up_[i];
    if (!concerned(*chunk.transfer)) {
      ++i;
      continue;
    }
    held_up_.erase(held_up_.begin() + static_cast<std::ptrdiff_t>(i));
    chunk_ended(chunk, why);
  }
  for (std::size_t i = 0; i < transfers_.size(); ++i) {  // those of which nothing is under way
    Transfer& transfer = transfers_[i];
    if (!concerned(transfer) || transfer.under_way != 0) continue;
    std::erase(unstarted_, &transfer);
    transfer.started = transfer.size;
    end_if_over(transfer);
  }
}

}  // namespace opal::am
