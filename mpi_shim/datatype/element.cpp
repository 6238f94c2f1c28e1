// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/datatype/element.hpp"

#include <array>

namespace mpi_shim::datatype {
namespace {

// For the alignment of a struct member, which on some ABIs is less than alignof.
template <class T>
struct InStruct {
  char first;
  T member;
};
template <class T>
constexpr std::uint8_t kAlignment = sizeof(InStruct<T>) - sizeof(T);

template <class V, class I>
struct PairLayout {
  V value;
  I index;
};

constexpr ElementInfo plain(const char* name, Element self, ElementClass element_class, std::size_t size,
                            std::size_t alignment) {
  const auto bytes = static_cast<std::uint8_t>(size);
  return {name, bytes, bytes, static_cast<std::uint8_t>(alignment), element_class, self, self, 0};
}

template <class T>
constexpr ElementInfo scalar(const char* name, Element self, ElementClass element_class) {
  return plain(name, self, element_class, sizeof(T), kAlignment<T>);
}

template <class V, class I>
constexpr ElementInfo pair(const char* name, Element value, Element index) {
  using Layout = PairLayout<V, I>;
  return {name,  sizeof(V) + sizeof(I),  sizeof(Layout), kAlignment<Layout>, ElementClass::pair, value,
          index, offsetof(Layout, index)};
}

using enum Element;
using Class = ElementClass;
static_assert(sizeof(long) == 8, "MPI_LONG and MPI_LONG_INT are 64-bit here");

constexpr std::array<ElementInfo, kElements> kInfo = {{
    plain("packed", packed, Class::opaque, 1, 1),
    plain("byte", byte, Class::byte, 1, 1),
    plain("text8", text8, Class::opaque, 1, 1),
    scalar<wchar_t>("text_wide", text_wide, Class::opaque),
    scalar<std::int8_t>("i8", i8, Class::integer),
    scalar<std::int16_t>("i16", i16, Class::integer),
    scalar<std::int32_t>("i32", i32, Class::integer),
    scalar<std::int64_t>("i64", i64, Class::integer),
    plain("i128", i128, Class::integer, 16, 16),
    scalar<std::uint8_t>("u8", u8, Class::integer),
    scalar<std::uint16_t>("u16", u16, Class::integer),
    scalar<std::uint32_t>("u32", u32, Class::integer),
    scalar<std::uint64_t>("u64", u64, Class::integer),
    plain("f16", f16, Class::floating, 2, 2),
    scalar<float>("f32", f32, Class::floating),
    scalar<double>("f64", f64, Class::floating),
    scalar<long double>("fext", fext, Class::floating),
    plain("f128", f128, Class::floating, 16, 16),
    plain("cf16", cf16, Class::complex, 4, 2),
    plain("cf32", cf32, Class::complex, 2 * sizeof(float), kAlignment<float>),
    plain("cf64", cf64, Class::complex, 2 * sizeof(double), kAlignment<double>),
    plain("cfext", cfext, Class::complex, 2 * sizeof(long double), kAlignment<long double>),
    plain("cf128", cf128, Class::complex, 32, 16),
    scalar<bool>("boolean", boolean, Class::logical),
    plain("logical8", logical8, Class::logical, 1, 1),
    plain("logical16", logical16, Class::logical, 2, 2),
    plain("logical32", logical32, Class::logical, 4, 4),
    plain("logical64", logical64, Class::logical, 8, 8),
    plain("logical128", logical128, Class::logical, 16, 16),
    pair<float, int>("pair_f32_i32", f32, i32),
    pair<double, int>("pair_f64_i32", f64, i32),
    pair<long, int>("pair_i64_i32", i64, i32),
    pair<int, int>("pair_i32_i32", i32, i32),
    pair<short, int>("pair_i16_i32", i16, i32),
    pair<long double, int>("pair_fext_i32", fext, i32),
    pair<float, float>("pair_f32_f32", f32, f32),
    pair<double, double>("pair_f64_f64", f64, f64),
}};

constexpr bool table_follows_the_enumeration() {
  for (std::size_t i = 0; i < kElements; ++i) {
    const bool is_pair = kInfo[i].element_class == Class::pair;
    if (is_pair != (i >= static_cast<std::size_t>(pair_f32_i32))) return false;
    if (!is_pair && kInfo[i].first != static_cast<Element>(i)) return false;
  }
  return true;
}
static_assert(table_follows_the_enumeration());

}  // namespace

const ElementInfo& info(Element element) noexcept { return kInfo[static_cast<std::size_t>(element)]; }

}  // namespace mpi_shim::datatype
