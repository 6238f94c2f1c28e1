// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/p2p/fetch.hpp"

#include <algorithm>

#include "mpi_shim/p2p/engine.hpp"
#include "opal/core/log.hpp"

namespace mpi_shim::p2p {

Fetch::Fetch(Engine& engine) noexcept
    : Stalled{[](Stalled& self) noexcept { return static_cast<Fetch&>(self).step(); }}, engine_(engine) {
  fn = [](Completion& self) noexcept {
    auto& fetch = static_cast<Fetch&>(self);
    if (!fetch.ok()) return fetch.give_up();
    fetch.took();
    if (!fetch.step()) fetch.engine_.wait_for_transport(fetch);
  };
}

void Fetch::begin(Receive& receive, const Incoming& message, const MemoryHandle& handle) noexcept {
  receive_ = &receive;
  from_ = message.from;
  handle_ = handle;
  send_id_ = message.send_id;
  address_ = message.address;
  fetched_ = 0;
  ++engine_.fetching_;
  ++engine_.rendezvous_;
  if (!step()) engine_.wait_for_transport(*this);
}

bool Fetch::step() noexcept {
  while (fetched_ < receive_->wanted_) {
    switch (post()) {
      case Post::done: took(); break;
      case Post::queued: return true;
      case Post::again: return false;
      case Post::failed: give_up(); return true;
    }
  }
  end();
  return true;
}

Post Fetch::post() noexcept {
  const std::uint64_t left = receive_->wanted_ - fetched_;
  std::byte* target = receive_->buffer_.contiguous();
  if (target != nullptr) {
    asked_ = left;
    target += fetched_;
  } else {
    asked_ = std::min(left, kFetchChunk.bytes);
    bounce_.resize(static_cast<std::size_t>(asked_));
    target = bounce_.data();
  }
  return from_->get(target, address_ + fetched_, handle_, asked_, *this);
}

void Fetch::took() noexcept {
  if (receive_->buffer_.contiguous() == nullptr) unpack(ByteSpan{bounce_}.first(asked_), receive_->buffer_, fetched_);
  fetched_ += asked_;
}

void Fetch::end() noexcept {
  engine_.send_control(*from_, wire::kFinished, wire::Answer{send_id_});
  receive_->end(receive_->outcome_.error);
  --engine_.fetching_;
  engine_.fetches_.give_back(*this);
}

/// A get has failed.  If the sender lives, it pushes the whole message instead.
void Fetch::give_up() noexcept {
  Receive& receive = *receive_;
  if (from_->dead()) {
    receive.end(MPI_ERR_PROC_ABORTED);
  } else {
    log::warn("mpi", "a get of {} bytes failed, the sender pushes them instead: {}", asked_, to_string(error));
    receive.ask_for_data(send_id_, {});
  }
  --engine_.fetching_;
  engine_.fetches_.give_back(*this);
}

}  // namespace mpi_shim::p2p
