// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/rma/message_access.hpp"

#include <algorithm>
#include <cstring>

#include "mpi_shim/datatype/construction/predefined.hpp"
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
  head_.header = {};
  head_.header.window = window.comm().id();
  head_.header.rank = window.comm().rank();
  head_.header.action = action;
  head_.header.op = static_cast<std::uint8_t>(op);
  counted_ = counted;
  if (there.has_derived_type()) type_ = there.share_type();
  there.start(blocks_);
  bytes_ = there.bytes();
  // The target executes each block by itself.
  const bool plain = action == wire::Action::transfer;
  const datatype::Datatype& element =
      datatype::predefined(plain ? datatype::Element::byte : *there.type().signature().uniform);
  head_.header.type = static_cast<std::uint16_t>(element.predefined_handle());
  unit_ = static_cast<std::uint32_t>(element.size());
  has_gaps_ = !element.layout().is_one_run();
  sent_ = answered_ = 0;
}

void MessageAccess::from(const p2p::Buffer& origin) {
  head_.header.flags |= wire::kStores;
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
  head_.header.flags |= wire::kFetches;
  result_ = result;
  if (result.has_derived_type()) result_type_ = result.share_type();
}

void MessageAccess::from_pair(ByteSpan values) noexcept {
  head_.header.flags |= wire::kStores;
  std::ranges::copy(values, pair_.begin());
  origin_ = p2p::Buffer::of_bytes(pair_.data(), values.size());
}

void MessageAccess::begin_sending() noexcept {
  begin();
  outcome_.bytes = bytes_;
  target_->pending.fetch_add(1, std::memory_order_relaxed);
  head_.header.id = windows_.under_way_.add(*this);
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
  wire::AccessHeader& header = head_.header;
  // The answer must fit max_send, too; it does, since its header is shorter.
  // Short pieces of a counted access: the target copies one out of the cache while the next one is copied in.
  const btl::Attributes& attributes = endpoint.attributes();
  const std::uint64_t most = attributes.max_send - sizeof header;
  header.bytes = collect_blocks(counted_ ? std::min<std::uint64_t>(attributes.eager, most) : most);
  if (counted_ && sent_ + header.bytes == bytes_) header.flags |= wire::kCounted;
  const std::uint64_t stored = !header.has(wire::kStores)                    ? 0
                               : header.action == wire::Action::compare_swap ? 2 * header.bytes
                                                                             : header.bytes;
  const ByteSpan head = std::as_bytes(std::span{&head_, 1}).first(sizeof header + header.more * sizeof(wire::Blocks));
  const Post post = send_part(endpoint, wire::kAccess, head, origin_, sent_, stored);
  if (post == Post::again || post == Post::failed) return post;
  sent_ += header.bytes;
  ++target_->accessed->queue.in_flight;
  if (sent_ == bytes_) target_->accessed->queue.accesses.pop_front();
  return Post::done;
}

std::uint32_t MessageAccess::collect_blocks(std::uint64_t room) noexcept {
  const auto sent = static_cast<std::int64_t>(sent_);
  if (blocks_.position() != sent) blocks_.seek(sent);  // behind a post that was refused, or a block that did not fit
  const std::uint64_t base = window_->flavor() == Flavor::dynamic ? 0 : target_->base;
  wire::Blocks* last = nullptr;
  head_.header.more = 0;
  std::uint64_t bytes = 0;
  while (sent_ + bytes < bytes_) {
    const std::uint64_t fits = (room - bytes) / unit_ * unit_;
    if (fits == 0) break;
    const datatype::Piece block = next_block(std::min(fits, bytes_ - sent_ - bytes));
    const std::uint64_t displacement = reinterpret_cast<std::uint64_t>(block.data) - base;
    bytes += block.bytes;
    if (last != nullptr && block.bytes == last->bytes &&
        (last->count == 1 || displacement - last->displacement == last->count * last->stride)) {
      if (last->count == 1) last->stride = displacement - last->displacement;
      ++last->count;
      continue;
    }
    if (last == nullptr) {
      last = &head_.header.first;
    } else if (head_.header.more < kMostMore && room - bytes >= sizeof *last) {
      room -= sizeof *last;
      last = &head_.more[head_.header.more++];
    } else {
      bytes -= block.bytes;
      break;
    }
    *last = {displacement, 0, static_cast<std::uint32_t>(block.bytes), 1};
  }
  return static_cast<std::uint32_t>(bytes);
}

/// The next block at the target, of at most `most` bytes.
datatype::Piece MessageAccess::next_block(std::uint64_t most) noexcept {
  if (!has_gaps_) return blocks_.next_piece(most);
  const std::int64_t next = blocks_.position() + unit_;
  const datatype::Piece element = blocks_.next_piece(1);
  blocks_.seek(next);
  return {element.data, unit_};
}

void MessageAccess::on_reply(const wire::AccessReply& reply, ByteSpan data) noexcept {
  Target& target = *target_;
  --target.accessed->queue.in_flight;
  // The target answers for the bytes of each piece in the order in which they were sent.
  const std::uint64_t bytes = std::min<std::uint64_t>(reply.bytes, sent_ - answered_);
  if (reply.error != MPI_SUCCESS) {
    if (outcome_.error == MPI_SUCCESS) outcome_.error = static_cast<int>(reply.error);
  } else if (head_.header.has(wire::kFetches) && data.size() != bytes) {
    outcome_.error = MPI_ERR_INTERN;
  } else if (head_.header.has(wire::kFetches)) {
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
  windows_.under_way_.remove(head_.header.id);
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
