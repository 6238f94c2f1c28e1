// SPDX-License-Identifier: Apache-2.0
// mpi_shim/op/loop.hpp — the one loop that every reduction is an instance of, and the types it runs on.
// Included by the kernel files only.  Threads: none.
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

/// An element at any address: packed takes the alignment away, may_alias the claim on what the application calls it.
template <class T>
struct [[gnu::packed, gnu::may_alias]] Slot {
  T value;
};

template <class Operation, class T>
void loop(const void* in, void* inout, std::int64_t count) noexcept {
  static_assert(sizeof(Slot<T>) == sizeof(T));
  const auto* __restrict a = static_cast<const Slot<T>*>(in);
  auto* __restrict b = static_cast<Slot<T>*>(inout);
  for (std::int64_t i = 0; i < count; ++i) b[i].value = Operation::apply(T{a[i].value}, T{b[i].value});
}

template <class Operation>
Kernel integer_loop(datatype::Element element) noexcept {
  using enum datatype::Element;
  switch (element) {
    case i8: return &loop<Operation, std::int8_t>;
    case i16: return &loop<Operation, std::int16_t>;
    case i32: return &loop<Operation, std::int32_t>;
    case i64: return &loop<Operation, std::int64_t>;
    case i128: return &loop<Operation, Int128>;
    case u8: return &loop<Operation, std::uint8_t>;
    case u16: return &loop<Operation, std::uint16_t>;
    case u32: return &loop<Operation, std::uint32_t>;
    case u64: return &loop<Operation, std::uint64_t>;
    default: return nullptr;
  }
}

template <class Operation>
Kernel floating_loop(datatype::Element element) noexcept {
  using enum datatype::Element;
  switch (element) {
    case f16: return &loop<Operation, Half>;
    case f32: return &loop<Operation, float>;
    case f64: return &loop<Operation, double>;
    case fext: return &loop<Operation, long double>;
    case f128: return &loop<Operation, Quad>;
    default: return nullptr;
  }
}

// Each file of kernels answers for its kinds.
Kernel arithmetic_kernel(OpKind kind, datatype::Element element) noexcept;
Kernel bit_kernel(OpKind kind, datatype::Element element) noexcept;
Kernel pair_kernel(OpKind kind, datatype::Element element) noexcept;

}  // namespace mpi_shim::op
