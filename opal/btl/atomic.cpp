// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/atomic.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <type_traits>

namespace opal {
namespace {

template <class T, class Combine>
T update(std::atomic_ref<T> target, Combine combine) noexcept {
  T old = target.load(std::memory_order_relaxed);
  while (!target.compare_exchange_weak(old, combine(old), std::memory_order_acq_rel, std::memory_order_relaxed)) {
  }
  return old;
}

template <class T>
T apply(AtomicOp op, T& memory, T operand, T compare) noexcept {
  std::atomic_ref<T> target{memory};
  switch (op) {
    case AtomicOp::add: return target.fetch_add(operand, std::memory_order_acq_rel);  // signed integers wrap
    case AtomicOp::swap: return target.exchange(operand, std::memory_order_acq_rel);
    case AtomicOp::min: return update(target, [=](T old) { return std::min(old, operand); });
    case AtomicOp::max: return update(target, [=](T old) { return std::max(old, operand); });
    case AtomicOp::compare_swap:
      target.compare_exchange_strong(compare, operand, std::memory_order_acq_rel);
      return compare;
    default: break;
  }
  if constexpr (std::is_integral_v<T>) {
    if (op == AtomicOp::bit_and) return target.fetch_and(operand, std::memory_order_acq_rel);
    if (op == AtomicOp::bit_or) return target.fetch_or(operand, std::memory_order_acq_rel);
    if (op == AtomicOp::bit_xor) return target.fetch_xor(operand, std::memory_order_acq_rel);
  }
  return memory;  // not reached: callers refuse unsupported pairs with is_supported()
}

template <class T>
std::uint64_t run(AtomicOp op, void* target, std::uint64_t operand, std::uint64_t compare) noexcept {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  const auto value = [](std::uint64_t pattern) { return std::bit_cast<T>(static_cast<Bits>(pattern)); };
  return std::bit_cast<Bits>(apply<T>(op, *static_cast<T*>(target), value(operand), value(compare)));
}

}  // namespace

std::uint64_t execute_atomic(AtomicOp op, AtomicType type, void* target, std::uint64_t operand,
                             std::uint64_t compare) noexcept {
  switch (type) {
    case AtomicType::i32: return run<std::int32_t>(op, target, operand, compare);
    case AtomicType::u32: return run<std::uint32_t>(op, target, operand, compare);
    case AtomicType::i64: return run<std::int64_t>(op, target, operand, compare);
    case AtomicType::u64: return run<std::uint64_t>(op, target, operand, compare);
    case AtomicType::f32: return run<float>(op, target, operand, compare);
    case AtomicType::f64: return run<double>(op, target, operand, compare);
  }
  return 0;
}

}  // namespace opal
