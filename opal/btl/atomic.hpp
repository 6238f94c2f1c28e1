// SPDX-License-Identifier: Apache-2.0
// opal/btl/atomic.hpp — one remote atomic operation, and its execution by a processor: at the target, or at the
// initiator on mapped memory of the target. Values travel as 64-bit patterns: 32-bit types use the low half.
#pragma once
#include <cstdint>

#include "opal/btl/memory_handle.hpp"
#include "opal/core/export.hpp"
#include "opal/core/result.hpp"

namespace opal {

enum class AtomicOp : std::uint8_t { add, bit_and, bit_or, bit_xor, swap, min, max, compare_swap };
enum class AtomicType : std::uint8_t { i32, u32, i64, u64, f32, f64 };

constexpr std::size_t size_of(AtomicType type) noexcept {
  return type == AtomicType::i32 || type == AtomicType::u32 || type == AtomicType::f32 ? 4 : 8;
}

/// True for every pair of known values except a bitwise operation on f32 or f64.  Safe for values from a peer.
constexpr bool is_supported(AtomicOp op, AtomicType type) noexcept {
  const bool floating = type == AtomicType::f32 || type == AtomicType::f64;
  return op <= AtomicOp::compare_swap && type <= AtomicType::f64 &&
         !(floating && (op == AtomicOp::bit_and || op == AtomicOp::bit_or || op == AtomicOp::bit_xor));
}

struct AtomicRequest {
  AtomicOp op;
  AtomicType type;
  std::uint64_t remote_address;     ///< naturally aligned for `type`
  const MemoryHandle* remote;       ///< registered with Rights::remote_atomic; borrowed for the call
  std::uint64_t operand;            ///< the new value for swap and compare_swap
  std::uint64_t compare = 0;        ///< compare_swap only
  std::uint64_t* result = nullptr;  ///< receives the old value, if not null; must live until completion
};

/// Runs the operation on mapped memory with the processor's atomics and returns the old value.  It is atomic with
/// respect to atomic accesses of all processors of this host.
/// Requires: is_supported(op, type); `target` is accessible, aligned host memory; the caller has checked the rights.
OPAL_EXPORT std::uint64_t execute_atomic(AtomicOp op, AtomicType type, void* target, std::uint64_t operand,
                                         std::uint64_t compare) noexcept;

}  // namespace opal
