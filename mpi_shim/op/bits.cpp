// SPDX-License-Identifier: Apache-2.0
// BAND, BOR and BXOR on integers and bytes; LAND, LOR and LXOR on integers and logical types.
#include <functional>

#include "mpi_shim/op/loop.hpp"

namespace mpi_shim::op {
namespace {

template <class Operator>
struct Bits {
  template <class T>
  static T apply(T a, T b) noexcept {
    return static_cast<T>(Operator{}(a, b));
  }
};

// Bitwise operators on logical values instead of && and ||: without branches the compiler vectorises the loop.
template <class Operator>
struct Logical {
  template <class T>
  static T apply(T a, T b) noexcept {
    return static_cast<T>(Operator{}(static_cast<int>(a != 0), static_cast<int>(b != 0)));
  }
};

template <class Operation>
Kernel bit_loop(datatype::Element element, Vectors vectors) noexcept {
  return element == datatype::Element::byte ? loop<Operation, std::uint8_t>(vectors)
                                            : integer_loop<Operation>(element, vectors);
}

template <class Operation>
Kernel logical_loop(datatype::Element element, Vectors vectors) noexcept {
  using enum datatype::Element;
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

}  // namespace

Kernel bit_kernel(OpKind kind, datatype::Element element, Vectors vectors) noexcept {
  switch (kind) {
    case OpKind::band: return bit_loop<Bits<std::bit_and<>>>(element, vectors);
    case OpKind::bor: return bit_loop<Bits<std::bit_or<>>>(element, vectors);
    case OpKind::bxor: return bit_loop<Bits<std::bit_xor<>>>(element, vectors);
    case OpKind::land: return logical_loop<Logical<std::bit_and<>>>(element, vectors);
    case OpKind::lor: return logical_loop<Logical<std::bit_or<>>>(element, vectors);
    case OpKind::lxor: return logical_loop<Logical<std::bit_xor<>>>(element, vectors);
    default: return nullptr;
  }
}

}  // namespace mpi_shim::op
