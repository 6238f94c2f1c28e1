// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/rma/message_access.hpp"

#include <algorithm>

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
  header_ = {};
  header_.window = window.comm().id();
  header_.rank = window.comm().rank();
  header_.action = action;
  header_.op = static_cast<std::uint8_t>(op);
  counted_ = counted;
  if (there.has_derived_type()) type_ = there.share_type();
  contiguous_ = there.contiguous();
  if (contiguous_ == nullptr) there.start(there_);
  bytes_ = there.bytes();
  // The target executes each piece by itself.
  unit_ = 1;
  if (action == wire::Action::update) {
    const datatype::Element element = *there.type().signature().uniform;
    header_.element = static_cast<std::uint8_t>(element);
    unit_ = datatype::info(element).size;
  }
  if (action == wire::Action::compare_swap) unit_ = static_cast<std::uint32_t>(bytes_);
  blocks_.clear();
  sent_ = answered_ = 0;
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
  // The answer must fit max_send, too; it does, since its header is shorter.
  // Short pieces of a counted access: the target copies one out of the cache while the next one is copied in.
  const btl::Attributes& attributes = endpoint.attributes();
  std::uint64_t room = attributes.max_send;
  if (counted_) room = std::min(room, std::max<std::uint64_t>(attributes.eager, kLeastPiece));
  if (room < kLeastPiece) return Post::failed;  // only of an endpoint without a transport
  if (blocks_.empty() || room != room_) make_piece(room);
  const std::uint64_t stored = !header_.has(wire::kStores)                    ? 0
                               : header_.action == wire::Action::compare_swap ? 2 * std::uint64_t{header_.bytes}
                                                                              : header_.bytes;
  const ByteSpan head = header_.more == 0 ? bytes_of(header_) : ByteSpan{long_head_};
  const Post post = send_part(endpoint, wire::kAccess, head, origin_, sent_, stored);
  if (post == Post::again || post == Post::failed) return post;
  blocks_.clear();
  sent_ += header_.bytes;
  ++target_->accessed->queue.in_flight;
  if (sent_ == bytes_) target_->accessed->queue.accesses.pop_front();
  return Post::done;
}

void MessageAccess::make_piece(std::uint64_t room) noexcept {
  room_ = room;
  header_.bytes = collect_blocks(room - sizeof header_);
  header_.first = blocks_.front();
  header_.more = static_cast<std::uint32_t>(blocks_.size() - 1);
  header_.flags &= static_cast<std::uint8_t>(~wire::kCounted);
  if (counted_ && sent_ + header_.bytes == bytes_) header_.flags |= wire::kCounted;
  if (header_.more == 0) return;
  const ByteSpan more = std::as_bytes(std::span{blocks_}.subspan(1));
  long_head_.resize(sizeof header_ + more.size());
  std::ranges::copy(bytes_of(header_), long_head_.begin());
  std::ranges::copy(more, long_head_.begin() + sizeof header_);
}

std::uint32_t MessageAccess::collect_blocks(std::uint64_t room) noexcept {
  const std::uint64_t base = window_->flavor() == Flavor::dynamic ? 0 : target_->base;
  if (contiguous_ != nullptr) {
    const std::uint64_t left = bytes_ - sent_;
    const auto bytes = static_cast<std::uint32_t>(left <= room ? left : room / unit_ * unit_);
    blocks_.assign(1, {reinterpret_cast<std::uint64_t>(contiguous_) + sent_ - base, 0, bytes, 1});
    return bytes;
  }
  const auto sent = static_cast<std::int64_t>(sent_);
  if (there_.position() != sent) there_.seek(sent);  // the last piece was cut, or is made anew
  room -= 3 * sizeof(wire::Blocks);                  // for the run that is being collected, the one after it, and cut()
  blocks_.clear();
  wire::Blocks run{};  // of memory; the Cursor may give it in several pieces
  std::uint64_t bytes = 0;
  const auto limit = [&] { return std::min(room, bytes_ - sent_); };
  while (room > sizeof run && bytes < limit()) {
    const datatype::Piece piece = there_.next_piece(limit() - bytes);
    const std::uint64_t displacement = reinterpret_cast<std::uint64_t>(piece.data) - base;
    bytes += piece.bytes;
    if (run.bytes != 0 && displacement == run.displacement + run.bytes) {
      run.bytes += static_cast<std::uint32_t>(piece.bytes);
      continue;
    }
    if (run.bytes != 0 && append(run)) room -= sizeof run;
    run = {displacement, 0, static_cast<std::uint32_t>(piece.bytes), 1};
  }
  append(run);
  const std::uint64_t kept = std::min(bytes, limit()) / unit_ * unit_;
  cut(bytes - kept);
  return static_cast<std::uint32_t>(kept);
}

bool MessageAccess::append(const wire::Blocks& run) {
  if (!blocks_.empty()) {
    wire::Blocks& last = blocks_.back();
    const std::uint64_t distance = run.displacement - last.displacement;
    if (run.bytes == last.bytes && (last.count == 1 || distance == last.count * last.stride)) {
      if (last.count == 1) last.stride = distance;
      ++last.count;
      return false;
    }
  }
  blocks_.push_back(run);
  return true;
}

void MessageAccess::cut(std::uint64_t bytes) noexcept {
  while (bytes != 0) {
    wire::Blocks& last = blocks_.back();
    const auto rest = static_cast<std::uint32_t>(last.bytes - std::min<std::uint64_t>(bytes, last.bytes));
    bytes -= last.bytes - rest;
    if (last.count > 1) {
      --last.count;
      if (rest != 0) blocks_.push_back({last.displacement + last.count * last.stride, 0, rest, 1});
    } else if (rest != 0) {
      last.bytes = rest;
    } else {
      blocks_.pop_back();
    }
  }
}

void MessageAccess::on_reply(const wire::AccessReply& reply, ByteSpan data) noexcept {
  Target& target = *target_;
  --target.accessed->queue.in_flight;
  // The target answers for the bytes of each piece in the order in which they were sent.
  const std::uint64_t bytes = std::min<std::uint64_t>(reply.bytes, sent_ - answered_);
  if (reply.error != MPI_SUCCESS) {
    if (outcome_.error == MPI_SUCCESS) outcome_.error = static_cast<int>(reply.error);
  } else if (header_.has(wire::kFetches) && data.size() != bytes) {
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
