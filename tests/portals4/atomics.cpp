// SPDX-License-Identifier: Apache-2.0
#include "tests/portals4/atomics.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <type_traits>

namespace opal::test::portals4 {
namespace {

template <class T>
T combine(ptl_op_t operation, T old, T value, T operand) {
  using Unsigned = std::make_unsigned_t<T>;
  switch (operation) {
    case PTL_MIN: return std::min(old, value);
    case PTL_MAX: return std::max(old, value);
    case PTL_SUM: return static_cast<T>(static_cast<Unsigned>(old) + static_cast<Unsigned>(value));  // wraps
    case PTL_BOR: return static_cast<T>(old | value);
    case PTL_BAND: return static_cast<T>(old & value);
    case PTL_BXOR: return static_cast<T>(old ^ value);
    case PTL_CSWAP: return old == operand ? value : old;
    case PTL_MSWAP: return static_cast<T>((old & ~operand) | (value & operand));
    default: return value;  // PTL_SWAP
  }
}

template <class T>
void apply_items(const wire::Request& request, std::byte* target, std::byte* values, std::size_t length) {
  T operand{};
  std::memcpy(&operand, &request.operand, sizeof operand);
  for (std::size_t at = 0; at < length; at += sizeof(T)) {
    T value{};
    std::memcpy(&value, values + at, sizeof value);
    const std::atomic_ref<T> item{*reinterpret_cast<T*>(target + at)};
    T old = item.load();
    while (!item.compare_exchange_weak(old, combine(request.operation, old, value, operand))) {
    }
    std::memcpy(values + at, &old, sizeof old);
  }
}

bool is_update(ptl_op_t operation) {
  return operation == PTL_MIN || operation == PTL_MAX || operation == PTL_SUM || operation == PTL_BOR ||
         operation == PTL_BAND || operation == PTL_BXOR;
}

}  // namespace

std::size_t item_size(ptl_datatype_t type) {
  switch (type) {
    case PTL_INT32_T:
    case PTL_UINT32_T: return 4;
    case PTL_INT64_T:
    case PTL_UINT64_T: return 8;
    default: return 0;
  }
}

bool is_valid_atomic(wire::Kind kind, ptl_op_t operation, ptl_datatype_t type, std::uint64_t length) {
  const std::size_t item = item_size(type);
  if (item == 0 || length % item != 0) return false;
  if (kind != wire::Kind::swap) return is_update(operation);
  if (operation == PTL_SWAP) return true;
  return (operation == PTL_CSWAP || operation == PTL_MSWAP) && length == item;
}

void apply_atomic(const wire::Request& request, std::byte* target, std::byte* values, std::size_t length) {
  switch (request.datatype) {
    case PTL_INT32_T: return apply_items<std::int32_t>(request, target, values, length);
    case PTL_UINT32_T: return apply_items<std::uint32_t>(request, target, values, length);
    case PTL_INT64_T: return apply_items<std::int64_t>(request, target, values, length);
    case PTL_UINT64_T: return apply_items<std::uint64_t>(request, target, values, length);
    default: return;
  }
}

}  // namespace opal::test::portals4
