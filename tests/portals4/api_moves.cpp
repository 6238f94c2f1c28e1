// SPDX-License-Identifier: Apache-2.0
// Entry points: data movement.  Each checks its arguments and submits one operation to the progress thread.
#include <cstring>

#include "tests/portals4/atomics.hpp"
#include "tests/portals4/library.hpp"

using namespace opal::test::portals4;

namespace {

/// Part of a memory descriptor; descriptor null: the arguments are wrong.
struct Part {
  std::shared_ptr<MemoryDescriptor> descriptor;
  std::byte* memory = nullptr;
};

Part part_of(const Interface& interface, ptl_handle_md_t handle, ptl_size_t offset, ptl_size_t length) {
  auto descriptor = find(interface.descriptors, handle);
  if (descriptor == nullptr || offset > descriptor->length || length > descriptor->length - offset) return {};
  std::byte* const memory = address_at(descriptor->start, offset);
  return {std::move(descriptor), memory};
}

Operation operation_to(ptl_process_t target, ptl_pt_index_t pt_index, ptl_match_bits_t match_bits,
                       ptl_size_t remote_offset, void* user_ptr, ptl_hdr_data_t hdr_data) {
  Operation operation;
  operation.target = target;
  operation.user_ptr = user_ptr;
  operation.request.pt_index = pt_index;
  operation.request.match_bits = match_bits;
  operation.request.remote_offset = remote_offset;
  operation.request.hdr_data = hdr_data;
  return operation;
}

void set_atomic(Operation& operation, wire::Kind kind, ptl_op_t code, ptl_datatype_t type, ptl_size_t length) {
  operation.request.kind = kind;
  operation.request.operation = code;
  operation.request.datatype = type;
  operation.request.length = length;
}

int submit_put(Call& call, ptl_handle_md_t handle, ptl_size_t offset, ptl_ack_req_t ack_req, Operation operation) {
  if (ack_req > PTL_ACK_REQ) return PTL_ARG_INVALID;
  Part part = part_of(*call, handle, offset, operation.request.length);
  if (part.descriptor == nullptr) return PTL_ARG_INVALID;
  operation.request.acknowledge = ack_req;
  operation.source = std::move(part.descriptor);
  operation.outgoing = part.memory;
  call->submit_locked(std::move(operation));
  return PTL_OK;
}

int submit_fetch(Call& call, ptl_handle_md_t get_handle, ptl_size_t get_offset, ptl_handle_md_t put_handle,
                 ptl_size_t put_offset, Operation operation) {
  const ptl_size_t length = operation.request.length;
  Part values = part_of(*call, put_handle, put_offset, length);
  Part results = part_of(*call, get_handle, get_offset, length);
  if (values.descriptor == nullptr || results.descriptor == nullptr) return PTL_ARG_INVALID;
  if (length > call->limits.max_fetch_atomic_size) return PTL_ARG_INVALID;
  operation.source = std::move(values.descriptor);
  operation.outgoing = values.memory;
  operation.destination = std::move(results.descriptor);
  operation.incoming = results.memory;
  call->submit_locked(std::move(operation));
  return PTL_OK;
}

}  // namespace

int PtlPut(ptl_handle_md_t md_handle, ptl_size_t local_offset, ptl_size_t length, ptl_ack_req_t ack_req,
           ptl_process_t target_id, ptl_pt_index_t pt_index, ptl_match_bits_t match_bits, ptl_size_t remote_offset,
           void* user_ptr, ptl_hdr_data_t hdr_data) {
  Call call;
  if (call.result() != PTL_OK) return call.result();
  if (length > call->limits.max_msg_size) return PTL_ARG_INVALID;
  Operation operation = operation_to(target_id, pt_index, match_bits, remote_offset, user_ptr, hdr_data);
  operation.request.length = length;
  return submit_put(call, md_handle, local_offset, ack_req, std::move(operation));
}

