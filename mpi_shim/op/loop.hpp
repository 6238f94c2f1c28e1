// SPDX-License-Identifier: Apache-2.0
// mpi_shim/op/loop.hpp — the loop template of all reductions, and the types of its elements.
// Included by the kernel files only (arithmetic.cpp, bits.cpp, kernel.cpp, pairs.cpp).  Threads: no shared state.
#pragma once
#include <cstdint>
#include <type_traits>

#include "mpi_shim/op/half.hpp"
#include "mpi_shim/op/kernel.hpp"

namespace mpi_shim::op {

__extension__ using Int128 = __int128;
__extension__ using Unsigned128 = unsigned __int128;
#if defined(__SIZEOF_FLOAT128__)
__extension__ using Quad = __float128;
#else
using Quad = long double;  // where long double has 113 bits of mantissa
static_assert(sizeof(Quad) == 16);
#endif

template <class T>
struct Complex {
  T real;
  T imaginary;
};

template <class V, class I>
struct Pair {
  V value;
  I index;
};

/// An element at any address: `packed` removes the alignment requirement, and `may_alias` allows that the application
/// accesses the memory by another type.
template <class T>
struct [[gnu::packed, gnu::may_alias]] Slot {
  T value;
};

template <class Operation, class T>
[[gnu::always_inline]] inline void reduce(const void* in, void* inout, std::int64_t count) noexcept {
  static_assert(sizeof(Slot<T>) == sizeof(T));
  const auto* __restrict a = static_cast<const Slot<T>*>(in);
  auto* __restrict b = static_cast<Slot<T>*>(inout);
  for (std::int64_t i = 0; i < count; ++i) b[i].value = Operation::apply(T{a[i].value}, T{b[i].value});
}

template <class Operation, class T>
void loop_for_any(const void* in, void* inout, std::int64_t count) noexcept {
  reduce<Operation, T>(in, inout, count);
}

/// Whether the loop is also compiled for wider vectors.  Not for complex numbers: the compiler could fuse a product and
/// a sum of theirs, which changes the rounding.
template <class T>
inline constexpr bool kIsVector = std::is_arithmetic_v<T> && !std::is_same_v<T, long double>;

#if defined(__x86_64__)
template <class Operation, class T>
[[gnu::target("avx2")]] void loop_for_avx2(const void* in, void* inout, std::int64_t count) noexcept {
  reduce<Operation, T>(in, inout, count);
}
template <class Operation, class T>
[[gnu::target("avx512f,avx512bw,avx512dq,avx512vl")]] void loop_for_avx512(const void* in, void* inout,
                                                                           std::int64_t count) noexcept {
  reduce<Operation, T>(in, inout, count);
}
#endif

/// The loop compiled for `vectors`, or without them if the type does not use vectors.
template <class Operation, class T>
Kernel loop([[maybe_unused]] Vectors vectors) noexcept {
#if defined(__x86_64__)
  if constexpr (kIsVector<T>) {
    if (vectors == Vectors::avx512) return &loop_for_avx512<Operation, T>;
    if (vectors == Vectors::avx2) return &loop_for_avx2<Operation, T>;
  }
#endif
  return &loop_for_any<Operation, T>;
}

template <class Operation>
Kernel integer_loop(datatype::Element element, Vectors vectors) noexcept {
  using enum datatype::Element;
  switch (element) {
    case i8: return loop<Operation, std::int8_t>(vectors);
    case i16: return loop<Operation, std::int16_t>(vectors);
    case i32: return loop<Operation, std::int32_t>(vectors);
    case i64: return loop<Operation, std::int64_t>(vectors);
    case i128: return loop<Operation, Int128>(vectors);
    case u8: return loop<Operation, std::uint8_t>(vectors);
    case u16: return loop<Operation, std::uint16_t>(vectors);
    case u32: return loop<Operation, std::uint32_t>(vectors);
    case u64: return loop<Operation, std::uint64_t>(vectors);
    default: return nullptr;
  }
}

template <class Operation>
Kernel floating_loop(datatype::Element element, Vectors vectors) noexcept {
  using enum datatype::Element;
  switch (element) {
    case f16: return loop<Operation, Half>(vectors);
    case f32: return loop<Operation, float>(vectors);
    case f64: return loop<Operation, double>(vectors);
    case fext: return loop<Operation, long double>(vectors);
    case f128: return loop<Operation, Quad>(vectors);
    default: return nullptr;
  }
}

// The kernels of one file each; null if the kind is in another file or not defined on the element.
Kernel arithmetic_kernel(OpKind kind, datatype::Element element, Vectors vectors) noexcept;
Kernel bit_kernel(OpKind kind, datatype::Element element, Vectors vectors) noexcept;
Kernel pair_kernel(OpKind kind, datatype::Element element, Vectors vectors) noexcept;

}  // namespace mpi_shim::op
