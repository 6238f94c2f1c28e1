// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/shared/pipelined_transfers.hpp"

#include <algorithm>
#include <utility>

#include "opal/btl/module.hpp"
#include "opal/btl/shared/rdma_emulation.hpp"
#include "opal/btl/shared/registrations/claims.hpp"
#include "opal/btl/shared/registrations/registration_table.hpp"
#include "opal/rcache/cache.hpp"

namespace opal::btl {
namespace {

constexpr std::size_t kMostLent = 64;  // registrations lent to one peer at a time; further requests get not_supported

bool is_software(const MemoryHandle& handle) noexcept { return handle.bytes().size() == sizeof(SoftwareHandle); }

/// Null: a module without a device, to which a correct peer sends no message of this class.
PipelinedTransfers* transfers_at(const Endpoint& from) noexcept { return from.module().transfers(); }

}  // namespace

bool PipelinedTransfers::takes(const MemoryHandle& remote) const noexcept { return is_software(remote); }

Post PipelinedTransfers::transfer(RdmaOperation::Kind kind, Endpoint& to, std::byte* local,
                                  const MemoryHandle* local_handle, std::uint64_t remote_address,
                                  const MemoryHandle& remote, std::uint64_t size, Completion& completion) noexcept {
  if (size <= module_.attributes().eager) {
    // By messages: a small transfer is not worth a registration, and for size 0 the emulation checks the bounds.
    return emulation_.transfer(kind, to, local, remote_address, remote, size, completion);
  }
  if (to.dead()) return refuse(completion, to.error());
  RdmaOperation* const operation = begin(kind, to, local, local_handle, remote_address, remote, size, completion);
  return operation != nullptr ? start(*operation) : Post::again;
}

// ---- Pieces

TransferPiece* PipelinedTransfers::take(RdmaOperation& operation) noexcept {
  while (pieces_.size() <= operation.slot) pieces_.push_back(std::make_unique<Pieces>());
  Pieces& pieces = *pieces_[operation.slot];
  const auto free = std::ranges::find_if(pieces, [](const Piece& each) { return each.operation == nullptr; });
  if (free == pieces.end()) return nullptr;
  free->state = Piece::State::to_ask;
  return &*free;
}

std::uint64_t PipelinedTransfers::plan(const RdmaOperation& operation, std::uint64_t offset,
                                       std::uint64_t left) const noexcept {
  constexpr std::uint64_t kPage = 4096;
  const rcache::Cache* const cache = module_.registrations();
  const rcache::Config config = cache != nullptr ? cache->config() : rcache::Config{};
  // Pieces end at round addresses, so that later transfers find the same registrations in the target's cache.
  return first_chunk(operation.base + offset, left, std::max<std::uint64_t>(config.max_chunk.bytes / 2, kPage));
}

TransferEngine::Move PipelinedTransfers::move(TransferPiece& moving) noexcept {
  auto& piece = static_cast<Piece&>(moving);
  if (piece.state == Piece::State::to_ask) return ask(piece);
  return piece.lent ? move_registered(piece) : move_by_messages(piece);
}

/// Returns the piece's registrations: the local lease, and what the target has lent.
void PipelinedTransfers::release(TransferPiece& ended) noexcept {
  auto& piece = static_cast<Piece&>(ended);
  piece.lease.reset();
  if (std::exchange(piece.lent, false)) give_back(*piece.operation->to, piece.lent_name);
}

TransferEngine::Move PipelinedTransfers::ask(Piece& piece) noexcept {
  RdmaOperation& operation = *piece.operation;
  const Rights wanted = right_for(operation.kind);
  const auto index = static_cast<std::uint32_t>(&piece - pieces_[operation.slot]->data());
  const wire::LendRequest request{
      operations_.name_of(operation),     operation.base, operation.total, piece.remote(), piece.size,
      static_cast<std::uint32_t>(wanted), index};
  const Post post = module_.send_inline(*operation.to, wire::kLendRequest, bytes_of(request), operation.handle.bytes());
  if (post == Post::again) return Move::held;
  if (post == Post::failed) return fail(operation, operation.to->error()), Move::ended;
  piece.state = Piece::State::asked;
  return Move::in_flight;
}

void PipelinedTransfers::on_lent(Delivery& delivery) noexcept {
  wire::Lent lent{};
  if (!read_object(delivery.data, lent)) return;
  RdmaOperation* const operation = find(lent.operation, delivery.from);
  Piece* const piece = operation != nullptr && lent.piece < std::tuple_size_v<Pieces>
                           ? &(*pieces_[operation->slot])[lent.piece]
                           : nullptr;
  if (piece == nullptr || piece->operation != operation || piece->state != Piece::State::asked) {
    if (lent.code == 0) give_back(delivery.from, lent.name);  // the operation has ended: return the registration unused
    return;
  }
  piece->state = Piece::State::moving;
  const Move outcome = take_lent(*piece, lent, delivery.data.subspan(sizeof lent));
  proceed(*piece, outcome == Move::ended || operation->failed() ? Move::ended : move(*piece));
}

/// Stores the target's answer in the piece.  ended: the operation has failed.
TransferEngine::Move PipelinedTransfers::take_lent(Piece& piece, const wire::Lent& lent, ByteSpan bytes) noexcept {
  RdmaOperation& operation = *piece.operation;
  const auto end = [&](const Error& why) { return fail(operation, why), Move::ended; };
  if (lent.code == 0) {
    const auto handle = MemoryHandle::from_bytes(bytes);
    piece.lent = true;
    piece.lent_name = lent.name;
    if (!handle) return end(handle.error());
    piece.lent_handle = *handle;
    // With a software handle the piece would send a LendRequest again.
    if (is_software(*handle)) return end({Errc::protocol, 0, "lent registration: not a device's handle"});
  } else if (static_cast<Errc>(lent.code) != Errc::not_supported) {
    const bool known = lent.code <= static_cast<std::uint32_t>(Errc::internal);
    return end({known ? static_cast<Errc>(lent.code) : Errc::protocol, 0, "remote address space: refused by its owner",
                piece.remote()});
  }
  return Move::in_flight;
}

TransferEngine::Move PipelinedTransfers::move_registered(Piece& piece) noexcept {
  RdmaOperation& operation = *piece.operation;
  MemoryHandle registered;
  const MemoryHandle* local = operation.has_local_handle ? &operation.local_handle : nullptr;
  if (rcache::Cache* const cache = module_.registrations(); local == nullptr && cache != nullptr) {
    if (!piece.lease) {
      auto lease = cache->get(piece.local(), piece.size, static_cast<rcache::Access>(Rights::none));
      if (!lease) {
        // Operations of the device in flight hold registrations, and their ends make room.
        const bool makes_room = operations_.active() > active() + emulation_.active();
        return lease.error().code == Errc::limit_reached && makes_room ? Move::held : move_by_messages(piece);
      }
      piece.lease = std::move(*lease);
    }
    registered = piece.lease->cookie().get<MemoryHandle>();
    local = &registered;
  }
  return outcome_of(piece, post(piece, *operation.to, piece.local(), local, piece.lent_handle));
}

TransferEngine::Move PipelinedTransfers::move_by_messages(Piece& piece) noexcept {
  release(piece);
  return outcome_of(piece, post(piece, emulation_, piece.operation->handle));
}

// ---- Returns, and the end of an endpoint

void PipelinedTransfers::give_back(Endpoint& to, std::uint64_t name) noexcept {
  const wire::LentReturn returned{name};
  if (!to.dead()) emulation_.answer(to, wire::kLentReturn, bytes_of(returned));
}

void PipelinedTransfers::endpoint_gone(Endpoint& endpoint, const Error& why) noexcept {
  lent_.erase(&endpoint);
  for (const auto& pieces : pieces_) {
    for (Piece& piece : *pieces) {
      if (piece.operation == nullptr || piece.operation->to != &endpoint) continue;
      piece.lent = false;  // the target ends its leases itself
      if (piece.state == Piece::State::asked) hold(piece);
    }
  }
  abandon(endpoint, why);
}

// ---- Target

Result<rcache::Lease> PipelinedTransfers::lend(std::size_t already_lent, const wire::LendRequest& request,
                                               ByteSpan handle_bytes) noexcept {
  const auto wanted = static_cast<Rights>(request.rights);
  if (wanted != Rights::remote_read && wanted != Rights::remote_write) {
    return Error{Errc::protocol, 0, "lent registrations: rights that no transfer needs", request.rights};
  }
  OPAL_TRY_ASSIGN(const MemoryHandle handle, MemoryHandle::from_bytes(handle_bytes));
  if (request.address < request.base || request.size > request.total ||
      request.address - request.base > request.total - request.size) {
    return Error{Errc::protocol, 0, "lent registrations: a piece outside its transfer", request.address};
  }
  OPAL_TRY(module_.parameters().registrations.check(handle, request.base, request.total, wanted));
  rcache::Cache* const cache = module_.registrations();
  const Error by_messages{Errc::not_supported, 0, "lent registrations: the device has no room for this one"};
  if (cache == nullptr || already_lent >= kMostLent) return by_messages;
  auto* const base = reinterpret_cast<const void*>(request.address);  // NOLINT(performance-no-int-to-ptr)
  auto lease = cache->get(base, request.size, request.rights);
  if (!lease) return by_messages;
  return lease;
}

void PipelinedTransfers::on_lend_request(Delivery& delivery) noexcept {
  wire::LendRequest request{};
  if (!read_object(delivery.data, request)) return;
  Leases& leases = lent_[&delivery.from];
  wire::Lent answer{request.operation, 0, request.piece, 0};
  auto lease = lend(leases.size(), request, delivery.data.subspan(sizeof request));
  if (!lease) {
    answer.code = static_cast<std::uint32_t>(lease.error().code);
    return emulation_.answer(delivery.from, wire::kLent, bytes_of(answer));
  }
  const auto handle = (*lease)->cookie().get<MemoryHandle>();
  answer.name = ++last_name_;
  leases.emplace(answer.name, std::move(*lease));
  emulation_.answer(delivery.from, wire::kLent, bytes_of(answer), handle.bytes());
}

void PipelinedTransfers::on_lent_return(Delivery& delivery) noexcept {
  wire::LentReturn returned{};
  if (!read_object(delivery.data, returned)) return;
  if (const auto peer = lent_.find(&delivery.from); peer != lent_.end()) peer->second.erase(returned.name);
}

std::size_t PipelinedTransfers::lent() const noexcept {
  std::size_t count = 0;
  for (const auto& [peer, leases] : lent_) count += leases.size();
  return count;
}

Result<void> PipelinedTransfers::install(HandlerTable& handlers) {
  OPAL_TRY(
      handlers.set(wire::kLendRequest, bind_by_sender<&transfers_at, &PipelinedTransfers::on_lend_request>("lend")));
  OPAL_TRY(
      handlers.set(wire::kLentReturn, bind_by_sender<&transfers_at, &PipelinedTransfers::on_lent_return>("return")));
  return handlers.set(wire::kLent, bind_by_sender<&transfers_at, &PipelinedTransfers::on_lent>("lent"));
}

}  // namespace opal::btl
