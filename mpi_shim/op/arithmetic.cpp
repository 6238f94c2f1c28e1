// SPDX-License-Identifier: Apache-2.0
// SUM, PROD, MIN and MAX on integers and floating point, SUM and PROD on complex numbers.
#include <functional>

#include "mpi_shim/op/loop.hpp"

namespace mpi_shim::op {
namespace {

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
Kernel real_loop(datatype::Element element, Vectors vectors) noexcept {
  const Kernel kernel = integer_loop<Operation>(element, vectors);
  return kernel != nullptr ? kernel : floating_loop<Operation>(element, vectors);
}

template <class Operation>
Kernel number_loop(datatype::Element element, Vectors vectors) noexcept {
  using enum datatype::Element;
  switch (element) {
    case cf16: return loop<Operation, Complex<Half>>(vectors);
    case cf32: return loop<Operation, Complex<float>>(vectors);
    case cf64: return loop<Operation, Complex<double>>(vectors);
    case cfext: return loop<Operation, Complex<long double>>(vectors);
    case cf128: return loop<Operation, Complex<Quad>>(vectors);
    default: return real_loop<Operation>(element, vectors);
  }
}

}  // namespace

Kernel arithmetic_kernel(OpKind kind, datatype::Element element, Vectors vectors) noexcept {
  switch (kind) {
    case OpKind::sum: return number_loop<Sum>(element, vectors);
    case OpKind::prod: return number_loop<Product>(element, vectors);
    case OpKind::min: return real_loop<Minimum>(element, vectors);
    case OpKind::max: return real_loop<Maximum>(element, vectors);
    default: return nullptr;
  }
}

}  // namespace mpi_shim::op
