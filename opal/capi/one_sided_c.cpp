// SPDX-License-Identifier: Apache-2.0
// The C interface to keys, put, get, atomics and flush.
#include "opal/capi/internal.hpp"

using namespace opal::capi;

namespace {

/// opal_put and opal_put_or_queue, and the other pairs, differ only in the Endpoint's function.
template <auto how, class Memory>
opal_status_t transfer(opal_endpoint_t* to, Memory* here, uint64_t remote_address, const opal_remote_key_t* key,
                       uint64_t size, opal_completion_t* completion, const char* missing) noexcept {
  if (to == nullptr || key == nullptr || is_missing(here, size)) return misuse(completion, missing);
  return post(endpoint(to).context(), completion, [&](opal::Completion& end) {
    return (endpoint(to).*how)(here, remote_address, unpacked(key), size, end);
  });
}

constexpr const char* kPut = "opal_put, opal_put_or_queue: an endpoint, a source and an unpacked key are needed";
constexpr const char* kGet = "opal_get, opal_get_or_queue: an endpoint, a destination and an unpacked key are needed";

template <auto Atomic>
opal_status_t atomic_with(opal_endpoint_t* to, int op, int type, uint64_t remote_address, const opal_remote_key_t* key,
                          uint64_t operand, uint64_t compare, uint64_t* result,
                          opal_completion_t* completion) noexcept {
  if (to == nullptr || key == nullptr || op < OPAL_ADD || op > OPAL_COMPARE_SWAP || type < OPAL_I32 ||
      type > OPAL_F64) {
    return misuse(completion,
                  "opal_atomic, opal_atomic_or_queue: an endpoint, an unpacked key, OPAL_ADD..OPAL_COMPARE_SWAP and "
                  "OPAL_I32..OPAL_F64 are needed");
  }
  return post(endpoint(to).context(), completion, [&](opal::Completion& end) {
    return (endpoint(to).*Atomic)({static_cast<opal::AtomicOp>(op), static_cast<opal::AtomicType>(type), remote_address,
                                   &unpacked(key), operand, compare, result},
                                  end);
  });
}

using opal::am::Endpoint;

}  // namespace

extern "C" {

opal_status_t opal_unpack_key(const opal_endpoint_t* peer, const void* key, size_t size,
                              opal_remote_key_t* unpacked) noexcept {
  if (peer == nullptr || is_missing(key, size) || unpacked == nullptr) {
    return misuse("opal_unpack_key: an endpoint, a key, and somewhere to put the unpacked one are needed");
  }
  auto handle = endpoint(peer).unpack_key(bytes(key, size));
  if (!handle) return fail(handle.error());
  new (unpacked->opaque) opal::MemoryHandle{*handle};
  return OPAL_OK;
}

opal_status_t opal_put(opal_endpoint_t* to, const void* source, uint64_t remote_address, const opal_remote_key_t* key,
                       uint64_t size, opal_completion_t* completion) noexcept {
  return transfer<&Endpoint::put>(to, source, remote_address, key, size, completion, kPut);
}

opal_status_t opal_get(opal_endpoint_t* to, void* destination, uint64_t remote_address, const opal_remote_key_t* key,
                       uint64_t size, opal_completion_t* completion) noexcept {
  return transfer<&Endpoint::get>(to, destination, remote_address, key, size, completion, kGet);
}

opal_status_t opal_atomic(opal_endpoint_t* to, int op, int type, uint64_t remote_address, const opal_remote_key_t* key,
                          uint64_t operand, uint64_t compare, uint64_t* result,
                          opal_completion_t* completion) noexcept {
  return atomic_with<&Endpoint::atomic>(to, op, type, remote_address, key, operand, compare, result, completion);
}

opal_status_t opal_put_or_queue(opal_endpoint_t* to, const void* source, uint64_t remote_address,
                                const opal_remote_key_t* key, uint64_t size, opal_completion_t* completion) noexcept {
  return transfer<&Endpoint::put_or_queue>(to, source, remote_address, key, size, completion, kPut);
}

opal_status_t opal_get_or_queue(opal_endpoint_t* to, void* destination, uint64_t remote_address,
                                const opal_remote_key_t* key, uint64_t size, opal_completion_t* completion) noexcept {
  return transfer<&Endpoint::get_or_queue>(to, destination, remote_address, key, size, completion, kGet);
}

opal_status_t opal_atomic_or_queue(opal_endpoint_t* to, int op, int type, uint64_t remote_address,
                                   const opal_remote_key_t* key, uint64_t operand, uint64_t compare, uint64_t* result,
                                   opal_completion_t* completion) noexcept {
  return atomic_with<&Endpoint::atomic_or_queue>(to, op, type, remote_address, key, operand, compare, result,
                                                 completion);
}

opal_status_t opal_put_notify(opal_endpoint_t* to, const void* source, uint64_t remote_address,
                              const opal_remote_key_t* key, uint64_t size, uint16_t tag, const void* header,
                              size_t header_size, opal_completion_t* completion) noexcept {
  if (to == nullptr || key == nullptr || is_missing(source, size) || is_missing(header, header_size) ||
      !opal::kUserTags.contains(tag)) {
    return misuse(completion,
                  "opal_put_notify: an endpoint, a source, an unpacked key, a tag from OPAL_TAG_USER_FIRST to "
                  "OPAL_TAG_USER_LAST and a header are needed");
  }
  return post(endpoint(to).context(), completion, [&](opal::Completion& end) {
    return endpoint(to).put_notify(source, remote_address, unpacked(key), size, tag, bytes(header, header_size), end);
  });
}

opal_status_t opal_flush(opal_endpoint_t* to, opal_completion_t* completion) noexcept {
  if (to == nullptr) return misuse(completion, "opal_flush: an endpoint is needed");
  return post(endpoint(to).context(), completion, [&](opal::Completion& end) { return endpoint(to).flush(end); });
}

opal_status_t opal_flush_all(opal_context_t* context, opal_completion_t* completion) noexcept {
  if (context == nullptr) return misuse(completion, "opal_flush_all: a context is needed");
  return post(context_of(*context), completion, [&](opal::Completion& end) { return context_of(*context).flush(end); });
}

}  // extern "C"
