// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/rma/message_access.hpp"

#include <algorithm>
#include <cstring>

#include "mpi_shim/p2p/data/send_part.hpp"
#include "mpi_shim/rma/window.hpp"
#include "mpi_shim/rma/windows.hpp"
#include "opal/core/log.hpp"
#include "opal/gpu/copies/copy.hpp"

namespace mpi_shim::rma {

MessageAccess::MessageAccess(Windows& windows) noexcept : Request(kActions, &windows.engine()), windows_(windows) {}

const Request::Actions MessageAccess::kActions{act<&MessageAccess::begin_sending>, act<&MessageAccess::put_away>};

void MessageAccess::prepare(Window& window, Target& target, wire::Action action, op::OpKind op,
                            const p2p::Buffer& there, bool counted) {
  window_ = &window;
  target_ = &target;
  const std::uint64_t base = window.flavor() == Flavor::dynamic ? 0 : target.base;
  header_ = {};
  header_.window = window.comm().id();
  header_.rank = window.comm().rank();
  header_.displacement = static_cast<std::int64_t>(reinterpret_cast<std::uint64_t>(there.base()) - base);
  header_.count = there.count();
  header_.action = action;
  header_.op = static_cast<std::uint8_t>(op);
  header_.flags = 0;
  counted_ = counted;
  type_ = there.share_type();
  bytes_ = there.bytes();
  // Each piece consists of whole elements, since the target executes each piece by itself.
  piece_unit_ = 1;
  if (action == wire::Action::update) piece_unit_ = datatype::info(*there.type().signature().uniform).size;
  if (action == wire::Action::compare_swap) piece_unit_ = static_cast<std::uint32_t>(bytes_);
  sent_ = answered_ = 0;
  named_ = false;
}

void MessageAccess::from(const p2p::Buffer& origin) {
  header_.flags |= wire::kStores;
  origin_ = origin;
  bytes_ = std::min(bytes_, origin.bytes());
  if (origin.on_gpu()) {
    on_host_.resize(bytes_);
    pack(origin, on_host_);
    origin_ = p2p::Buffer::of_bytes(on_host_.data(), bytes_);
    return;
  }
  if (origin.has_derived_type()) origin_type_ = origin.share_type();
}

void MessageAccess::into(const p2p::Buffer& result) {
  header_.flags |= wire::kFetches;
  result_ = result;
  if (result.has_derived_type()) result_type_ = result.share_type();
}

void MessageAccess::from_pair(ByteSpan values) noexcept {
  header_.flags |= wire::kStores;
  std::ranges::copy(values, pair_.begin());
  origin_ = p2p::Buffer::of_bytes(pair_.data(), values.size());
}

void MessageAccess::begin_sending() noexcept {
  begin();
  outcome_.bytes = bytes_;
  target_->pending.fetch_add(1, std::memory_order_relaxed);
  header_.id = windows_.under_way_.add(*this);
  target_->accessed->queue.accesses.push_back(this);
  pump(*window_, *target_);
}

void MessageAccess::pump(Window& window, Target& target) noexcept {
  Target::Queue& queue = target.accessed->queue;
  while (!queue.accesses.empty() && queue.in_flight < kMostInFlight) {
    MessageAccess& access = *queue.accesses.front();
    const Post post = access.send_piece();
    if (post == Post::again) return window.engine().wait_for_transport(queue);
    if (post == Post::failed) access.fail(MPI_ERR_PROC_ABORTED);
  }
}

Post MessageAccess::send_piece() noexcept {
  am::Endpoint& endpoint = *target_->peer->endpoint;
  if (!named_) {
    if (const std::uintptr_t predefined = type_->predefined_handle()) {
      header_.type = static_cast<std::uint32_t>(predefined);
    } else {
      const auto slot = windows_.describe_type(*target_->peer, *type_);
      if (!slot && slot.error().code == Errc::busy) return Post::again;
      if (!slot) {
        log::error("mpi", "a datatype cannot be described to process {}: {}", target_->peer->process,
                   to_string(slot.error()));
        return Post::failed;
      }
      header_.type = wire::kTypeSlot + *slot;
    }
    named_ = true;
  }
  // The answer must fit max_send, too; it does, since its header is shorter.
  // Short pieces of a counted access: the target copies one out of the cache while the next one is copied in.
  const btl::Attributes& attributes = endpoint.attributes();
  const std::uint64_t most = attributes.max_send - sizeof header_;
  const std::uint64_t room = counted_ ? std::min<std::uint64_t>(attributes.eager, most) : most;
  const std::uint64_t piece = std::min(bytes_ - sent_, std::max<std::uint64_t>(room / piece_unit_, 1) * piece_unit_);
  header_.offset = sent_;
  header_.bytes = piece;
  if (counted_ && sent_ + piece == bytes_) header_.flags |= wire::kCounted;
  const std::uint64_t stored = !header_.has(wire::kStores)                    ? 0
                               : header_.action == wire::Action::compare_swap ? 2 * piece
                                                                              : piece;
  const Post post = send_part(endpoint, wire::kAccess, bytes_of(header_), origin_, sent_, stored);
  if (post == Post::again || post == Post::failed) return post;
  sent_ += piece;
  ++target_->accessed->queue.in_flight;
  if (sent_ == bytes_) target_->accessed->queue.accesses.pop_front();
  return Post::done;
}

void MessageAccess::on_reply(const wire::AccessReply& reply, ByteSpan data) noexcept {
  Target& target = *target_;
  --target.accessed->queue.in_flight;
  // The target answers for the bytes of each piece in the order in which they were sent.
  const std::uint64_t bytes = std::min(reply.bytes, sent_ - answered_);
  if (reply.error != MPI_SUCCESS) {
    if (outcome_.error == MPI_SUCCESS) outcome_.error = static_cast<int>(reply.error);
  } else if (header_.has(wire::kFetches) && (data.size() != bytes || reply.offset != answered_)) {
    outcome_.error = MPI_ERR_INTERN;
  } else if (header_.has(wire::kFetches)) {
    unpack(data, result_, answered_);
  }
  answered_ += bytes;
  Window& window = *window_;
  if (answered_ == bytes_) end();
  pump(window, target);
}

void MessageAccess::fail(int error_class) noexcept {
  std::erase(target_->accessed->queue.accesses, this);
  outcome_.error = error_class;
  end();
}

void MessageAccess::end() noexcept {
  windows_.under_way_.remove(header_.id);
  if (named_ && header_.type >= wire::kTypeSlot) {
    windows_.release_type(*target_->peer, header_.type - wire::kTypeSlot);
  }
  if (outcome_.error != MPI_SUCCESS) target_->note(outcome_.error);
  target_->pending.fetch_sub(1, std::memory_order_release);
  finish();
}

void MessageAccess::put_away() noexcept {
  const am::Lock::Guard guard{windows_.engine().lock()};
  reset();
  origin_ = {};
  result_ = {};
  type_ = {};
  origin_type_ = {};
  result_type_ = {};
  windows_.message_accesses_.give_back(*this);
}

}  // namespace mpi_shim::rma
