// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/portals4/one_sided.hpp"

#include <algorithm>
#include <cerrno>
#include <optional>

#include "opal/btl/portals4/module.hpp"
#include "opal/core/clock.hpp"
#include "opal/core/log.hpp"

namespace opal::btl::portals4 {
namespace {

std::optional<ptl_op_t> operation_of(AtomicOp op) noexcept {
  switch (op) {
    case AtomicOp::add: return PTL_SUM;
    case AtomicOp::bit_and: return PTL_BAND;
    case AtomicOp::bit_or: return PTL_BOR;
    case AtomicOp::bit_xor: return PTL_BXOR;
    case AtomicOp::swap: return PTL_SWAP;
    case AtomicOp::min: return PTL_MIN;
    case AtomicOp::max: return PTL_MAX;
    case AtomicOp::compare_swap: return PTL_CSWAP;
  }
  return std::nullopt;
}

/// Floating point is left to messages: a compare of values is not one of bits.
std::optional<ptl_datatype_t> type_of(AtomicType type) noexcept {
  switch (type) {
    case AtomicType::i32: return PTL_INT32_T;
    case AtomicType::u32: return PTL_UINT32_T;
    case AtomicType::i64: return PTL_INT64_T;
    case AtomicType::u64: return PTL_UINT64_T;
    default: return std::nullopt;
  }
}

Error error_of_event(ptl_ni_fail_t failure) noexcept {
  const auto detail = static_cast<std::uint64_t>(failure);
  switch (failure) {
    case PTL_NI_UNDELIVERABLE:
      return {Errc::peer_gone, EHOSTUNREACH, "portals4: the interface does not reach it", detail};
    case PTL_NI_OP_VIOLATION:
    case PTL_NI_PERM_VIOLATION: return {Errc::permission, 0, "portals4: the target refused it", detail};
    default: return {Errc::invalid_argument, 0, "memory handle: stale", detail};
  }
}

}  // namespace

OneSided::OneSided(Module& module) : module_(module), pieces_(kDepth) {
  for (Piece& piece : pieces_) free_.push_back(&piece);
}

bool OneSided::has(AtomicOp op, AtomicType type) noexcept { return operation_of(op) && type_of(type); }

/// Calls the library's function for a piece that begins at operation.moved.
int OneSided::call(const RdmaOperation& operation, Piece& piece) noexcept {
  const rdm::Transfer& transfer = module_.transfer_of(operation);
  const auto& endpoint = static_cast<const rdm::Endpoint&>(*operation.to);
  const Name name = name_of(endpoint.address());
  const Library& library = module_.interface().library();
  const ptl_handle_md_t memory = module_.objects().memory();
  const ptl_match_bits_t key = transfer.handle.key;
  const ptl_size_t there = transfer.handle.device_address(operation.base + operation.moved);
  auto* const user = static_cast<Operation*>(&piece);
  const std::byte* const here = operation.local + operation.moved;
  piece.size = std::min<std::uint64_t>(operation.total - operation.moved, module_.max_request());
  switch (operation.kind) {
    case OperationKind::put:
      return library.put(memory, offset_of(here), piece.size, PTL_ACK_REQ, name.process(), name.memory_entry, key,
                         there, user, 0);
    case OperationKind::get:
      return library.get(memory, offset_of(here), piece.size, name.process(), name.memory_entry, key, there, user);
    default: break;
  }
  const AtomicRequest& request = transfer.request;
  piece.operand = request.operand;
  piece.compare = request.compare;
  const ptl_op_t op = *operation_of(request.op);
  const ptl_datatype_t type = *type_of(request.type);
  if (request.op == AtomicOp::swap || request.op == AtomicOp::compare_swap) {
    return library.swap(memory, offset_of(&piece.old), memory, offset_of(&piece.operand), piece.size, name.process(),
                        name.memory_entry, key, there, user, 0, &piece.compare, op, type);
  }
  return library.fetch_atomic(memory, offset_of(&piece.old), memory, offset_of(&piece.operand), piece.size,
                              name.process(), name.memory_entry, key, there, user, 0, op, type);
}

Post OneSided::post(RdmaOperation& operation) noexcept {
  if (free_.empty()) return Post::again;
  Piece& piece = *free_.back();
  piece.old = 0;
  const int result = call(operation, piece);
  if (result == PTL_NO_SPACE) {
    module_.on_stalled();
    return Post::again;
  }
  if (result != PTL_OK) {
    log::once(log::Level::info, "btl.portals4 one-sided", "btl.portals4", "an operation goes by messages: {}",
              to_string(error_of(result, "PtlPut, PtlGet or PtlSwap")));
    operation.error = error_of(result, "portals4: one-sided operation");
    return Post::failed;
  }
  free_.pop_back();
  piece.operation = &operation;
  operation.moved += piece.size;
  return Post::queued;
}

void OneSided::on_event(Operation& ended, const ptl_event_t& event) noexcept {
  auto& piece = static_cast<Piece&>(ended);
  free_.push_back(&piece);
  piece.awaited = false;
  if (piece.operation == nullptr) return module_.on_stalled();  // operations may wait for the place
  RdmaOperation& operation = *std::exchange(piece.operation, nullptr);
  const bool moved = event.ni_fail_type == PTL_NI_OK && event.mlength == piece.size;
  if (moved && operation.kind == OperationKind::atomic && operation.result != nullptr) *operation.result = piece.old;
  module_.on_piece(operation, piece.size, moved ? Error{} : error_of_event(event.ni_fail_type));
}

void OneSided::drop(const rdm::Endpoint& endpoint) noexcept {
  for (Piece& piece : pieces_) {
    if (piece.operation == nullptr || piece.operation->to != &endpoint) continue;
    piece.operation = nullptr;
    piece.awaited = true;
  }
  const auto awaits = [&] { return std::ranges::any_of(pieces_, [](const Piece& piece) { return piece.awaited; }); };
  const Deadline deadline = Deadline::after(rdm::kCloseTimeout);
  while (awaits() && !deadline.expired()) module_.collect_events();
  if (!awaits()) return;
  log::error("btl.portals4", "peer {}: operations have not ended; the interface may still access their memory",
             to_string(endpoint.peer()));
  for (Piece& piece : pieces_) piece.awaited = false;  // their events, if they come, find no operation
}

}  // namespace opal::btl::portals4
