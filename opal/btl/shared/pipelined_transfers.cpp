// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/shared/pipelined_transfers.hpp"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "opal/btl/module.hpp"
#include "opal/btl/shared/rdma_emulation.hpp"
#include "opal/btl/shared/rdma_wire.hpp"
#include "opal/btl/shared/registrations/registration_table.hpp"
#include "opal/rcache/cache.hpp"

namespace opal::btl {
namespace {

bool is_software(const MemoryHandle& handle) noexcept { return handle.bytes().size() == sizeof(SoftwareHandle); }

}  // namespace

bool PipelinedTransfers::takes(const MemoryHandle& remote) const noexcept { return is_software(remote); }

bool PipelinedTransfers::takes(const MemoryHandle* local, const MemoryHandle& remote,
                               std::uint64_t size) const noexcept {
  if (is_software(remote)) return true;
  const rcache::Cache* const cache = module_.registrations();
  return local == nullptr && cache != nullptr && size > cache->config().max_chunk.bytes;
}

std::uint64_t PipelinedTransfers::piece_size() const noexcept {
  constexpr std::uint64_t kPage = 4096;
  const rcache::Cache* const cache = module_.registrations();
  return std::max<std::uint64_t>((cache != nullptr ? cache->config() : rcache::Config{}).max_chunk.bytes / 2, kPage);
}

Post PipelinedTransfers::put(Endpoint& to, const void* source, const MemoryHandle* local, std::uint64_t remote_address,
                             const MemoryHandle& remote, std::uint64_t size, Completion& completion) noexcept {
  auto* const bytes = const_cast<std::byte*>(static_cast<const std::byte*>(source));  // only read
  return begin(RdmaOperation::Kind::put, to, bytes, local, remote_address, remote, size, completion);
}

Post PipelinedTransfers::get(Endpoint& to, void* destination, const MemoryHandle* local, std::uint64_t remote_address,
                             const MemoryHandle& remote, std::uint64_t size, Completion& completion) noexcept {
  return begin(RdmaOperation::Kind::get, to, static_cast<std::byte*>(destination), local, remote_address, remote, size,
               completion);
}

/// A transfer of the operation just begun, with nothing started.
PipelinedTransfers::Transfer& PipelinedTransfers::open(RdmaOperation& operation, const MemoryHandle& remote) noexcept {
  while (transfers_.size() <= operation.slot) transfers_.emplace_back();
  Transfer& transfer = transfers_[operation.slot];
  transfer.operation = &operation;
  transfer.owner = this;
  transfer.size = 0;
  transfer.started = 0;
  transfer.whole = is_software(remote);
  transfer.has_local = false;
  transfer.error = {};
  transfer.remote = remote;
  for (std::uint32_t i = 0; i < transfer.pieces.size(); ++i) {
    Piece& piece = transfer.pieces[i];
    piece.fn = [](Completion& self) noexcept {
      auto& ended = static_cast<Piece&>(self);
      ended.transfer->owner->end_piece(ended, ended.error);
    };
    piece.transfer = &transfer;
    piece.index = i;
  }
  ++active_;
  return transfer;
}

/// What the caller of a post is told; the completion is not called for what has ended by now.
Post PipelinedTransfers::answer(Transfer& transfer, bool goes_on) noexcept {
  if (goes_on) return Post::queued;
  Completion& completion = operations_.end(*std::exchange(transfer.operation, nullptr));
  --active_;
  completion.error = transfer.error;
  return completion.ok() ? Post::done : Post::failed;
}

Post PipelinedTransfers::begin(RdmaOperation::Kind kind, Endpoint& to, std::byte* bytes, const MemoryHandle* local,
                               std::uint64_t remote_address, const MemoryHandle& remote, std::uint64_t size,
                               Completion& completion) noexcept {
  if (to.dead()) return completion.error = to.error(), Post::failed;
  if (size == 0 || (is_software(remote) && size <= module_.attributes().eager)) {
    // Not worth a registration; and the bounds are checked also where nothing moves.
    return kind == RdmaOperation::Kind::put ? emulation_.put(to, bytes, remote_address, remote, size, completion)
                                            : emulation_.get(to, bytes, remote_address, remote, size, completion);
  }
  RdmaOperation* const operation = operations_.begin(kind, to, completion, this);
  if (operation == nullptr) return Post::again;
  completion.error = {};
  Transfer& transfer = open(*operation, remote);
  transfer.bytes = bytes;
  transfer.address = remote_address;
  transfer.size = size;
  transfer.has_local = local != nullptr;
  if (local != nullptr) transfer.local = *local;
  return answer(transfer, advance(transfer));
}

Post PipelinedTransfers::atomic(Endpoint& to, const AtomicRequest& request, Completion& completion) noexcept {
  return emulation_.atomic(to, request, completion);
}

/// Goes on as far as it gets; false when all has ended.
bool PipelinedTransfers::advance(Transfer& transfer) noexcept {
  if (std::exchange(transfer.advancing, true)) return true;  // a piece ended while its post was being looked at
  bool blocked = false;
  bool active = false;
  for (Piece& piece : transfer.pieces) {
    for (;;) {
      if (transfer.error.code != Errc{} && waits(piece)) {  // not worth it any more
        release(transfer, piece);
        piece.state = Piece::State::free;
      }
      if (piece.state == Piece::State::free) start(transfer, piece);
      if (piece.state == Piece::State::free) break;
      const bool went = step(transfer, piece);
      blocked = blocked || !went;
      if (!went || piece.state == Piece::State::asked || piece.state == Piece::State::moving) break;
    }
    active = active || piece.state != Piece::State::free;
  }
  transfer.advancing = false;
  if (active && blocked && !std::exchange(transfer.waiting, true)) waiting_.push_back(&transfer);
  return active;
}

void PipelinedTransfers::start(Transfer& transfer, Piece& piece) noexcept {
  if (transfer.error.code != Errc{} || transfer.started == transfer.size) return;
  // Pieces end at round addresses, where the registration is likely to be shared: of the owner's memory or of ours.
  const std::uint64_t at =
      (transfer.whole ? transfer.address : reinterpret_cast<std::uint64_t>(transfer.bytes)) + transfer.started;
  piece.offset = transfer.started;
  piece.size = rcache::first_chunk(at, transfer.size - transfer.started, piece_size());
  piece.state = transfer.whole ? Piece::State::to_ask : Piece::State::to_move;
  transfer.started += piece.size;
}

/// False when it has to wait for progress().
bool PipelinedTransfers::step(Transfer& transfer, Piece& piece) noexcept {
  if (piece.state == Piece::State::to_ask) return ask(transfer, piece);
  if (piece.state == Piece::State::to_move) {
    return transfer.whole && !piece.lent ? emulate(transfer, piece) : move(transfer, piece);
  }
  return true;  // its end will come
}

bool PipelinedTransfers::ask(Transfer& transfer, Piece& piece) noexcept {
  const RdmaOperation& operation = *transfer.operation;
  const bool put = operation.kind == RdmaOperation::Kind::put;
  const wire::LendRequest request{operations_.name_of(operation),
                                  transfer.address,
                                  transfer.size,
                                  transfer.address + piece.offset,
                                  piece.size,
                                  static_cast<std::uint32_t>(put ? Rights::remote_write : Rights::remote_read),
                                  piece.index};
  const Post post = module_.send_inline(*operation.to, wire::kLendRequest, bytes_of(request), transfer.remote.bytes());
  if (post == Post::again) return false;
  piece.state = Piece::State::asked;
  if (post == Post::failed) end_piece(piece, operation.to->error());
  return true;
}

void PipelinedTransfers::on_lent(Delivery& delivery) noexcept {
  wire::Lent lent{};
  if (!read_object(delivery.data, lent)) return;
  const RdmaOperation* const operation = operations_.find(lent.operation, delivery.from, this);
  const bool ours = operation != nullptr && lent.piece < 2 &&
                    transfers_[operation->slot].pieces[lent.piece].state == Piece::State::asked;
  if (!ours) {
    if (lent.code == 0) give_back(delivery.from, lent.name);  // ended meanwhile
    return;
  }
  Transfer& transfer = transfers_[operation->slot];
  Piece& piece = transfer.pieces[lent.piece];
  piece.state = Piece::State::to_move;
  if (lent.code == 0) {
    const auto handle = MemoryHandle::from_bytes(delivery.data.subspan(sizeof lent));
    piece.lent = true;
    piece.lent_name = lent.name;
    if (!handle) return end_piece(piece, handle.error());
    piece.device = *handle;
    // A device's handle, or asking would start again.
    if (is_software(*handle)) return end_piece(piece, {Errc::protocol, 0, "lent registration: not a device's handle"});
  } else if (static_cast<Errc>(lent.code) != Errc::not_supported) {
    const bool known = lent.code <= static_cast<std::uint32_t>(Errc::internal);
    return end_piece(piece, {known ? static_cast<Errc>(lent.code) : Errc::protocol, 0,
                             "remote address space: refused by its owner", transfer.address + piece.offset});
  }
  if (!advance(transfer)) finish(transfer);
}

bool PipelinedTransfers::move(Transfer& transfer, Piece& piece) noexcept {
  MemoryHandle registered;
  const MemoryHandle* local = transfer.has_local ? &transfer.local : nullptr;
  if (rcache::Cache* const cache = module_.registrations(); local == nullptr && cache != nullptr) {
    if (!piece.local) {
      auto lease = cache->get(transfer.bytes + piece.offset, piece.size, static_cast<rcache::Access>(Rights::none));
      if (!lease) {
        // Operations of the device under way hold room, and end without us.
        if (lease.error().code == Errc::limit_reached && operations_.active() > active_ + emulation_.active()) {
          return false;
        }
        if (transfer.whole) return emulate(transfer, piece);
        return end_piece(piece, lease.error()), true;
      }
      piece.local = std::move(*lease);
    }
    registered = piece.local->cookie().get<MemoryHandle>();
    local = &registered;
  }
  Endpoint& to = *transfer.operation->to;
  const std::uint64_t address = transfer.address + piece.offset;
  const MemoryHandle& remote = transfer.whole ? piece.device : transfer.remote;
  std::byte* const bytes = transfer.bytes + piece.offset;
  piece.state = Piece::State::moving;
  const bool put = transfer.operation->kind == RdmaOperation::Kind::put;
  return take(transfer, piece,
              put ? module_.put(to, bytes, local, address, remote, piece.size, piece)
                  : module_.get(to, bytes, local, address, remote, piece.size, piece));
}

bool PipelinedTransfers::emulate(Transfer& transfer, Piece& piece) noexcept {
  release(transfer, piece);
  Endpoint& to = *transfer.operation->to;
  const std::uint64_t address = transfer.address + piece.offset;
  std::byte* const bytes = transfer.bytes + piece.offset;
  piece.state = Piece::State::moving;
  const bool put = transfer.operation->kind == RdmaOperation::Kind::put;
  return take(transfer, piece,
              put ? emulation_.put(to, bytes, address, transfer.remote, piece.size, piece)
                  : emulation_.get(to, bytes, address, transfer.remote, piece.size, piece));
}

/// What became of a piece's post; false: it has to be posted again.
bool PipelinedTransfers::take(Transfer& transfer, Piece& piece, Post post) noexcept {
  if (post == Post::again) {
    piece.state = Piece::State::to_move;
    return false;
  }
  if (post == Post::queued) return true;
  if (post == Post::failed && transfer.error.code == Errc{}) transfer.error = piece.error;
  release(transfer, piece);
  piece.state = Piece::State::free;
  return true;
}

/// Gives the piece's registrations back.
void PipelinedTransfers::release(Transfer& transfer, Piece& piece) noexcept {
  piece.local.reset();
  if (std::exchange(piece.lent, false)) give_back(*transfer.operation->to, piece.lent_name);
}

void PipelinedTransfers::end_piece(Piece& piece, const Error& why) noexcept {
  Transfer& transfer = *piece.transfer;
  if (transfer.error.code == Errc{}) transfer.error = why;
  release(transfer, piece);
  piece.state = Piece::State::free;
  if (!transfer.advancing && !advance(transfer)) finish(transfer);
}

void PipelinedTransfers::give_back(Endpoint& to, std::uint64_t name) noexcept {
  const wire::LentReturn returned{name};
  if (!to.dead() && module_.send_inline(to, wire::kLentReturn, bytes_of(returned), {}) == Post::again) {
    returns_.push_back({&to, name});
  }
}

void PipelinedTransfers::finish(Transfer& transfer) noexcept {
  if (std::exchange(transfer.waiting, false)) std::erase(waiting_, &transfer);
  RdmaOperation& operation = *std::exchange(transfer.operation, nullptr);
  --active_;
  operations_.finish(operation, transfer.error);
}

std::size_t PipelinedTransfers::progress() noexcept {
  std::size_t count = lent_.progress();
  for (std::size_t i = 0; i < returns_.size();) {
    const wire::LentReturn returned{returns_[i].name};
    if (module_.send_inline(*returns_[i].to, wire::kLentReturn, bytes_of(returned), {}) == Post::again) {
      ++i;
      continue;
    }
    returns_[i] = returns_.back();
    returns_.pop_back();
    ++count;
  }
  // Each that waits gets one turn; those that still wait come back.
  for (std::size_t turns = waiting_.size(); turns > 0 && !waiting_.empty(); --turns) {
    Transfer& transfer = *waiting_.front();
    waiting_.erase(waiting_.begin());
    transfer.waiting = false;
    const bool goes_on = advance(transfer);
    count += transfer.waiting ? 0 : 1;
    if (!goes_on) finish(transfer);
  }
  return count;
}

void PipelinedTransfers::endpoint_gone(Endpoint& endpoint, const Error& why) noexcept {
  lent_.endpoint_gone(endpoint);
  std::erase_if(returns_, [&](const Return& waiting) { return waiting.to == &endpoint; });
  for (std::size_t i = 0; i < transfers_.size(); ++i) {  // completions may post elsewhere, and so add some
    Transfer& transfer = transfers_[i];
    if (transfer.operation == nullptr || transfer.operation->to != &endpoint) continue;
    if (transfer.error.code == Errc{}) transfer.error = why;
    for (Piece& piece : transfer.pieces) {
      piece.lent = false;  // its owner takes it back by itself
      if (piece.state == Piece::State::asked) piece.state = Piece::State::to_ask;
    }
    if (!advance(transfer)) finish(transfer);
  }
}

Result<void> PipelinedTransfers::install(HandlerTable& handlers) {
  using Method = void (PipelinedTransfers::*)(Delivery&) noexcept;
  const auto set = [&]<Method method>(Tag tag, const char* name, std::integral_constant<Method, method>) {
    const auto fn = [](void*, Delivery& delivery) noexcept {
      // A transport without a device is not asked by honest peers.
      if (auto* const transfers = delivery.from.module().transfers(); transfers != nullptr) {
        (transfers->*method)(delivery);
      }
    };
    return handlers.set(tag, {fn, nullptr, name});
  };
  OPAL_TRY(set(wire::kLendRequest, "lend", std::integral_constant<Method, &PipelinedTransfers::on_lend_request>{}));
  OPAL_TRY(set(wire::kLentReturn, "return", std::integral_constant<Method, &PipelinedTransfers::on_lent_return>{}));
  return set(wire::kLent, "lent", std::integral_constant<Method, &PipelinedTransfers::on_lent>{});
}

}  // namespace opal::btl
