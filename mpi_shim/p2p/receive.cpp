// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/p2p/receive.hpp"

#include <algorithm>

#include "mpi_shim/p2p/engine.hpp"
#include "opal/core/copy.hpp"
#include "opal/gpu/copies/copy.hpp"

namespace mpi_shim::p2p {

void Unexpected::assign(const Incoming& incoming) {
  message = incoming;
  envelope = {incoming.match.source, incoming.match.tag};
  const std::size_t size = incoming.payload.size();
  std::byte* copy = small_.data();
  if (size > small_.size()) {
    large_ = std::make_unique_for_overwrite<std::byte[]>(size);
    copy = large_.get();
  }
  opal::copy_host_memory(copy, incoming.payload.data(), size);
  message.payload = {copy, size};
}

const Request::Actions Receive::kActions{act<&Receive::begin_receiving>, act<&Receive::put_away>,
                                         act<&Receive::withdraw>};

void Receive::begin_receiving() noexcept {
  const am::Lock::Guard guard{engine_.lock_};
  begin();
  if (match::Unexpected* early = channel_->matcher.post(*this)) {
    std::unique_ptr<Unexpected> message = engine_.adopt(early);
    accept(message->message);
    return engine_.keep(std::move(message));
  }
  if (channel_->gives_up(wanted.tag) || engine_.no_sender_left(*channel_, wanted.source)) [[unlikely]] {
    channel_->matcher.cancel(*this);
    end(MPI_ERR_PROC_ABORTED);  // all messages it had sent are received
  }
}

void Receive::start_matched(std::unique_ptr<Unexpected> message) noexcept {
  const am::Lock::Guard guard{engine_.lock_};
  begin();
  accept(message->message);
}

bool Receive::withdraw() noexcept {
  const am::Lock::Guard guard{engine_.lock_};
  if (done() || !channel_->matcher.cancel(*this)) return false;
  outcome_.cancelled = true;
  finish();
  return true;
}

/// Sets the outcome from the matched message, and wanted_ to the bytes that fit the buffer.
void Receive::accept_size(int source, int tag, std::uint64_t size) noexcept {
  outcome_.source = source;
  outcome_.tag = tag;
  wanted_ = std::min(size, buffer_.bytes());
  outcome_.bytes = wanted_;
  if (size > buffer_.bytes()) [[unlikely]]
    outcome_.error = MPI_ERR_TRUNCATE;
}

/// As accept(), for eager messages.
void Receive::accept_eager(int source, int tag, ByteSpan data) noexcept {
  accept_size(source, tag, data.size());
  accept_data(data);
}

void Receive::accept(const Incoming& message) noexcept {
  from_ = message.from;
  accept_size(message.match.source, message.match.tag, message.size);
  if (message.kind == wire::kFailure) {
    wire::Failure why{};
    const bool aborted = read_object(message.payload, why) && why.error == MPI_ERR_PROC_ABORTED;
    return end(aborted ? MPI_ERR_PROC_ABORTED : MPI_ERR_OTHER);
  }
  if (message.kind == wire::kRendezvous) return begin_rendezvous(message);
  accept_data(message.payload);
}

void Receive::accept_data(ByteSpan data) noexcept {
  unpack(data.first(static_cast<std::size_t>(wanted_)), buffer_);
  finish();
}

void Receive::begin_rendezvous(const Incoming& message) noexcept {
  if (message.address == 0) return ask_for_data(message.send_id, message.payload);
  const auto handle = MemoryHandle::from_bytes(message.payload);
  if (!handle || !from_->one_sided()) return ask_for_data(message.send_id, {});
  engine_.fetches_.take(engine_).begin(*this, message, *handle);
}

void Receive::ask_for_data(std::uint64_t send_id, ByteSpan first_part) noexcept {
  received_ = 0;
  ++engine_.rendezvous_;
  append(first_part.first(std::min<std::size_t>(first_part.size(), wanted_)));
  const bool complete = received_ == wanted_;
  // The sender of this offer has already failed; peer_failed() does not run again to end this receive.
  if (!complete && from_->dead()) [[unlikely]]
    return end(MPI_ERR_PROC_ABORTED);
  if (!complete) id_ = engine_.receiving_.add(*this);
  engine_.send_control(*from_, wire::kClearToSend, wire::ClearToSend{send_id, id_, wanted_});
  if (complete) end(outcome_.error);
}

void Receive::on_data(ByteSpan data, const btl::Delivery& delivery) noexcept {
  if (delivery.lost) outcome_.error = MPI_ERR_BUFFER;  // the program has unmapped the buffer
  append(data);
  received_ += delivery.placed;
  if (received_ == wanted_) end(outcome_.error);
}

void Receive::append(ByteSpan data) noexcept {
  unpack(data, buffer_, received_);
  received_ += data.size();
}

void Receive::end(int error_class) noexcept {
  if (id_ != 0) engine_.receiving_.remove(std::exchange(id_, 0));
  outcome_.error = error_class;
  finish();
}

void Receive::put_away() noexcept {
  const am::Lock::Guard guard{engine_.lock_};
  reset();
  --channel_->users;
  if (type_) type_ = {};
  engine_.receives_.give_back(*this);
}

}  // namespace mpi_shim::p2p
