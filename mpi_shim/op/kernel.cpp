// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/op/kernel.hpp"

#include <cstring>
#include <functional>
#include <type_traits>

#include "mpi_shim/op/half.hpp"

namespace mpi_shim::op {
namespace {

using enum datatype::Element;
using datatype::Element;

// --- The loop of all reductions, and the types of its elements

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
Kernel integer_loop(Element element, Vectors vectors) noexcept {
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

// --- SUM, PROD, MIN and MAX on integers and floating point, SUM and PROD on complex numbers

template <class T>
inline constexpr bool kIsInteger = std::is_integral_v<T> || std::is_same_v<T, Int128>;

// Unsigned arithmetic of at least 32 bits: overflow wraps, and 16-bit products do not promote to a signed int.
template <class T>
using Wrapping =
    std::conditional_t<sizeof(T) == 16, Unsigned128, std::conditional_t<sizeof(T) == 8, std::uint64_t, std::uint32_t>>;

template <class Operator>
struct Wrapped {
  template <class T>
  static T apply(T a, T b) noexcept {
    if constexpr (kIsInteger<T>) {
      return static_cast<T>(Operator{}(static_cast<Wrapping<T>>(a), static_cast<Wrapping<T>>(b)));
    } else {
      return Operator{}(a, b);
    }
  }
};

struct Sum : Wrapped<std::plus<>> {
  using Wrapped::apply;
  template <class T>
  static Complex<T> apply(Complex<T> a, Complex<T> b) noexcept {
    return {a.real + b.real, a.imaginary + b.imaginary};
  }
};

struct Product : Wrapped<std::multiplies<>> {
  using Wrapped::apply;
  template <class T>
  static Complex<T> apply(Complex<T> a, Complex<T> b) noexcept {
    return {a.real * b.real - a.imaginary * b.imaginary, a.real * b.imaginary + a.imaginary * b.real};
  }
};

struct Minimum {
  template <class T>
  static T apply(T a, T b) noexcept {
    return a < b ? a : b;
  }
};

struct Maximum {
  template <class T>
  static T apply(T a, T b) noexcept {
    return b < a ? a : b;
  }
};

template <class Operation>
Kernel real_loop(Element element, Vectors vectors) noexcept {
  switch (element) {
    case f16: return loop<Operation, Half>(vectors);
    case f32: return loop<Operation, float>(vectors);
    case f64: return loop<Operation, double>(vectors);
    case fext: return loop<Operation, long double>(vectors);
    case f128: return loop<Operation, Quad>(vectors);
    default: return integer_loop<Operation>(element, vectors);
  }
}

template <class Operation>
Kernel number_loop(Element element, Vectors vectors) noexcept {
  switch (element) {
    case cf16: return loop<Operation, Complex<Half>>(vectors);
    case cf32: return loop<Operation, Complex<float>>(vectors);
    case cf64: return loop<Operation, Complex<double>>(vectors);
    case cfext: return loop<Operation, Complex<long double>>(vectors);
    case cf128: return loop<Operation, Complex<Quad>>(vectors);
    default: return real_loop<Operation>(element, vectors);
  }
}

// --- BAND, BOR and BXOR on integers and bytes; LAND, LOR and LXOR on integers and logical types

// Bitwise operators on logical values instead of && and ||: without branches the compiler vectorises the loop.
template <class Operator>
struct Logical {
  template <class T>
  static T apply(T a, T b) noexcept {
    return static_cast<T>(Operator{}(static_cast<int>(a != 0), static_cast<int>(b != 0)));
  }
};

template <class Operation>
Kernel bit_loop(Element element, Vectors vectors) noexcept {
  return element == Element::byte ? loop<Operation, std::uint8_t>(vectors) : integer_loop<Operation>(element, vectors);
}

template <class Operation>
Kernel logical_loop(Element element, Vectors vectors) noexcept {
  switch (element) {
    case boolean:  // as an integer: the application's byte may be neither 0 nor 1
    case logical8: return loop<Operation, std::uint8_t>(vectors);
    case logical16: return loop<Operation, std::uint16_t>(vectors);
    case logical32: return loop<Operation, std::uint32_t>(vectors);
    case logical64: return loop<Operation, std::uint64_t>(vectors);
    case logical128: return loop<Operation, Unsigned128>(vectors);
    default: return integer_loop<Operation>(element, vectors);
  }
}
static_assert(sizeof(bool) == 1);

// --- MINLOC and MAXLOC on pairs of value and index

template <bool smallest>
struct ValueAndLocation {
  template <class V, class I>
  static Pair<V, I> apply(Pair<V, I> a, Pair<V, I> b) noexcept {
    if (smallest ? a.value < b.value : b.value < a.value) return a;
    if (a.value == b.value && a.index < b.index) return a;
    return b;
  }
};

template <class Operation>
Kernel pair_loop(Element element, Vectors vectors) noexcept {
  switch (element) {
    case pair_f32_i32: return loop<Operation, Pair<float, std::int32_t>>(vectors);
    case pair_f64_i32: return loop<Operation, Pair<double, std::int32_t>>(vectors);
    case pair_i64_i32: return loop<Operation, Pair<std::int64_t, std::int32_t>>(vectors);
    case pair_i32_i32: return loop<Operation, Pair<std::int32_t, std::int32_t>>(vectors);
    case pair_i16_i32: return loop<Operation, Pair<std::int16_t, std::int32_t>>(vectors);
    case pair_fext_i32: return loop<Operation, Pair<long double, std::int32_t>>(vectors);
    case pair_f32_f32: return loop<Operation, Pair<float, float>>(vectors);
    case pair_f64_f64: return loop<Operation, Pair<double, double>>(vectors);
    default: return nullptr;
  }
}

// --- REPLACE and NO_OP

template <std::size_t extent>
void copy(const void* in, void* inout, std::int64_t count) noexcept {
  if (count > 0) std::memcpy(inout, in, extent * static_cast<std::size_t>(count));
}

void keep(const void*, void*, std::int64_t) noexcept {}

Kernel copy_kernel(Element element) noexcept {
  switch (info(element).extent) {
    case 1: return &copy<1>;
    case 2: return &copy<2>;
    case 4: return &copy<4>;
    case 8: return &copy<8>;
    case 12: return &copy<12>;
    case 16: return &copy<16>;
    case 32: return &copy<32>;
    default: return nullptr;
  }
}

}  // namespace

Vectors widest_vectors() noexcept {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    return Vectors::avx512;
  if (__builtin_cpu_supports("avx2")) return Vectors::avx2;
#endif
  return Vectors::built_in;
}

Kernel find_kernel(OpKind kind, Element element, Vectors vectors) noexcept {
  switch (kind) {
    case OpKind::sum: return number_loop<Sum>(element, vectors);
    case OpKind::prod: return number_loop<Product>(element, vectors);
    case OpKind::min: return real_loop<Minimum>(element, vectors);
    case OpKind::max: return real_loop<Maximum>(element, vectors);
    case OpKind::band: return bit_loop<Wrapped<std::bit_and<>>>(element, vectors);
    case OpKind::bor: return bit_loop<Wrapped<std::bit_or<>>>(element, vectors);
    case OpKind::bxor: return bit_loop<Wrapped<std::bit_xor<>>>(element, vectors);
    case OpKind::land: return logical_loop<Logical<std::bit_and<>>>(element, vectors);
    case OpKind::lor: return logical_loop<Logical<std::bit_or<>>>(element, vectors);
    case OpKind::lxor: return logical_loop<Logical<std::bit_xor<>>>(element, vectors);
    case OpKind::minloc: return pair_loop<ValueAndLocation<true>>(element, vectors);
    case OpKind::maxloc: return pair_loop<ValueAndLocation<false>>(element, vectors);
    case OpKind::replace: return copy_kernel(element);
    case OpKind::no_op: return &keep;
    default: return nullptr;
  }
}

}  // namespace mpi_shim::op
