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

using Kind = RdmaOperation::Kind;

constexpr std::uint64_t kPiece = 256 << 10;        // bytes; what is not larger goes over one rail
constexpr std::uint32_t kPiecesPerRail = 2;        // of one operation: one moves, the next is registered
constexpr std::uint64_t kNotRegistered = 4 << 10;  // bytes that rails move without a registration

/// The rail is lost, or about to be: nothing that another rail could not do.
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

/// The `index`-th part, the software's first.
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

Post Transfers::start(Kind kind, Endpoint& to, std::byte* local, const MemoryHandle* local_handle,
                      std::uint64_t remote_address, const MemoryHandle& remote, std::uint64_t size,
                      Completion& completion) noexcept {
  const auto usable =
      static_cast<std::size_t>(std::count_if(to.routes().begin(), to.routes().end(), &Endpoint::usable));
  if (usable == 0) return Post::again;
  if (size > kPiece && usable < to.routes().size()) to.widen();
  RdmaOperation* const operation = operations_.begin(kind, to, completion, this);
  if (operation == nullptr) return Post::again;
  operation->local = local;
  operation->base = remote_address;
  operation->total = size;
  operation->handle = remote;
  while (striped_.size() <= operation->slot) striped_.emplace_back();
  Striped& striped = striped_[operation->slot];
  striped = {};
  striped.has_local = local_handle != nullptr;
  if (local_handle != nullptr) striped.local = *local_handle;
  advance(*operation);
  return Post::queued;
}

Transfers::Piece& Transfers::take() {
  if (free_.empty()) {
    Piece& made = pieces_.emplace_back();
    made.transfers = this;
    made.fn = [](Completion& self) noexcept {
      auto& piece = static_cast<Piece&>(self);
      piece.transfers->on_end(piece);
    };
    return made;
  }
  Piece& piece = *free_.back();
  free_.pop_back();
  return piece;
}

void Transfers::free(Piece& piece) noexcept {
  leave_route(piece);
  --striped_[piece.operation->slot].pieces;
  piece.broken = nullptr;
  piece.operation = nullptr;
  free_.push_back(&piece);
}

void Transfers::advance(RdmaOperation& operation) noexcept {
  Striped& striped = striped_[operation.slot];
  if (striped.advancing) return;
  striped.advancing = true;
  auto& to = static_cast<Endpoint&>(*operation.to);
  const auto rails =
      static_cast<std::uint32_t>(std::count_if(to.routes().begin(), to.routes().end(), &Endpoint::usable));
  const std::uint32_t most = kPiecesPerRail * std::max(1U, rails);
  while (striped.error.code == Errc{} && striped.cut < operation.total && striped.pieces < most) {
    Piece& piece = take();
    piece.operation = &operation;
    piece.offset = striped.cut;
    piece.size = std::min(kPiece, operation.total - striped.cut);
    striped.cut += piece.size;
    ++striped.pieces;
    switch (post(piece)) {
      case Outcome::posted: break;
      case Outcome::later: waiting_.push_back(&piece); break;
      case Outcome::ended: free(piece); break;
    }
  }
  striped.advancing = false;
  if (striped.pieces != 0) return;
  rails_.happened();
  operations_.finish(operation, striped.error);
}

