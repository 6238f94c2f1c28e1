// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/datatype/construction/predefined.hpp"

#include <array>
#include <limits>
#include <memory>

#include "mpi_shim/handle/table.hpp"

namespace mpi_shim::datatype {
namespace {

struct Named {
  std::uint16_t handle;
  const char* name;
  Element element;
  std::int64_t external = 0;  // size in "external32"; 0: the size of the element
};

using enum Element;

// The standard defines no reduction on MPI_CHAR, but applications use it as an integer.  So it has the integer element
// of C's char.
constexpr Element kChar = std::numeric_limits<char>::is_signed ? i8 : u8;

// Handle values of the MPI ABI.  Fortran's default INTEGER, REAL and LOGICAL have 4 bytes.
constexpr Named kNamed[] = {
    {0x201, "MPI_AINT", i64},
    {0x202, "MPI_COUNT", i64},
    {0x203, "MPI_OFFSET", i64},
    {0x207, "MPI_PACKED", packed},
    {0x208, "MPI_SHORT", i16},
    {0x209, "MPI_INT", i32},
    {0x20a, "MPI_LONG", i64, 4},
    {0x20b, "MPI_LONG_LONG_INT", i64},
    {0x20c, "MPI_UNSIGNED_SHORT", u16},
    {0x20d, "MPI_UNSIGNED", u32},
    {0x20e, "MPI_UNSIGNED_LONG", u64, 4},
    {0x20f, "MPI_UNSIGNED_LONG_LONG", u64},
    {0x210, "MPI_FLOAT", f32},
    {0x212, "MPI_C_COMPLEX", cf32},
    {0x213, "MPI_CXX_FLOAT_COMPLEX", cf32},
    {0x214, "MPI_DOUBLE", f64},
    {0x216, "MPI_C_DOUBLE_COMPLEX", cf64},
    {0x217, "MPI_CXX_DOUBLE_COMPLEX", cf64},
    {0x218, "MPI_LOGICAL", logical32},
    {0x219, "MPI_INTEGER", i32},
    {0x21a, "MPI_REAL", f32},
    {0x21b, "MPI_COMPLEX", cf32},
    {0x21c, "MPI_DOUBLE_PRECISION", f64},
    {0x21d, "MPI_DOUBLE_COMPLEX", cf64},
    {0x21e, "MPI_CHARACTER", text8},
    {0x220, "MPI_LONG_DOUBLE", fext},
    {0x224, "MPI_C_LONG_DOUBLE_COMPLEX", cfext},
    {0x225, "MPI_CXX_LONG_DOUBLE_COMPLEX", cfext},
    {0x228, "MPI_FLOAT_INT", pair_f32_i32},
    {0x229, "MPI_DOUBLE_INT", pair_f64_i32},
    {0x22a, "MPI_LONG_INT", pair_i64_i32, 8},
    {0x22b, "MPI_2INT", pair_i32_i32},
    {0x22c, "MPI_SHORT_INT", pair_i16_i32},
    {0x22d, "MPI_LONG_DOUBLE_INT", pair_fext_i32},
    {0x230, "MPI_2REAL", pair_f32_f32},
    {0x231, "MPI_2DOUBLE_PRECISION", pair_f64_f64},
    {0x232, "MPI_2INTEGER", pair_i32_i32},
    {0x238, "MPI_C_BOOL", boolean},
    {0x239, "MPI_CXX_BOOL", boolean},
    {0x23c, "MPI_WCHAR", text_wide, 2},
    {0x240, "MPI_INT8_T", i8},
    {0x241, "MPI_UINT8_T", u8},
    {0x243, "MPI_CHAR", kChar},
    {0x244, "MPI_SIGNED_CHAR", i8},
    {0x245, "MPI_UNSIGNED_CHAR", u8},
    {0x247, "MPI_BYTE", byte},
    {0x248, "MPI_INT16_T", i16},
    {0x249, "MPI_UINT16_T", u16},
    {0x250, "MPI_INT32_T", i32},
    {0x251, "MPI_UINT32_T", u32},
    {0x258, "MPI_INT64_T", i64},
    {0x259, "MPI_UINT64_T", u64},
    {0x2c0, "MPI_LOGICAL1", logical8},
    {0x2c1, "MPI_INTEGER1", i8},
    {0x2c8, "MPI_LOGICAL2", logical16},
    {0x2c9, "MPI_INTEGER2", i16},
    {0x2ca, "MPI_REAL2", f16},
    {0x2d0, "MPI_LOGICAL4", logical32},
    {0x2d1, "MPI_INTEGER4", i32},
    {0x2d2, "MPI_REAL4", f32},
    {0x2d3, "MPI_COMPLEX4", cf16},
    {0x2d8, "MPI_LOGICAL8", logical64},
    {0x2d9, "MPI_INTEGER8", i64},
    {0x2da, "MPI_REAL8", f64},
    {0x2db, "MPI_COMPLEX8", cf32},
    {0x2e0, "MPI_LOGICAL16", logical128},
    {0x2e1, "MPI_INTEGER16", i128},
    {0x2e2, "MPI_REAL16", f128},
    {0x2e3, "MPI_COMPLEX16", cf64},
    {0x2eb, "MPI_COMPLEX32", cf128},
};

using Types = std::array<std::unique_ptr<Datatype>, handle::kBuiltinEnd>;

// Made on first use and never destroyed: applications call MPI from their exit handlers.
const Types& types() {
  static const Types& made = *[] {
    auto all = std::make_unique<Types>();
    for (const Named& named : kNamed) {
      const std::int64_t external = named.external != 0 ? named.external : info(named.element).size;
      (*all)[named.handle] = std::make_unique<Datatype>(named.handle, named.name, named.element, external);
    }
    return all.release();
  }();
  return made;
}

}  // namespace

Datatype* predefined(std::uintptr_t handle) { return handle < handle::kBuiltinEnd ? types()[handle].get() : nullptr; }

void publish_predefined_types() {
  for (const Named& named : kNamed) handle::set_builtin(*predefined(named.handle));
}

}  // namespace mpi_shim::datatype
