// SPDX-License-Identifier: Apache-2.0
// mpi_shim/datatype/element.hpp — the elements that datatypes are made of, told apart by representation.
// Several predefined datatypes share one element (MPI_INT and MPI_INT32_T are both i32): what matters below the ABI is
// how the bytes are laid out and which reductions are defined on them.  Threads: constants.
#pragma once
#include <cstddef>
#include <cstdint>

namespace mpi_shim::datatype {

enum class Element : std::uint8_t {
  packed,     ///< MPI_PACKED
  byte,       ///< uninterpreted: bitwise reductions only
  text8,      ///< a Fortran character
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
  cf16,  ///< complex of two f16, and so on
  cf32,
  cf64,
  cfext,
  cf128,
  boolean,   ///< C and C++ bool
  logical8,  ///< Fortran LOGICAL of so many bits
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

/// Which reductions make sense.
enum class ElementClass : std::uint8_t { opaque, byte, integer, floating, complex, logical, pair };

struct ElementInfo {
  const char* name;
  std::uint8_t size;       ///< bytes of data: what a message carries
  std::uint8_t extent;     ///< distance of neighbours in an array
  std::uint8_t alignment;  ///< in a C struct
  ElementClass element_class;
  Element first;               ///< of a pair: the value; itself otherwise
  Element second;              ///< of a pair: the index; itself otherwise
  std::uint8_t second_offset;  ///< of a pair: where the index lies; 0 otherwise
};

/// The facts of `element`; static lifetime.
const ElementInfo& info(Element element) noexcept;

}  // namespace mpi_shim::datatype
