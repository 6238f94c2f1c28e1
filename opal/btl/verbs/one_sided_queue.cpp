// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/verbs/one_sided_queue.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "opal/btl/verbs/module.hpp"
#include "opal/core/copy.hpp"
#include "opal/core/log.hpp"
#include "opal/rcache/cache.hpp"

namespace opal::btl::verbs {
namespace {

using Kind = RdmaOperation::Kind;

constexpr std::uint32_t kDepth = 64;  // work requests of a one-sided queue; with 64 KiB each two chunks of the cache
constexpr std::uint32_t kCopied = 4 << 10;         // bytes; up to this size a copy is cheaper than a cache lookup
constexpr std::uint64_t kUncachedChunk = 2 << 20;  // bytes per registration without a registration cache

Error error_of(const ibv_wc& wc) noexcept {
  switch (wc.status) {
    case IBV_WC_REM_ACCESS_ERR:
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_REM_OP_ERR:
      return {Errc::invalid_argument, 0, "remote access: the peer's device refused it (stale, or outside)"};
    case IBV_WC_LOC_PROT_ERR:
      return {Errc::permission, EFAULT, "put or get: the device refused its local memory", wc.vendor_err};
    case IBV_WC_RETRY_EXC_ERR:
    case IBV_WC_RNR_RETRY_EXC_ERR: return {Errc::peer_gone, ETIMEDOUT, ibv_wc_status_str(wc.status), wc.vendor_err};
    default: return {Errc::internal, 0, ibv_wc_status_str(wc.status), wc.vendor_err};
  }
}

}  // namespace

// ---- Connection -------------------------------------------------------------------------------------------------

bool OneSidedQueue::ready() noexcept {
  if (endpoint_.state() != Endpoint::State::connected) return false;  // the session key does not exist yet
  if (state_ == State::idle) {
    if (give_up_ns_ == 0) give_up_ns_ = Module::time_after(verbs_.config().connect_timeout);
    if (const auto dialled = dial(); !dialled) on_lost(dialled.error());
  }
  return state_ == State::connected;
}

Result<void> OneSidedQueue::dial() noexcept {
  Nonce nonce = fresh_nonce();
  ++number_;
  std::memcpy(nonce.data(), &number_, sizeof number_);
  request_ = verbs_.make_request(wire::Purpose::one_sided, 0, nonce, endpoint_.session(), endpoint_.peer());
  Connection::Settings settings = endpoint_.settings();
  settings.shape.sends = kDepth;
  connection_ = std::make_unique<Connection>(verbs_.device(), settings, this);
  state_ = State::dialing;
  return connection_->dial(verbs_.events(), verbs_.socket(), endpoint_.peer_socket(), bytes_of(request_));
}

void OneSidedQueue::drop_connection() noexcept {
  if (connection_ == nullptr) return;
  verbs_.leave(*connection_);
  connection_.reset();  // afterwards the device accesses no local memory
  for (Piece& piece : pieces_) release(piece);
  chunk_ = {};
  collected_.clear();
  posted_ = retired_ = 0;
}

void OneSidedQueue::drop() noexcept {
  drop_connection();
  unposted_.clear();
  unfinished_.clear();
  state_ = State::hopeless;
}

void OneSidedQueue::on_connected(ByteSpan bytes) noexcept {
  wire::Reply reply{};
  if (state_ != State::dialing) return;
  if (!read_object(bytes, reply) || !is_genuine(endpoint_.session(), reply, bytes_of(request_))) {
    return on_lost({Errc::permission, 0, "verbs: the one-sided connection's peer is not the endpoint's"});
  }
  state_ = State::connected;
  give_up_ns_ = 0;
  if (pieces_.empty()) pieces_.resize(kDepth);
  verbs_.enter(*connection_, *this);
  advance();
}

void OneSidedQueue::on_refused(ByteSpan bytes) noexcept {
  wire::Refusal refusal{};
  const bool later =
      read_object(bytes, refusal) && refusal.magic == wire::kMagic && refusal.reason == wire::Reason::busy;
  if (state_ == State::dialing && later && unfinished_.empty() && now_ns() < give_up_ns_) {
    drop_connection();
    state_ = State::idle;  // the next attempt to post dials again
    return;
  }
  on_lost({Errc::unreachable, ECONNREFUSED, "verbs: the peer refused the one-sided connection"});
}

void OneSidedQueue::on_lost(const Error& why) noexcept {
  if (state_ == State::broken) return;  // the completions report the reason
  if (state_ == State::connected) return endpoint_.break_off(why);
  if (!unfinished_.empty()) {  // it was connected before, so the peer must have failed
    Error lost = why;
    lost.code = Errc::peer_gone;
    return endpoint_.break_off(lost);
  }
  log::warn("btl.verbs", "peer {}: put, get and atomics go as messages: {}", to_string(endpoint_.peer()),
            opal::to_string(why));
  drop();
}

// ---- Posting ----------------------------------------------------------------------------------------------------

void OneSidedQueue::start(RdmaOperation& operation) noexcept {
  unfinished_.push_back(&operation);
  unposted_.push_back(&operation);
  advance();
}

void OneSidedQueue::resume() noexcept {
  if (state_ == State::connected && !unposted_.empty()) advance();
}

void OneSidedQueue::advance() noexcept {
  while (state_ == State::connected && !unposted_.empty() && under_way() < kDepth) {
    RdmaOperation& operation = *unposted_.front();
    const bool atomic = operation.kind == Kind::atomic;
    const Room room = atomic ? post_atomic(operation) : post_piece(operation);
    if (room == Room::later) {
      if (under_way() == 0) verbs_.on_stalled();
      return;
    }
    if (room == Room::failed) {
      // It must not end while pieces are in flight, since these use the caller's memory; nor in a post, since its
      // completion may disconnect the peer.
      if (under_way() != 0) return;
      if (verbs_.round() == 0) return verbs_.on_failed();
      std::erase(unposted_, &operation);
      std::erase(unfinished_, &operation);
      verbs_.finish(operation, operation.error);
      continue;
    }
    if (atomic || operation.moved == operation.total) unposted_.erase(unposted_.begin());
  }
}

void OneSidedQueue::submit(ibv_send_wr& request) noexcept {
  const bool alone = under_way() == 0 && !verbs_.in_batch();
  request.wr_id = posted_;
  collected_.add(request);
  ++posted_;
  if (alone || collected_.full()) return post_collected();
  endpoint_.hold();
}

void OneSidedQueue::post_collected() noexcept {
  if (collected_.empty()) return;
  collected_.last().send_flags |= IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  const int code = ibv_post_send(connection_->pair(), &collected_.linked(), &bad);
  collected_.clear();
  if (code != 0) endpoint_.break_off({Errc::peer_gone, code, "ibv_post_send(one-sided)"});
}

OneSidedQueue::Room OneSidedQueue::find_memory(Piece& piece, RdmaOperation& operation, std::byte* local,
                                               std::uint64_t size) noexcept {
  const bool writing = operation.kind == Kind::get;
  if (operation.has_local_handle) {
    chunk_.local = verbs_.memory().find(operation.local_handle, local, size, writing);
    if (chunk_.local) {
      chunk_.key = chunk_.local.key();
      chunk_.left = size;
      return Room::posted;
    }
  }
  if (const ibv_mr* const everything = verbs_.memory().on_demand().everything.get(); everything != nullptr) {
    chunk_.key = everything->lkey;
    chunk_.left = size;
    return Room::posted;
  }
  Error why{};
  if (size > kCopied) {
    if (rcache::Cache* cache = verbs_.registrations(); cache != nullptr) {
      auto lease = cache->get(local, size, static_cast<rcache::Access>(Rights::none));
      if (lease) {
        auto key = verbs_.memory().find((*lease)->cookie().get<MemoryHandle>(), local, size, writing);
        if (key) {
          chunk_.lease = std::move(*lease);
          chunk_.key = key.key();
          chunk_.local = std::move(key);
          chunk_.left = size;
          return Room::posted;
        }
        why = writing ? Error{Errc::permission, EFAULT, "get: its destination cannot be written"} : Error{};
      } else {
        why = lease.error();
      }
    } else {
      bool writable = false;
      auto pinned = verbs_.memory().pin(local, size, 0, writable);
      if (pinned && (writable || !writing)) {
        chunk_.pinned = std::move(*pinned);
        chunk_.key = chunk_.pinned->lkey;
        chunk_.left = size;
        return Room::posted;
      }
      why = pinned ? Error{Errc::permission, EFAULT, "get: its destination cannot be written"} : pinned.error();
    }
    if (why.code == Errc::invalid_argument || why.code == Errc::permission) {
      operation.error = why;
      return Room::failed;
    }
    if (under_way() != 0) return Room::later;  // requests that end release room
  }
  piece.buffer = verbs_.take_send_buffer();
  if (piece.buffer == nullptr) return Room::later;
  piece.size = static_cast<std::uint32_t>(std::min(size, std::uint64_t{verbs_.buffer_size()}));
  if (writing) {
    piece.destination = local;
  } else {
    copy_host_memory(piece.buffer->data, local, piece.size);
  }
  return Room::posted;
}

OneSidedQueue::Room OneSidedQueue::post_piece(RdmaOperation& operation) noexcept {
  Piece& piece = pieces_[posted_ % kDepth];
  const bool writing = operation.kind == Kind::get;
  std::byte* local = operation.local + operation.moved;
  std::uint64_t size = chunk_.left;
  bool inlined = false;
  if (size == 0) {
    const std::uint64_t left = operation.total - operation.moved;
    const rcache::Cache* const cache = verbs_.registrations();
    const std::uint64_t most = cache != nullptr ? cache->config().max_chunk.bytes : kUncachedChunk;
    size = first_chunk(reinterpret_cast<std::uintptr_t>(local), left, most);
    inlined = !writing && size <= connection_->shape().inlined;
    if (!inlined) {
      if (const Room room = find_memory(piece, operation, local, size); room != Room::posted) return room;
    }
  }
  ibv_sge where{reinterpret_cast<std::uint64_t>(local), 0, chunk_.key};
  if (piece.buffer != nullptr) {
    where.addr = reinterpret_cast<std::uint64_t>(piece.buffer->data);
    where.lkey = piece.buffer->key;
  } else {
    piece.size = static_cast<std::uint32_t>(std::min(size, verbs_.largest_request()));
  }
  where.length = piece.size;
  ibv_send_wr request{};
  request.sg_list = &where;
  request.num_sge = 1;
  request.opcode = writing ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
  if (inlined) request.send_flags = IBV_SEND_INLINE;
  request.wr.rdma.remote_addr = operation.base + operation.moved;
  request.wr.rdma.rkey = static_cast<std::uint32_t>(verbs_.transfer_of(operation).handle.key);
  piece.operation = &operation;
  submit(request);
  operation.moved += piece.size;
  if (chunk_.left == 0) return Room::posted;
  chunk_.left -= piece.size;
  if (chunk_.left == 0) {
    piece.lease = std::move(chunk_.lease);
    piece.local = std::move(chunk_.local);
    piece.pinned = std::move(chunk_.pinned);
  }
  return Room::posted;
}

OneSidedQueue::Room OneSidedQueue::post_atomic(RdmaOperation& operation) noexcept {
  Piece& piece = pieces_[posted_ % kDepth];
  const DeviceTransfer& transfer = verbs_.transfer_of(operation);
  piece.buffer = verbs_.take_send_buffer();
  if (piece.buffer == nullptr) return Room::later;
  piece.size = sizeof(std::uint64_t);
  piece.destination = reinterpret_cast<std::byte*>(operation.result);
  piece.operation = &operation;
  ibv_sge where{reinterpret_cast<std::uint64_t>(piece.buffer->data), piece.size, piece.buffer->key};
  ibv_send_wr request{};
  request.sg_list = &where;
  request.num_sge = 1;
  request.wr.atomic.remote_addr = operation.base;
  request.wr.atomic.rkey = static_cast<std::uint32_t>(transfer.handle.key);
  if (transfer.request.op == AtomicOp::compare_swap) {
    request.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
    request.wr.atomic.compare_add = transfer.request.compare;
    request.wr.atomic.swap = transfer.request.operand;
  } else {
    request.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
    request.wr.atomic.compare_add = transfer.request.operand;
  }
  submit(request);
  return Room::posted;
}

// ---- Completing -------------------------------------------------------------------------------------------------

void OneSidedQueue::release(Piece& piece) noexcept {
  piece.local.reset();
  piece.lease.reset();
  piece.pinned.reset();
  if (piece.buffer != nullptr) verbs_.give_back(*piece.buffer);
  piece.buffer = nullptr;
  piece.destination = nullptr;
  piece.operation = nullptr;
}

void OneSidedQueue::on_sent(const ibv_wc& wc) noexcept {
  const auto number = static_cast<std::uint32_t>(wc.wr_id);
  if (number - retired_ >= under_way()) return;  // of an earlier connection
  // The requests before this one are unsignalled.  A reliable connection completes in order: they have succeeded, or
  // were flushed as this one, which not every device reports for each of them.
  const bool flushed = wc.status == IBV_WC_WR_FLUSH_ERR;
  while (retired_ != number && under_way() != 0) flushed ? fail(wc) : succeed();
  if (under_way() == 0) return;  // a completion callback ended the endpoint
  if (wc.status == IBV_WC_SUCCESS) {
    succeed();
    if (state_ == State::broken && under_way() == 0) return recover();
    return advance();
  }
  fail(wc);
  if (under_way() == 0 && !endpoint_.broken()) recover();
}

void OneSidedQueue::fail(const ibv_wc& wc) noexcept {
  Piece& piece = pieces_[retired_ % kDepth];
  ++retired_;
  RdmaOperation& operation = *piece.operation;
  release(piece);
  if (wc.status != IBV_WC_WR_FLUSH_ERR && !operation.failed()) operation.error = error_of(wc);
  // Flushed without a refused operation before it: the peer's device may have executed it, so it is not posted again.
  if (state_ == State::connected && wc.status == IBV_WC_WR_FLUSH_ERR) {
    operation.error = {Errc::peer_gone, ECONNRESET, "put, get or atomic: the queue pair failed", wc.vendor_err};
  }
  state_ = State::broken;
  for (std::uint32_t i = collected_.count(); i != 0; --i) release(pieces_[--posted_ % kDepth]);
  collected_.clear();
  if (operation.error.code == Errc::peer_gone) endpoint_.break_off(operation.error);
}

void OneSidedQueue::succeed() noexcept {
  Piece& piece = pieces_[retired_ % kDepth];
  ++retired_;
  RdmaOperation& operation = *piece.operation;
  DeviceTransfer& transfer = verbs_.transfer_of(operation);
  if (piece.destination != nullptr) copy_host_memory(piece.destination, piece.buffer->data, piece.size);
  transfer.acknowledged += piece.size;
  release(piece);
  const bool whole = operation.kind == Kind::atomic || transfer.acknowledged == operation.total;
  if (!whole) return;
  unfinished_.erase(unfinished_.begin());
  verbs_.finish(operation, {});
}

void OneSidedQueue::recover() noexcept {
  // All operations behind the refused one were flushed; the peer's device has executed none of them.
  drop_connection();
  state_ = State::idle;
  std::vector<RdmaOperation*> refused;
  std::erase_if(unfinished_, [&](RdmaOperation* operation) {
    if (operation->failed()) refused.push_back(operation);
    operation->moved = verbs_.transfer_of(*operation).acknowledged;
    return operation->failed();
  });
  unposted_ = unfinished_;
  if (refused.empty() && unfinished_.empty()) return;
  (void)ready();
  for (RdmaOperation* operation : refused) verbs_.finish(*operation, operation->error);
}

}  // namespace opal::btl::verbs
