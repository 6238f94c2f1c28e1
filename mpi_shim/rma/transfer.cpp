// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/rma/transfer.hpp"

#include <algorithm>

#include "mpi_shim/rma/windows.hpp"
#include "opal/core/log.hpp"

namespace mpi_shim::rma {

Transfer::Transfer(Windows& windows) noexcept
    : Request(kActions, &windows.engine()),
      Stalled{[](Stalled& self) noexcept { return static_cast<Transfer&>(self).step(); }},
      windows_(windows) {
  for (BlockCompletion& block : completions_) {
    block.transfer = this;
    block.fn = [](Completion& self) noexcept {
      auto& ended = static_cast<BlockCompletion&>(self);
      ended.transfer->one_done(ended);
    };
  }
}

const Request::Actions Transfer::kActions{act<&Transfer::begin_transfer>, act<&Transfer::put_away>};

void Transfer::prepare(Direction direction, Target& target, const MemoryHandle& handle, const p2p::Buffer& origin,
                       const p2p::Buffer& there, std::uint64_t first) {
  direction_ = direction;
  target_ = &target;
  handle_ = handle;
  origin_ = origin;
  if (origin.has_derived_type()) origin_type_ = origin.share_type();
  if (there.has_derived_type()) target_type_ = there.share_type();
  there.start(blocks_);
  if (first != 0) blocks_.seek(static_cast<std::int64_t>(first));
  bytes_ = std::min(origin.bytes(), there.bytes() - first);
  posted_ = 0;
  piece_ = {};
  if (origin.contiguous() != nullptr) {
    contiguous_ = origin.contiguous();
    return;
  }
  packed_.resize(bytes_);
  contiguous_ = packed_.data();
  if (direction != Direction::put) return;
  pack(origin, packed_);
}

bool Transfer::try_at_once() noexcept {
  piece_ = blocks_.next_piece(bytes_);
  if (piece_.bytes != bytes_) return false;
  BlockCompletion& block = completions_.front();
  stepping_ = true;
  const Post post = this->post(block);
  stepping_ = false;
  if (post == Post::done || (post == Post::queued && !block.busy && block.ok())) {
    give_back();
    return true;
  }
  if (block.busy) {
    posted_ = bytes_;
    piece_ = {};
  }
  return false;  // after a failure, and where a post returned again, step() posts the piece once more
}

void Transfer::begin_transfer() noexcept {
  begin();
  outcome_.bytes = bytes_;
  target_->pending.fetch_add(1, std::memory_order_relaxed);
  if (!step()) windows_.engine().wait_for_transport(*this);
}

bool Transfer::step() noexcept {
  stepping_ = true;
  bool room = true;
  while (posted_ < bytes_ && room && outcome_.error == MPI_SUCCESS) {
    BlockCompletion* free = nullptr;
    for (BlockCompletion& block : completions_) {
      if (!block.busy) free = &block;
    }
    if (free == nullptr) break;
    if (piece_.bytes == 0) piece_ = blocks_.next_piece(bytes_ - posted_);
    switch (post(*free)) {
      case Post::done:
      case Post::queued: break;
      case Post::again: room = false; continue;
      case Post::failed: fail(free->error); continue;
    }
    posted_ += piece_.bytes;
    piece_ = {};
  }
  stepping_ = false;
  if (!room && outcome_.error == MPI_SUCCESS) return false;
  end_if_over();
  return true;
}

Post Transfer::post(BlockCompletion& block) noexcept {
  am::Endpoint& endpoint = *target_->peer->endpoint;
  const auto address = reinterpret_cast<std::uint64_t>(piece_.data);
  std::byte* const local = contiguous_ + posted_;
  block.busy = true;  // before the post: the completion may run inside it
  ++in_flight_;
  const Post post = direction_ == Direction::put ? endpoint.put(local, address, handle_, piece_.bytes, block)
                                                 : endpoint.get(local, address, handle_, piece_.bytes, block);
  if (post != Post::queued) {
    block.busy = false;
    --in_flight_;
  }
  return post;
}

void Transfer::one_done(BlockCompletion& block) noexcept {
  block.busy = false;
  --in_flight_;
  if (!block.ok()) fail(block.error);
  if (stepping_ || waits) return;  // the step that runs, or will run, does the rest
  if (!step()) windows_.engine().wait_for_transport(*this);
}

void Transfer::fail(const Error& why) noexcept {
  if (outcome_.error != MPI_SUCCESS) return;
  const bool gone = why.code == Errc::peer_gone || target_->peer->endpoint->dead();
  outcome_.error = gone ? MPI_ERR_PROC_ABORTED : MPI_ERR_OTHER;
  if (!gone) log::error("mpi", "access to a window of process {}: {}", target_->peer->process, to_string(why));
}

void Transfer::end_if_over() noexcept {
  if (in_flight_ != 0 || (posted_ < bytes_ && outcome_.error == MPI_SUCCESS)) return;
  if (outcome_.error != MPI_SUCCESS) {
    target_->note(outcome_.error);
  } else if (direction_ == Direction::get && origin_.contiguous() == nullptr) {
    unpack(ByteSpan{packed_}.first(bytes_), origin_);
  }
  target_->pending.fetch_sub(1, std::memory_order_release);
  finish();
}

void Transfer::put_away() noexcept {
  const am::Lock::Guard guard{windows_.engine().lock()};
  reset();
  give_back();
}

void Transfer::give_back() noexcept {
  origin_ = {};
  origin_type_ = {};
  target_type_ = {};
  windows_.transfers_.give_back(*this);
}

}  // namespace mpi_shim::rma