/// The caller's own registration, or one from the cache; null: the rail finds its way.
void Transfers::borrow(Piece& piece, std::byte* local, MemoryHandle& handle, const MemoryHandle*& registered) noexcept {
  const Striped& striped = striped_[piece.operation->slot];
  const MemoryHandle* whole = striped.has_local ? &striped.local : nullptr;
  if (whole == nullptr && piece.size > kNotRegistered && rails_.registrations() != nullptr) {
    auto lease = rails_.registrations()->get(local, piece.size, static_cast<rcache::Access>(Rights::none));
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

/// Whether it may go (again): nothing of an earlier attempt comes after it.  A connection that stands has told its end.
bool Transfers::is_fenced(const Piece& piece) noexcept {
  return piece.broken == nullptr || piece.operation->kind == Kind::get || piece.made > piece.broken->lost ||
         piece.made <= piece.broken->fenced;
}

Transfers::Outcome Transfers::post(Piece& piece) noexcept {
  RdmaOperation& operation = *piece.operation;
  auto& to = static_cast<Endpoint&>(*operation.to);
  if (!is_fenced(piece)) return Outcome::later;
  Route* best = nullptr;
  bool any = false;
  for (Route& route : to.routes()) {
    if (!Endpoint::usable(route)) continue;
    any = true;
    if (!part_of(operation.handle, route.rail)) continue;
    if (best == nullptr || route.loaded < best->loaded) best = &route;
  }
  piece.error = {};
  if (best == nullptr) return any ? outcome(piece, post_as_messages(piece)) : Outcome::later;
  piece.route = best;
  piece.broken = best;
  piece.made = best->made;
  const MemoryHandle remote = *part_of(operation.handle, best->rail);
  const std::uint64_t address = operation.base + piece.offset;
  std::byte* const local = operation.local + piece.offset;
  MemoryHandle handle;
  const MemoryHandle* registered = nullptr;
  borrow(piece, local, handle, registered);
  best->loaded += piece.size;
  btl::Endpoint& below = *best->below;
  const Post post = operation.kind == Kind::put
                        ? below.module().put(below, local, registered, address, remote, piece.size, piece)
                        : below.module().get(below, local, registered, address, remote, piece.size, piece);
  return outcome(piece, post);
}

/// No rail that stands knows the peer's memory.
Post Transfers::post_as_messages(Piece& piece) noexcept {
  RdmaOperation& operation = *piece.operation;
  const MemoryHandle software = *software_of(operation.handle);
  std::byte* const local = operation.local + piece.offset;
  const std::uint64_t address = operation.base + piece.offset;
  return operation.kind == Kind::put ? messages_.put(*operation.to, local, address, software, piece.size, piece)
                                     : messages_.get(*operation.to, local, address, software, piece.size, piece);
}

Transfers::Outcome Transfers::outcome(Piece& piece, Post post) noexcept {
  if (post == Post::queued) return Outcome::posted;
  leave_route(piece);
  piece.broken = nullptr;  // nothing of it was posted
  if (post == Post::again) return Outcome::later;
  return post == Post::done ? Outcome::ended : judge(piece);
}

void Transfers::leave_route(Piece& piece) noexcept {
  if (piece.route != nullptr) piece.route->loaded -= std::min(piece.route->loaded, piece.size);
  piece.route = nullptr;
  piece.lease.reset();
}

/// After an error: whether another rail may do it.
Transfers::Outcome Transfers::judge(Piece& piece) noexcept {
  const btl::Endpoint& to = *piece.operation->to;
  Striped& striped = striped_[piece.operation->slot];
  if (!to.dead() && striped.error.code == Errc{} && is_the_rails(piece.error)) return Outcome::later;
  if (striped.error.code == Errc{}) striped.error = to.dead() ? to.error() : piece.error;
  return Outcome::ended;
}

void Transfers::on_end(Piece& piece) noexcept {
  RdmaOperation& operation = *piece.operation;
  if (!piece.ok() && judge(piece) == Outcome::later) {
    leave_route(piece);
    waiting_.push_back(&piece);
    return;
  }
  free(piece);
  advance(operation);
}

std::size_t Transfers::progress() noexcept {
  if (waiting_.empty()) return 0;
  std::vector<Piece*> waiting;
  waiting.swap(waiting_);
  std::size_t happened = 0;
  for (Piece* const piece : waiting) {
    RdmaOperation& operation = *piece->operation;
    switch (post(*piece)) {
      case Outcome::posted: ++happened; break;
      case Outcome::later: waiting_.push_back(piece); break;
      case Outcome::ended:
        ++happened;
        free(*piece);
        advance(operation);
        break;
    }
  }
  return happened;
}

void Transfers::endpoint_gone(Endpoint& endpoint, const Error& why) noexcept {
  std::vector<Piece*> gone;
  std::erase_if(waiting_, [&](Piece* piece) {
    if (piece->operation->to != &endpoint) return false;
    gone.push_back(piece);
    return true;
  });
  for (Piece* const piece : gone) {
    RdmaOperation& operation = *piece->operation;
    if (striped_[operation.slot].error.code == Errc{}) striped_[operation.slot].error = why;
    free(*piece);
    advance(operation);
  }
}

}  // namespace opal::btl::rails
