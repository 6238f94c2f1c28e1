// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/p2p/send.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "mpi_shim/p2p/engine.hpp"
#include "opal/core/copy.hpp"
#include "opal/core/log.hpp"
#include "opal/gpu/memory.hpp"

namespace mpi_shim::p2p {

Send::Send(Engine& engine) noexcept
    : Request(kActions, &engine),
      Stalled{[](Stalled& self) noexcept { return static_cast<Send&>(self).try_again(); }},
      engine_(engine) {}

const Request::Actions Send::kActions{act<&Send::begin_sending>, act<&Send::put_away>, act<&Send::withdraw>};

void Send::begin_sending() noexcept {
  const am::Lock::Guard guard{engine_.lock_};
  begin();
  outcome_.bytes = buffer_.bytes();
  step_ = Step::first_message;
  cancelling_ = false;
  if (given_up()) [[unlikely]]
    return end(MPI_ERR_PROC_ABORTED);
  if (const int error = engine_.reach(*peer_); error != MPI_SUCCESS) return end(error);
  // While earlier messages to this peer wait for the transport, this one must not overtake them.
  if (peer_->waiting == 0) {
    const Post post = post_first_message();
    if (post == Post::failed) return end(why_failed());
    if (post != Post::again) {
      if (step_ == Step::first_message) end(first_outcome());
      return;
    }
  }
  ++peer_->waiting;
  peer_->eager_below = 0;
  engine_.wait_for_transport(*this);
}

bool Send::withdraw() noexcept {
  const am::Lock::Guard guard{engine_.lock_};
  if (done() || step_ == Step::push) return false;
  if (step_ == Step::answer) {
    // Only the receiver knows whether the message was matched.  It answers Cancelled only if it was not.
    cancelling_ = true;
    engine_.send_control(*peer_->endpoint, wire::kCancel, wire::Cancel{id_, channel_->context, 0});
    return false;
  }
  engine_.stop_waiting_for_transport(*this);
  if (--peer_->waiting == 0) peer_->eager_below = peer_->eager_below_when_free;
  on_cancelled();
  return true;
}

/// The error class of a send that ends with its first message.
int Send::first_outcome() const noexcept {
  switch (mode_) {
    case Mode::failed: return MPI_ERR_OTHER;
    case Mode::aborted: return MPI_ERR_PROC_ABORTED;
    default: return MPI_SUCCESS;
  }
}

/// Whether the channel has given up this operation.  Failure messages (Mode::failed, aborted) are still sent.
bool Send::given_up() const noexcept { return mode_ == Mode::standard && channel_->gives_up(tag_); }

void Send::on_cancelled() noexcept {
  if (given_up()) return end(MPI_ERR_PROC_ABORTED);
  outcome_.cancelled = true;
  end(MPI_SUCCESS);
}

bool Send::try_again() noexcept {
  if (step_ == Step::push) return push();
  if (peer_->full_in_pass == engine_.pass_) return false;  // full for an earlier send to this peer in the same pass
  const Post post = given_up() ? Post::failed : post_first_message();
  if (post == Post::again) {
    peer_->full_in_pass = engine_.pass_;
    return false;
  }
  if (--peer_->waiting == 0) peer_->eager_below = peer_->eager_below_when_free;
  if (post == Post::failed) {
    end(why_failed());
  } else if (step_ == Step::first_message) {
    end(first_outcome());
  }
  return true;
}

Post Send::post_first_message() noexcept {
  am::Endpoint& endpoint = *peer_->endpoint;
  const int error = first_outcome();
  if (error == MPI_SUCCESS) [[likely]]
    return post_message(endpoint);
  const wire::MatchHeader header = match_header();
  const wire::Failure why{static_cast<std::uint32_t>(error)};
  return endpoint.send_inline(wire::kFailure, bytes_of(header), bytes_of(why));
}

Post Send::post_message(am::Endpoint& endpoint) noexcept {
  const std::uint64_t sent_before = peer_->sent;
  const std::uint64_t sent = sent_before + Peer::cost(buffer_.bytes());
  const std::uint64_t below = peer_->offered == 0 ? peer_->eager_below_when_free : peer_->eager_below_in_stream;
  const bool eager = mode_ == Mode::standard && buffer_.bytes() < below && sent <= peer_->may_send;
  if (eager) peer_->sent = sent;
  // The answer may arrive before the post returns (a peer in the same process), so everything is set up before.
  if (!eager && id_ == 0) id_ = engine_.sending_.add(*this);
  if (!eager) step_ = Step::answer;
  set_offered(!eager);
  const wire::MatchHeader header = match_header();
  const Post post =
      eager ? send_part(endpoint, wire::kEager, bytes_of(header), buffer_, 0, buffer_.bytes()) : post_offer(endpoint);
  if (post == Post::again || post == Post::failed) {  // nothing has gone out
    step_ = Step::first_message;
    set_offered(false);
    peer_->sent = sent_before;
  }
  return post;
}

void Send::set_offered(bool offered) noexcept {
  if (offered_ == offered) return;
  offered_ = offered;
  peer_->offered += offered ? 1 : -1;
}

std::uint64_t Send::first_part(const am::Endpoint& endpoint) const noexcept {
  const std::uint64_t carried = endpoint.attributes().max_send - sizeof(wire::RendezvousHeader);
  const std::uint64_t part = std::min({buffer_.bytes(), peer_->eager_below_when_free - 1, carried});
  return peer_->sent + Peer::cost(part) <= peer_->may_send ? part : 0;
}

/// Sends the offer of a rendezvous, with a memory handle if the receiver can fetch the data without help of the sender,
/// otherwise with the first part of the data, so that they arrive while the answer is under way.
Post Send::post_offer(am::Endpoint& endpoint) noexcept {
  std::array<std::byte, sizeof(wire::RendezvousHeader) + MemoryHandle::kMaxSize> bytes;
  std::size_t size = sizeof(wire::RendezvousHeader);
  wire::RendezvousHeader header{match_header(), 0, id_, buffer_.bytes(), 0};
  // A small message, which is synchronous or offered for lack of credit, is not worth a registration.
  // GPU memory is registered only if the transfer does not pass through host memory; otherwise a push costs the same.
  const bool large = buffer_.bytes() >= peer_->eager_below_when_free &&
                     (opal::gpu::is_host(buffer_.contiguous()) || endpoint.gpu_direct());
  if (large && buffer_.contiguous() != nullptr && endpoint.one_sided()) {
    auto memory = endpoint.expose(buffer_.contiguous(), buffer_.bytes(), Rights::remote_read);
    if (memory) {
      memory_ = std::move(*memory);
      const ByteSpan handle = memory_.handle();
      std::memcpy(bytes.data() + size, handle.data(), handle.size());
      size += handle.size();
      header.address = reinterpret_cast<std::uint64_t>(buffer_.contiguous());
    } else {
      // Not an error: the receiver asks for a push.
      log::debug("mpi", "rendezvous without fetching: {}", to_string(memory.error()));
    }
  }
  std::memcpy(bytes.data(), &header, sizeof header);
  pushed_ = header.address == 0 ? first_part(endpoint) : 0;
  if (pushed_ != 0) peer_->sent += Peer::cost(pushed_);
  return send_part(endpoint, wire::kRendezvous, ByteSpan{bytes}.first(size), buffer_, 0, pushed_);
}

void Send::on_clear_to_send(const wire::ClearToSend& message) noexcept {
  wanted_ = std::min(message.size, buffer_.bytes());
  receive_id_ = message.receive_id;
  step_ = Step::push;
  engine_.sending_.remove(std::exchange(id_, 0));
  if (!push()) engine_.wait_for_transport(*this);
}

bool Send::push() noexcept {
  am::Endpoint& endpoint = *peer_->endpoint;
  const std::uint64_t room = endpoint.attributes().max_send - sizeof(wire::DataHeader);
  while (pushed_ < wanted_) {
    const std::uint64_t piece = std::min(room, wanted_ - pushed_);
    const wire::DataHeader header{receive_id_, pushed_};
    const Post post = send_part(endpoint, wire::kData, bytes_of(header), buffer_, pushed_, piece);
    if (post == Post::again) return false;
    if (post == Post::failed) {
      end(why_failed());
      return true;
    }
    pushed_ += piece;
  }
  end(MPI_SUCCESS);
  return true;
}

/// The class for a post that has failed: the peer has died, or its GPU memory cannot be copied.
int Send::why_failed() noexcept {
  const am::Endpoint& endpoint = *peer_->endpoint;
  if (endpoint.dead() || given_up()) return MPI_ERR_PROC_ABORTED;
  check_copy(endpoint.error());
  return MPI_ERR_OTHER;
}

void Send::end(int error_class) noexcept {
  set_offered(false);
  if (id_ != 0) engine_.sending_.remove(std::exchange(id_, 0));
  memory_.reset();
  outcome_.error = error_class;
  finish();
}

void Send::put_away() noexcept {
  const am::Lock::Guard guard{engine_.lock_};
  set_offered(false);
  reset();
  --channel_->users;
  if (type_) type_ = {};
  engine_.sends_.give_back(*this);
}

}  // namespace mpi_shim::p2p
