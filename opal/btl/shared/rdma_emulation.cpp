// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/shared/rdma_emulation.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

#include "opal/btl/module.hpp"
#include "opal/btl/shared/message_transport.hpp"
#include "opal/btl/shared/pipelined_transfers.hpp"
#include "opal/btl/shared/registrations/claims.hpp"
#include "opal/core/copy.hpp"
#include "opal/core/log.hpp"
#include "opal/core/system/guarded_copy.hpp"
#include "opal/gpu/copies/copy.hpp"

namespace opal::btl {
namespace {

/// Gets of one peer that wait at a time.  A correct initiator never has more operations in flight.
constexpr std::size_t kMostGets = RdmaOperations::kMost;
/// Queued answers per peer; a correct peer causes fewer.  It has at most RdmaOperations::kMost operations in flight.  A
/// refused put may be answered at its first and its last piece; a transfer requests two registrations at a time.
constexpr std::size_t kMostAnswers = 4 * RdmaOperations::kMost;

/// Removes a header from the front of a peer's message.  False: the message is too short.
template <class T>
bool take(ByteSpan& message, T& header) noexcept {
  if (!read_object(message, header)) return false;
  message = message.subspan(sizeof header);
  return true;
}

/// Removes a handle of `size` bytes from the front.  Errors: protocol.
Result<MemoryHandle> take_handle(ByteSpan& message, std::uint64_t size) noexcept {
  if (size > message.size()) return Error{Errc::protocol, 0, "emulated put/get: truncated handle", size};
  auto handle = MemoryHandle::from_bytes(message.first(size));
  message = message.subspan(size);
  return handle;
}

std::byte* at(std::uint64_t address) noexcept { return reinterpret_cast<std::byte*>(address); }

/// The error code when the memory of a valid registration is unmapped or protected.
constexpr Errc kNoSuchMemory = Errc::invalid_argument;

/// Checks an access at the initiator.  Otherwise a put with a wrong size would read beyond its source before the
/// target's error arrives.  The target checks again.
Result<void> check_here(const MemoryHandle& handle, std::uint64_t address, std::uint64_t size, Rights wanted) noexcept {
  const auto claims = SoftwareHandle::decode(handle);
  if (!claims) return Error{Errc::invalid_argument, 0, claims.error().where, claims.error().detail};
  return check_claims(*claims, address, size, wanted);
}

/// Whether the range at the target is GPU memory.
bool on_gpu(std::uint64_t base, std::uint64_t total) noexcept {
  return gpu::active() && total != 0 && !gpu::is_host(at(base));
}

/// Whether a piece with `size` bytes of data is inside of its put.
bool fits(const wire::PutPiece& piece, std::uint64_t size) noexcept {
  return piece.offset <= piece.total && size <= piece.total - piece.offset;
}

/// Whether a piece with `size` bytes of data is the next one of a get.
bool follows(const wire::GetPiece& piece, std::uint64_t size, const RdmaOperation& operation) noexcept {
  return piece.offset == operation.moved && size <= operation.total - operation.moved;
}

}  // namespace

// --- Initiator

/// Sends pieces of a put.  True: all are sent.
bool RdmaEmulation::send_put_pieces(RdmaOperation& operation) noexcept {
  const ByteSpan handle = operation.handle.bytes();
  const std::size_t room = max_send() - sizeof(wire::PutPiece) - handle.size();
  // At most a few pieces at a time, so that operations take turns.
  for (int turn = 0; turn < 8; ++turn) {
    const std::uint64_t size = std::min<std::uint64_t>(room, operation.total - operation.moved);
    const wire::PutPiece piece{operations_.name_of(operation), operation.base, operation.total, operation.moved,
                               handle.size()};
    std::byte header[sizeof piece + MemoryHandle::kMaxSize];
    std::memcpy(header, &piece, sizeof piece);
    std::copy(handle.begin(), handle.end(), header + sizeof piece);
    const Post post = module_.send_inline(*operation.to, wire::kPutPiece, {header, sizeof piece + handle.size()},
                                          {operation.local + operation.moved, size});
    if (post != Post::done) return false;  // again; or dead, then endpoint_gone() ends the operation
    operation.moved += size;
    if (operation.moved == operation.total) return true;
  }
  return false;
}

Post RdmaEmulation::transfer(RdmaOperation::Kind kind, Endpoint& to, std::byte* here, std::uint64_t remote_address,
                             const MemoryHandle& remote, std::uint64_t size, Completion& completion) noexcept {
  if (to.dead()) return refuse(completion, to.error());
  if (auto checked = check_here(remote, remote_address, size, right_for(kind)); !checked) {
    return refuse(completion, checked.error());
  }
  RdmaOperation* operation = operations_.begin(kind, to, completion, this);
  if (operation == nullptr) return Post::again;
  completion.error = {};
  operation->local = here;
  operation->total = size;
  if (kind == RdmaOperation::Kind::put) {
    operation->base = remote_address;
    operation->handle = remote;
    if (!send_put_pieces(*operation)) {
      sending_.push_back(operation);
      busy_ = true;
    }
    return Post::queued;
  }
  const wire::GetRequest request{operations_.name_of(*operation), remote_address, size, remote.bytes().size()};
  const Post post = module_.send_inline(to, wire::kGetRequest, bytes_of(request), remote.bytes());
  if (post == Post::done) return Post::queued;
  (void)operations_.end(*operation);
  if (post == Post::failed) completion.error = to.error();
  return post;
}

Post RdmaEmulation::atomic(Endpoint& to, const AtomicRequest& request, Completion& completion) noexcept {
  if (to.dead()) return refuse(completion, to.error());
  if (auto checked = check_request(request); !checked) return refuse(completion, checked.error());
  const std::size_t size = size_of(request.type);
  if (auto checked = check_here(*request.remote, request.remote_address, size, Rights::remote_atomic); !checked) {
    return refuse(completion, checked.error());
  }
  RdmaOperation* operation = operations_.begin(RdmaOperation::Kind::atomic, to, completion, this);
  if (operation == nullptr) return Post::again;
  completion.error = {};
  operation->result = request.result;
  const ByteSpan handle = request.remote->bytes();
  const wire::AtomicRequest message{operations_.name_of(*operation),
                                    request.remote_address,
                                    request.operand,
                                    request.compare,
                                    static_cast<std::uint32_t>(request.op),
                                    static_cast<std::uint32_t>(request.type),
                                    handle.size()};
  const Post post = module_.send_inline(to, wire::kAtomicRequest, bytes_of(message), handle);
  if (post == Post::done) return Post::queued;
  (void)operations_.end(*operation);
  if (post == Post::failed) completion.error = to.error();
  return post;
}

void RdmaEmulation::finish(RdmaOperation& operation, const Error& why) noexcept {
  std::erase(sending_, &operation);
  operations_.finish(operation, why);
}

// --- Target

Place RdmaEmulation::place_put_piece(Endpoint& /*from*/, ByteSpan head, std::size_t size) noexcept {
  wire::PutPiece piece{};
  const std::size_t before = head.size();
  if (!take(head, piece)) return {};
  const auto handle = take_handle(head, piece.handle_size);
  const std::size_t header = before - head.size();
  if (!handle || !fits(piece, size - header)) return {};
  if (!registrations().check(*handle, piece.base, piece.total, Rights::remote_write)) return {};
  if (on_gpu(piece.base, piece.total)) return {};
  return {at(piece.base + piece.offset), header};
}

void RdmaEmulation::on_put_piece(Delivery& delivery) noexcept {
  ByteSpan data = delivery.data;
  wire::PutPiece piece{};
  if (!take(data, piece)) return;
  auto handle = take_handle(data, piece.handle_size);
  const std::uint64_t size = data.size() + delivery.placed;
  if (!handle || !fits(piece, size)) return reply(delivery.from, piece.operation, Errc::protocol);
  // Check the whole range at each piece: a put that is partly outside writes nothing, and a put stops when its
  // registration ends meanwhile.
  const auto checked = registrations().check(*handle, piece.base, piece.total, Rights::remote_write);
  if (checked && !delivery.lost && on_gpu(piece.base, piece.total)) return gather(delivery.from, piece, *handle, data);
  // Answer every refused piece, since later pieces may succeed again.  The first answer ends the operation.
  if (!checked) {
    reply(delivery.from, piece.operation, checked.error().code);
  } else if (delivery.lost || !guarded_copy(at(piece.base + piece.offset), data.data(), data.size())) {
    reply(delivery.from, piece.operation, kNoSuchMemory);
  } else if (piece.offset + size == piece.total) {
    reply(delivery.from, piece.operation, Errc{});
  }
}

/// True if the next `size` bytes of a get are in `staged_`.
bool RdmaEmulation::is_staged(const Endpoint& to, const Serving& serving, std::uint64_t size) const noexcept {
  const std::uint64_t address = serving.base + serving.sent;
  return staged_.to == &to && staged_.operation == serving.operation && address >= staged_.address &&
         address + size <= staged_.address + staged_.size;
}

/// Copies the next `size` bytes of a get to `staged_`; of GPU memory more, for the pieces after them.
Result<void> RdmaEmulation::stage(const Endpoint& to, const Serving& serving, std::uint64_t size) noexcept {
  const std::uint64_t address = serving.base + serving.sent;
  staged_.to = nullptr;
  if (serving.on_gpu) {
    OPAL_TRY(make_gpu());
    if (!on_gpu(serving.base, serving.total)) return Error{kNoSuchMemory, 0, "get: not GPU memory any more", address};
    staged_.data = gpu_->memory.pages.data();
    size = std::min(gpu_window() / size * size, serving.total - serving.sent);  // whole pieces
    OPAL_TRY(gpu::copy(staged_.data, at(address), size));
  } else {
    constexpr std::uintptr_t kPage = 4096;
    if (staged_.bytes.size() < size + 2 * kPage) staged_.bytes.resize(size + 2 * kPage);
    const auto begin = reinterpret_cast<std::uintptr_t>(staged_.bytes.data());
    staged_.data = staged_.bytes.data() + (address - begin) % kPage;
    if (!guarded_copy(staged_.data, at(address), size)) return Error{kNoSuchMemory, 0, "get: not accessible", address};
  }
  staged_.to = &to;
  staged_.operation = serving.operation;
  staged_.address = address;
  staged_.size = size;
  return {};
}

bool RdmaEmulation::send_get_pieces(Endpoint& to, Serving& serving) noexcept {
  const std::size_t room = max_send() - sizeof(wire::GetPiece);
  for (int turn = 0; turn < 8; ++turn) {
    if (auto checked = registrations().check(serving.handle, serving.base, serving.total, Rights::remote_read);
        !checked) {
      reply(to, serving.operation, checked.error().code);
      return true;
    }
    const std::uint64_t size = std::min<std::uint64_t>(room, serving.total - serving.sent);
    if (!is_staged(to, serving, size)) {
      if (serving.on_gpu && turn != 0) return false;  // the turn of others, before more is copied
      if (const auto staged = stage(to, serving, size); !staged) {
        reply(to, serving.operation, staged.error().code);
        return true;
      }
    }
    const wire::GetPiece piece{serving.operation, serving.sent};
    const std::byte* const data = staged_.data + (serving.base + serving.sent - staged_.address);
    const Post post = module_.send_inline(to, wire::kGetPiece, bytes_of(piece), {data, size});
    if (post == Post::again) return false;
    serving.sent += size;
    if (post == Post::done && serving.sent != serving.total) continue;
    staged_.to = nullptr;
    return true;  // all is sent, or the endpoint is dead: endpoint_gone() drops the others
  }
  return false;
}

void RdmaEmulation::on_get_request(Delivery& delivery) noexcept {
  ByteSpan data = delivery.data;
  wire::GetRequest request{};
  if (!take(data, request)) return;
  auto handle = take_handle(data, request.handle_size);
  if (!handle) return reply(delivery.from, request.operation, Errc::protocol);
  Serving serving{request.operation, request.base, request.total, 0, on_gpu(request.base, request.total), *handle};
  if (!gets_.contains(&delivery.from) && send_get_pieces(delivery.from, serving)) return;
  std::deque<Serving>& waiting = gets_[&delivery.from];
  if (waiting.size() >= kMostGets) {
    return reply(delivery.from, request.operation, Errc::limit_reached);
  }
  waiting.push_back(serving);
  busy_ = true;
}

void RdmaEmulation::on_atomic_request(Delivery& delivery) noexcept {
  ByteSpan data = delivery.data;
  wire::AtomicRequest request{};
  if (!take(data, request)) return;
  const auto refuse = [&](Errc code) { reply(delivery.from, request.operation, code); };
  auto handle = take_handle(data, request.handle_size);
  if (!handle || request.op > 0xff || request.type > 0xff) return refuse(Errc::protocol);
  const auto op = static_cast<AtomicOp>(request.op);
  const auto type = static_cast<AtomicType>(request.type);
  if (!is_supported(op, type)) return refuse(Errc::not_supported);
  if (request.address % size_of(type) != 0) return refuse(Errc::invalid_argument);
  if (auto checked = registrations().check(*handle, request.address, size_of(type), Rights::remote_atomic); !checked) {
    return refuse(checked.error().code);
  }
  if (!gpu::is_host(at(request.address))) return refuse(Errc::not_supported);  // the processor cannot access GPU memory
  std::uint64_t old = 0;
  const bool done = guarded_access(at(request.address), size_of(type), [&] {
    old = execute_atomic(op, type, at(request.address), request.operand, request.compare);
  });
  reply(delivery.from, request.operation, done ? Errc{} : kNoSuchMemory, old);
}

// --- GPU memory of the target

std::size_t RdmaEmulation::gpu_window() const noexcept {
  constexpr std::size_t kLeast = 256 << 10;  // a copy of less takes as long as the call of the driver
  return std::max(kLeast, max_send());
}

/// Errors: no_memory.
Result<void> RdmaEmulation::make_gpu() noexcept {
  if (gpu_ != nullptr) return {};
  OPAL_TRY_ASSIGN(gpu::StagingMemory memory, gpu::StagingMemory::make(2 * gpu_window()));
  gpu_ = std::make_unique<Gpu>(Gpu{std::move(memory), {}});
  return {};
}

/// Keeps a piece of a put until it is the last, or the next piece does not follow it or has no room.
void RdmaEmulation::gather(Endpoint& from, const wire::PutPiece& piece, const MemoryHandle& handle,
                           ByteSpan data) noexcept {
  if (const auto made = make_gpu(); !made) return reply(from, piece.operation, made.error().code);
  Gathered& gathered = gpu_->gathered;
  const bool follows = gathered.from == &from && gathered.operation == piece.operation && gathered.base == piece.base &&
                       gathered.total == piece.total && gathered.offset + gathered.size == piece.offset &&
                       data.size() <= gpu_window() - gathered.size;
  if (!follows) {
    copy_gathered();
    const Gathered first{&from, piece.operation, piece.base, piece.total, piece.offset, 0, handle};
    if (data.size() > gpu_window()) return copy_to_gpu(first, data);  // the peer has a larger max_send than this module
    gathered = first;
  }
  copy_host_memory(gpu_->memory.pages.data() + gpu_window() + gathered.size, data.data(), data.size());
  gathered.size += data.size();
  if (piece.offset + data.size() == piece.total) copy_gathered();
}

/// Copies `data` to the GPU, from `put.offset` on.  Answers the last piece, and an error.
void RdmaEmulation::copy_to_gpu(const Gathered& put, ByteSpan data) noexcept {
  // The registration may have ended, or the program may have freed the memory, since the pieces arrived.
  auto result = registrations().check(put.handle, put.base, put.total, Rights::remote_write);
  if (result && !on_gpu(put.base, put.total))
    result = Error{kNoSuchMemory, 0, "put: not GPU memory any more", put.base};
  if (result) result = gpu::copy(at(put.base + put.offset), data.data(), data.size());
  const bool last = put.offset + data.size() == put.total;
  if (last || !result) reply(*put.from, put.operation, result ? Errc{} : result.error().code);
}

/// Copies what was gathered to the GPU.
void RdmaEmulation::copy_gathered() noexcept {
  const Gathered put = std::exchange(gpu_->gathered, {});
  if (put.from != nullptr) copy_to_gpu(put, {gpu_->memory.pages.data() + gpu_window(), put.size});
}

// --- Answers

void RdmaEmulation::answer(Endpoint& to, Tag tag, ByteSpan header, ByteSpan handle) noexcept {
  if (!answers_.contains(&to) && module_.send_inline(to, tag, header, handle) != Post::again) return;
  std::deque<Answer>& waiting = answers_[&to];
  if (waiting.size() >= kMostAnswers) {
    return log::once(log::Level::warn, "emulation flood", "btl",
                     "peer {} posts more operations than it may; answers dropped", to_string(to.peer()));
  }
  Answer& answer = waiting.emplace_back(Answer{tag, {header.begin(), header.end()}});
  answer.bytes.insert(answer.bytes.end(), handle.begin(), handle.end());
  busy_ = true;
}

void RdmaEmulation::reply(Endpoint& to, std::uint64_t operation, Errc code, std::uint64_t value) noexcept {
  const wire::Reply reply{operation, value, static_cast<std::uint64_t>(code)};
  answer(to, wire::kReply, bytes_of(reply));
}

/// The get that `piece` of `size` bytes belongs to; null: it has ended meanwhile.
RdmaOperation* RdmaEmulation::get_of(const wire::GetPiece& piece, Endpoint& from) noexcept {
  RdmaOperation* const operation = operations_.find(piece.operation, from, this);
  return operation != nullptr && operation->kind == RdmaOperation::Kind::get ? operation : nullptr;
}

Place RdmaEmulation::place_get_piece(Endpoint& from, ByteSpan head, std::size_t size) noexcept {
  wire::GetPiece piece{};
  if (!read_object(head, piece)) return {};
  const RdmaOperation* const get = get_of(piece, from);
  if (get == nullptr || !follows(piece, size - sizeof piece, *get) || !gpu::is_host(get->local)) return {};
  return {get->local + get->moved, sizeof piece};
}

void RdmaEmulation::on_get_piece(Delivery& delivery) noexcept {
  ByteSpan data = delivery.data;
  wire::GetPiece piece{};
  if (!take(data, piece)) return;
  RdmaOperation* const operation = get_of(piece, delivery.from);
  if (operation == nullptr) return;
  if (!follows(piece, data.size() + delivery.placed, *operation)) {
    return finish(*operation, {Errc::protocol, 0, "emulated get: a piece out of place", piece.offset});
  }
  if (delivery.lost) {
    return finish(*operation, {kNoSuchMemory, 0, "get: the local memory is not accessible", piece.offset});
  }
  if (const auto copied = gpu::copy(operation->local + operation->moved, data.data(), data.size()); !copied) {
    return finish(*operation, copied.error());
  }
  operation->moved += data.size() + delivery.placed;
  if (operation->moved == operation->total) finish(*operation, {});
}

void RdmaEmulation::on_reply(Delivery& delivery) noexcept {
  wire::Reply reply{};
  if (!read_object(delivery.data, reply)) return;
  RdmaOperation* operation = operations_.find(reply.operation, delivery.from, this);
  if (operation == nullptr) return;  // ended meanwhile
  if (reply.code != 0) {
    const bool known = reply.code <= static_cast<std::uint64_t>(Errc::internal);
    return finish(*operation, {known ? static_cast<Errc>(reply.code) : Errc::protocol, 0, "refused by the target",
                               operation->base});
  }
  const bool all_sent = operation->kind != RdmaOperation::Kind::put || operation->moved == operation->total;
  if (operation->kind == RdmaOperation::Kind::get || !all_sent) {
    return finish(*operation, {Errc::protocol, 0, "emulated put/get: an answer to what was not asked"});
  }
  if (operation->kind == RdmaOperation::Kind::atomic && operation->result != nullptr) *operation->result = reply.value;
  finish(*operation, {});
}

// --- Life

Result<void> RdmaEmulation::install(HandlerTable& handlers) {
  OPAL_TRY(handlers.set(wire::kPutPiece,
                        bind_by_sender<&of, &RdmaEmulation::on_put_piece, &RdmaEmulation::place_put_piece>("put")));
  OPAL_TRY(handlers.set(wire::kGetRequest, bind_by_sender<&of, &RdmaEmulation::on_get_request>("get")));
  OPAL_TRY(
      handlers.set(wire::kGetPiece,
                   bind_by_sender<&of, &RdmaEmulation::on_get_piece, &RdmaEmulation::place_get_piece>("get piece")));
  OPAL_TRY(handlers.set(wire::kAtomicRequest, bind_by_sender<&of, &RdmaEmulation::on_atomic_request>("atomic")));
  OPAL_TRY(handlers.set(wire::kReply, bind_by_sender<&of, &RdmaEmulation::on_reply>("reply")));
  OPAL_TRY(PipelinedTransfers::install(handlers));
  return handlers.set(wire::kMarker, {&MessageTransport::on_marker, nullptr, "checkpoint"});
}

std::size_t RdmaEmulation::send_waiting() noexcept {
  std::size_t count = 0;
  for (std::size_t i = 0; i < sending_.size();) {
    RdmaOperation& operation = *sending_[i];
    const std::uint64_t before = operation.moved;
    if (send_put_pieces(operation)) {
      sending_.erase(sending_.begin() + static_cast<std::ptrdiff_t>(i));
      ++count;
    } else {
      count += operation.moved != before ? 1 : 0;
      ++i;
    }
  }
  for (auto entry = answers_.begin(); entry != answers_.end();) {
    auto& [endpoint, messages] = *entry;
    while (!messages.empty() &&
           module_.send_inline(*endpoint, messages.front().tag, messages.front().bytes, {}) != Post::again) {
      messages.pop_front();
      ++count;
    }
    entry = messages.empty() ? answers_.erase(entry) : std::next(entry);
  }
  for (auto entry = gets_.begin(); entry != gets_.end();) {
    auto& [endpoint, waiting] = *entry;
    // Round-robin: the get at the head sends some pieces and moves to the back, so a small get does not wait for all of
    // a large one.  What is staged of GPU memory is sent first.
    const std::uint64_t before = waiting.front().sent;
    const bool ended = send_get_pieces(*endpoint, waiting.front());
    const bool moved = waiting.front().sent != before;
    count += ended || moved ? 1 : 0;
    const bool keeps = waiting.front().on_gpu && is_staged(*endpoint, waiting.front(), 1);
    const bool rotates = !ended && moved && !keeps && waiting.size() > 1;
    if (rotates) waiting.push_back(waiting.front());
    if (ended || rotates) waiting.pop_front();
    entry = waiting.empty() ? gets_.erase(entry) : std::next(entry);
  }
  busy_ = !idle();
  return count;
}

std::size_t RdmaEmulation::active() const noexcept { return operations_.active(this); }

void RdmaEmulation::endpoint_gone(Endpoint& endpoint, const Error& why) noexcept {
  gets_.erase(&endpoint);
  if (staged_.to == &endpoint) staged_.to = nullptr;
  answers_.erase(&endpoint);
  if (gpu_ != nullptr && gpu_->gathered.from == &endpoint) gpu_->gathered.from = nullptr;
  operations_.for_each(endpoint, this, [&](RdmaOperation& operation) { finish(operation, why); });
}

}  // namespace opal::btl
