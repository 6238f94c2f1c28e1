// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/rails/transfers.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "opal/btl/rails/module.hpp"
#include "opal/btl/shared/rdma_emulation.hpp"
#include "opal/rcache/cache.hpp"

namespace opal::btl::rails {
namespace {

constexpr std::uint64_t kPiece = 256 << 10;        // bytes
constexpr std::uint32_t kPiecesPerRail = 2;        // of one operation: one moves while the next is registered
constexpr std::uint64_t kNotRegistered = 4 << 10;  // bytes: such a piece is posted without a registration

/// True when the rail is the cause of the error, so that another rail may move the piece.
bool is_the_rails(const Error& why) noexcept {
  return why.code == Errc::peer_gone || why.code == Errc::canceled || why.code == Errc::unreachable ||
         why.code == Errc::timed_out;
}

}  // namespace

// ---- Handles ----------------------------------------------------------------------------------------------------

Result<MemoryHandle> join(const MemoryHandle& software, std::span<const MemoryHandle> rails) {
  std::array<std::byte, MemoryHandle::kMaxSize> bytes;
  std::size_t size = 0;
  const auto append = [&](ByteSpan part) {
    if (size + 1 + part.size() > bytes.size()) return false;
    bytes[size++] = static_cast<std::byte>(part.size());
    std::copy(part.begin(), part.end(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
    size += part.size();
    return true;
  };
  bool fits = append(software.bytes());
  for (const MemoryHandle& rail : rails) fits = fits && append(rail.bytes());
  if (!fits) return Error{Errc::limit_reached, 0, "rails: their memory handles are too long together", rails.size()};
  return MemoryHandle::from_bytes(ByteSpan{bytes}.first(size));
}

namespace {

/// Part number `index` of a handle; part 0 is the software handle, part i + 1 that of rail i.
Result<MemoryHandle> nth(const MemoryHandle& handle, std::uint32_t index) noexcept {
  ByteSpan bytes = handle.bytes();
  for (std::uint32_t i = 0; !bytes.empty(); ++i) {
    const auto size = static_cast<std::size_t>(bytes[0]);
    if (bytes.size() - 1 < size) return Error{Errc::protocol, 0, "memory handle: not one of rails", bytes.size()};
    if (i == index && size != 0) return MemoryHandle::from_bytes(bytes.subspan(1, size));
    if (i == index) break;
    bytes = bytes.subspan(1 + size);
  }
  return Error{Errc::unreachable, 0, "memory handle: none for this rail", index};
}

}  // namespace

Result<MemoryHandle> part_of(const MemoryHandle& handle, std::uint32_t rail) noexcept { return nth(handle, rail + 1); }

Result<MemoryHandle> software_of(const MemoryHandle& handle) noexcept {
  auto software = nth(handle, 0);
  if (!software || software->bytes().size() != sizeof(SoftwareHandle)) {
    return Error{Errc::protocol, 0, "memory handle: not one of rails", handle.bytes().size()};
  }
  return software;
}

// ---- Operations -------------------------------------------------------------------------------------------------

Post Transfers::start(RdmaOperation::Kind kind, Endpoint& to, std::byte* local, const MemoryHandle* local_handle,
                      std::uint64_t remote_address, const MemoryHandle& remote, std::uint64_t size,
                      Completion& completion) noexcept {
  const auto usable = static_cast<std::size_t>(std::ranges::count_if(to.routes(), &Endpoint::usable));
  if (usable == 0) return Post::again;
  if (size > kPiece && usable < to.routes().size()) to.connect_missing_rails();
  RdmaOperation* const operation = begin(kind, to, local, local_handle, remote_address, remote, size, completion);
  return operation != nullptr ? TransferEngine::start(*operation) : Post::again;
}

TransferPiece* Transfers::take(RdmaOperation& operation) noexcept {
  const auto& routes = static_cast<Endpoint&>(*operation.to).routes();
  const auto rails = static_cast<std::uint32_t>(std::ranges::count_if(routes, &Endpoint::usable));
  if (operation.pieces >= kPiecesPerRail * std::max(1U, rails)) return nullptr;
  if (free_.empty()) return &pieces_.emplace_back();
  Piece* const piece = free_.back();
  free_.pop_back();
  return piece;
}

std::uint64_t Transfers::plan(const RdmaOperation& /*operation*/, std::uint64_t /*offset*/,
                              std::uint64_t left) const noexcept {
  return std::min(kPiece, left);
}

void Transfers::release(TransferPiece& ended) noexcept {
  auto& piece = static_cast<Piece&>(ended);
  leave_route(piece);
  piece.broken = nullptr;
  free_.push_back(&piece);
}

/// Sets `registered` to the rail's handle of the local memory: from the caller, or from the cache.  Leaves it null if
/// there is none; the rail then registers the memory itself.
void Transfers::borrow(Piece& piece, MemoryHandle& handle, const MemoryHandle*& registered) noexcept {
  const RdmaOperation& operation = *piece.operation;
  const MemoryHandle* whole = operation.has_local_handle ? &operation.local_handle : nullptr;
  if (whole == nullptr && piece.size > kNotRegistered && rails_.registrations() != nullptr) {
    auto lease = rails_.registrations()->get(piece.local(), piece.size, static_cast<rcache::Access>(Rights::none));
    if (lease) {
      piece.lease = std::move(*lease);
      handle = piece.lease->cookie().get<MemoryHandle>();
      whole = &handle;
    }
  }
  if (whole == nullptr) return;
  const auto part = part_of(*whole, piece.route->rail);
  if (!part) return;
  handle = *part;
  registered = &handle;
}

/// True when the piece may be posted: no earlier post of it can still write.  That is so if it was never posted, is a
/// get, its connection still exists (the post has then completed), or the peer has confirmed the connection's end.
bool Transfers::is_fenced(const Piece& piece) noexcept {
  return piece.broken == nullptr || !piece.operation->is_put() || piece.connection > piece.broken->lost ||
         piece.connection <= piece.broken->fenced;
}

TransferEngine::Move Transfers::move(TransferPiece& moving) noexcept {
  auto& piece = static_cast<Piece&>(moving);
  const RdmaOperation& operation = *piece.operation;
  if (!is_fenced(piece)) return Move::held;
  Route* best = nullptr;
  bool any = false;
  for (Route& route : static_cast<Endpoint&>(*operation.to).routes()) {
    if (!Endpoint::usable(route)) continue;
    any = true;
    if (!part_of(operation.handle, route.rail)) continue;
    if (best == nullptr || route.loaded < best->loaded) best = &route;
  }
  if (best == nullptr) {  // no connected rail has a handle of the remote memory
    return any ? outcome(piece, post(piece, messages_, *software_of(operation.handle))) : Move::held;
  }
  piece.route = best;
  piece.broken = best;
  piece.connection = best->connection;
  MemoryHandle handle;
  const MemoryHandle* registered = nullptr;
  borrow(piece, handle, registered);
  best->loaded += piece.size;
  return outcome(piece, post(piece, *best->below, piece.local(), registered, *part_of(operation.handle, best->rail)));
}

TransferEngine::Move Transfers::outcome(Piece& piece, Post post) noexcept {
  if (post == Post::queued) return Move::in_flight;
  leave_route(piece);
  piece.broken = nullptr;  // not in flight, so no fence is needed
  if (post == Post::again) return Move::held;
  return post == Post::done ? Move::ended : after_error(piece);
}

void Transfers::leave_route(Piece& piece) noexcept {
  if (piece.route != nullptr) piece.route->loaded -= std::min(piece.route->loaded, piece.size);
  piece.route = nullptr;
  piece.lease.reset();
}

TransferEngine::Move Transfers::moved(TransferPiece& ended) noexcept {
  auto& piece = static_cast<Piece&>(ended);
  return piece.ok() ? Move::ended : after_error(piece);
}

/// After an error of the piece: holds it for another rail, or fails the operation.
TransferEngine::Move Transfers::after_error(Piece& piece) noexcept {
  RdmaOperation& operation = *piece.operation;
  const btl::Endpoint& to = *operation.to;
  if (!to.dead() && !operation.failed() && is_the_rails(piece.error)) return leave_route(piece), Move::held;
  fail(operation, to.dead() ? to.error() : piece.error);
  return Move::ended;
}

}  // namespace opal::btl::rails
