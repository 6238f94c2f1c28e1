// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/ofi/one_sided_endpoint.hpp"

#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <sys/uio.h>

#include <algorithm>

#include "opal/btl/ofi/module.hpp"
#include "opal/core/log.hpp"
#include "opal/rcache/cache.hpp"

namespace opal::btl::ofi {
namespace {

constexpr std::size_t kDepth = 64;                 // pieces in flight
constexpr std::uint64_t kUncachedChunk = 2 << 20;  // bytes per registration without a registration cache

}  // namespace

OneSidedEndpoint::OneSidedEndpoint(Module& module) : ofi_(module) {}

Result<void> OneSidedEndpoint::open() noexcept {
  if (fabric_.endpoint != nullptr) return {};
  OPAL_TRY_ASSIGN(FabricEndpoint fabric, ofi_.device().open_endpoint());
  OPAL_TRY(Device::enable(fabric));
  if (fabric.wait_fd >= 0) OPAL_TRY(ofi_.waiting().watch(fabric.wait_fd));
  fabric_ = std::move(fabric);
  if (!pieces_.empty()) return {};
  pieces_.resize(kDepth);
  for (Piece& piece : pieces_) free_.push_back(&piece);
  return {};
}

void OneSidedEndpoint::close() noexcept {
  ++closings_;
  if (fabric_.wait_fd >= 0) ofi_.waiting().unwatch(fabric_.wait_fd);
  fabric_.endpoint.reset();
  fabric_.completions.reset();
  fabric_.wait_fd = -1;
  free_.clear();
  for (Piece& piece : pieces_) {
    release(piece);
    free_.push_back(&piece);
  }
}

Result<void*> OneSidedEndpoint::find_memory(Piece& piece, const RdmaOperation& operation, std::byte* local,
                                            std::uint64_t size) noexcept {
  const bool writing = operation.kind == OperationKind::get;
  if (operation.has_local_handle) {
    piece.local = ofi_.memory().find(operation.local_handle, local, size, writing);
    if (piece.local) return piece.local.key();
  }
  if (rcache::Cache* const cache = ofi_.registrations(); cache != nullptr) {
    OPAL_TRY_ASSIGN(piece.lease, cache->get(local, size, static_cast<rcache::Access>(Rights::none)));
    piece.local = ofi_.memory().find(piece.lease->cookie().get<MemoryHandle>(), local, size, writing);
    if (piece.local) return piece.local.key();
    piece.lease.reset();
  }
  bool writable = false;
  OPAL_TRY_ASSIGN(piece.pinned, ofi_.memory().pin(local, size, 0, writable));
  if (writing && !writable) return Error{Errc::permission, 0, "get: its destination cannot be written"};
  return fi_mr_desc(piece.pinned.get());
}

Post OneSidedEndpoint::post(RdmaOperation& operation) noexcept {
  if (const auto opened = open(); !opened) {
    log::once(log::Level::warn, "btl.ofi open", "btl.ofi", "puts and gets go by messages: {}",
              to_string(opened.error()));
    return Post::failed;
  }
  if (free_.empty()) return Post::again;
  Piece& piece = *free_.back();
  const rdm::Transfer& transfer = ofi_.transfer_of(operation);
  std::byte* const local = operation.local + operation.moved;
  const std::uint64_t left = operation.total - operation.moved;
  const std::uint64_t limit =
      std::min<std::uint64_t>(ofi_.config().max_request.bytes, ofi_.device().info().ep_attr->max_msg_size);
  std::uint64_t size = std::min(left, limit);
  void* descriptor = nullptr;
  if (ofi_.device().needs(FI_MR_LOCAL) || ofi_.config().register_local) {
    const rcache::Cache* const cache = ofi_.registrations();
    const std::uint64_t chunk = cache != nullptr ? cache->config().max_chunk.bytes : kUncachedChunk;
    size = std::min(size, first_chunk(reinterpret_cast<std::uintptr_t>(local), left, chunk));
    const auto found = find_memory(piece, operation, local, size);
    if (!found) {
      release(piece);
      return in_flight() != 0 && found.error().code == Errc::limit_reached ? Post::again : Post::failed;
    }
    descriptor = *found;
  }
  const iovec here{local, size};
  const fi_rma_iov there{transfer.handle.device_address(operation.base + operation.moved), size, transfer.handle.key};
  fi_msg_rma message{};
  message.msg_iov = &here;
  message.desc = &descriptor;
  message.iov_count = 1;
  message.addr = static_cast<rdm::Endpoint*>(operation.to)->to();
  message.rma_iov = &there;
  message.rma_iov_count = 1;
  message.context = static_cast<Operation*>(&piece);
  fid_ep* const endpoint = fabric_.endpoint.get();
  const auto result = operation.is_put() ? fi_writemsg(endpoint, &message, FI_COMPLETION | FI_DELIVERY_COMPLETE)
                                         : fi_readmsg(endpoint, &message, FI_COMPLETION);
  if (result != 0) {
    release(piece);
    if (result == -FI_EAGAIN) {
      if (in_flight() == 0) ofi_.on_stalled();
      return Post::again;
    }
    log::once(log::Level::info, "btl.ofi one-sided", "btl.ofi", "a put or get goes by messages: {}",
              to_string(error_of(result, "fi_writemsg or fi_readmsg")));
    return Post::failed;
  }
  free_.pop_back();
  piece.operation = &operation;
  piece.size = size;
  operation.moved += size;
  return Post::queued;
}

void OneSidedEndpoint::release(Piece& piece) noexcept {
  piece.local.reset();
  piece.lease.reset();
  piece.pinned.reset();
  piece.operation = nullptr;
}

void OneSidedEndpoint::on_done(Operation& done, const Error& why) noexcept {
  auto& piece = static_cast<Piece&>(done);
  if (piece.operation == nullptr) return;
  RdmaOperation& operation = *piece.operation;
  const std::uint64_t size = piece.size;
  release(piece);
  free_.push_back(&piece);
  ofi_.on_piece(operation, size, why);
}

void OneSidedEndpoint::drop(const btl::Endpoint& endpoint) noexcept {
  bool affected = false;
  std::vector<RdmaOperation*> others;
  for (const Piece& piece : pieces_) {
    if (piece.operation == nullptr) continue;
    if (piece.operation->to == &endpoint) {
      affected = true;
    } else {
      others.push_back(piece.operation);
    }
  }
  if (!affected) return;
  close();
  ofi_.post_again(others);
}

bool OneSidedEndpoint::arm() const noexcept { return ofi_.device().arm(fabric_); }

}  // namespace opal::btl::ofi