int PtlGet(ptl_handle_md_t md_handle, ptl_size_t local_offset, ptl_size_t length, ptl_process_t target_id,
           ptl_pt_index_t pt_index, ptl_match_bits_t match_bits, ptl_size_t remote_offset, void* user_ptr) {
  Call call;
  if (call.result() != PTL_OK) return call.result();
  Part part = part_of(*call, md_handle, local_offset, length);
  if (part.descriptor == nullptr || length > call->limits.max_msg_size) return PTL_ARG_INVALID;
  Operation operation = operation_to(target_id, pt_index, match_bits, remote_offset, user_ptr, 0);
  operation.request.kind = wire::Kind::get;
  operation.request.length = length;
  operation.destination = std::move(part.descriptor);
  operation.incoming = part.memory;
  call->submit_locked(std::move(operation));
  return PTL_OK;
}

int PtlAtomic(ptl_handle_md_t md_handle, ptl_size_t local_offset, ptl_size_t length, ptl_ack_req_t ack_req,
              ptl_process_t target_id, ptl_pt_index_t pt_index, ptl_match_bits_t match_bits, ptl_size_t remote_offset,
              void* user_ptr, ptl_hdr_data_t hdr_data, ptl_op_t operation, ptl_datatype_t datatype) {
  Call call;
  if (call.result() != PTL_OK) return call.result();
  if (!is_valid_atomic(wire::Kind::atomic, operation, datatype, length)) return PTL_ARG_INVALID;
  if (length > call->limits.max_atomic_size) return PTL_ARG_INVALID;
  Operation update = operation_to(target_id, pt_index, match_bits, remote_offset, user_ptr, hdr_data);
  set_atomic(update, wire::Kind::atomic, operation, datatype, length);
  return submit_put(call, md_handle, local_offset, ack_req, std::move(update));
}

int PtlFetchAtomic(ptl_handle_md_t get_md_handle, ptl_size_t local_get_offset, ptl_handle_md_t put_md_handle,
                   ptl_size_t local_put_offset, ptl_size_t length, ptl_process_t target_id, ptl_pt_index_t pt_index,
                   ptl_match_bits_t match_bits, ptl_size_t remote_offset, void* user_ptr, ptl_hdr_data_t hdr_data,
                   ptl_op_t operation, ptl_datatype_t datatype) {
  Call call;
  if (call.result() != PTL_OK) return call.result();
  if (!is_valid_atomic(wire::Kind::fetch_atomic, operation, datatype, length)) return PTL_ARG_INVALID;
  Operation update = operation_to(target_id, pt_index, match_bits, remote_offset, user_ptr, hdr_data);
  set_atomic(update, wire::Kind::fetch_atomic, operation, datatype, length);
  return submit_fetch(call, get_md_handle, local_get_offset, put_md_handle, local_put_offset, std::move(update));
}

int PtlSwap(ptl_handle_md_t get_md_handle, ptl_size_t local_get_offset, ptl_handle_md_t put_md_handle,
            ptl_size_t local_put_offset, ptl_size_t length, ptl_process_t target_id, ptl_pt_index_t pt_index,
            ptl_match_bits_t match_bits, ptl_size_t remote_offset, void* user_ptr, ptl_hdr_data_t hdr_data,
            const void* operand, ptl_op_t operation, ptl_datatype_t datatype) {
  Call call;
  if (call.result() != PTL_OK) return call.result();
  if (!is_valid_atomic(wire::Kind::swap, operation, datatype, length)) return PTL_ARG_INVALID;
  if (operation != PTL_SWAP && operand == nullptr) return PTL_ARG_INVALID;
  Operation update = operation_to(target_id, pt_index, match_bits, remote_offset, user_ptr, hdr_data);
  set_atomic(update, wire::Kind::swap, operation, datatype, length);
  if (operation != PTL_SWAP) std::memcpy(&update.request.operand, operand, item_size(datatype));
  return submit_fetch(call, get_md_handle, local_get_offset, put_md_handle, local_put_offset, std::move(update));
}
