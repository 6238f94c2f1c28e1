// SPDX-License-Identifier: Apache-2.0
// mpi_shim/datatype/element.hpp — the elements that datatypes consist of.  Predefined datatypes with the same bytes in
// memory and the same reductions share one element (MPI_INT and MPI_INT32_T are both i32).  Threads: constants.
#pragma once
#include <cstddef>
#include <cstdint>

namespace mpi_shim::datatype {

enum class Element : std::uint8_t {
  packed,     ///< MPI_PACKED
  byte,       ///< MPI_BYTE: bitwise reductions only
  text8,      ///< MPI_CHARACTER only; MPI_CHAR is i8 or u8
  text_wide,  ///< wchar_t
  i8,
  i16,
  i32,
  i64,
  i128,
  u8,
  u16,
  u32,
  u64,
  f16,
  f32,
  f64,
  fext,  ///< long double
  f128,
  cf16,  ///< complex number of two f16; the next four alike
  cf32,
  cf64,
  cfext,
  cf128,
  boolean,   ///< C and C++ bool
  logical8,  ///< Fortran LOGICAL of 8 bits
  logical16,
  logical32,
  logical64,
  logical128,
  pair_f32_i32,  ///< value and index of MINLOC and MAXLOC, laid out like a C struct
  pair_f64_i32,
  pair_i64_i32,
  pair_i32_i32,
  pair_i16_i32,
  pair_fext_i32,
  pair_f32_f32,
  pair_f64_f64,
};
inline constexpr std::size_t kElements = static_cast<std::size_t>(Element::pair_f64_f64) + 1;

/// Groups the elements by the reductions that are defined on them.
enum class ElementClass : std::uint8_t { opaque, byte, integer, floating, complex, logical, pair };

struct ElementInfo {
  const char* name;
  std::uint8_t size;       ///< bytes of data in a message
  std::uint8_t extent;     ///< bytes between the starts of neighbours in an array
  std::uint8_t alignment;  ///< bytes, in a C struct
  ElementClass element_class;
  Element first;               ///< of a pair: the element of the value; else the element itself
  Element second;              ///< of a pair: the element of the index; else the element itself
  std::uint8_t second_offset;  ///< of a pair: byte offset of the index; else 0
};

/// The properties of `element`; static lifetime.
const ElementInfo& info(Element element) noexcept;

}  // namespace mpi_shim::datatype
