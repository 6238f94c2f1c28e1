// SPDX-License-Identifier: Apache-2.0
// MPI_Type_create_f90_real, _complex and _integer.
#include <algorithm>
#include <limits>
#include <mutex>
#include <utility>
#include <vector>

#include "mpi_shim/datatype/construction/constructors.hpp"
#include "mpi_shim/datatype/construction/predefined.hpp"

namespace mpi_shim::datatype {
namespace {

using opal::Errc;
using opal::Error;
using opal::Result;

/// A real kind of the Fortran compilers of this platform.  kReals has the order in which SELECTED_REAL_KIND tries them.
struct Candidate {
  int precision;           // decimal digits
  int range;               // decimal exponent
  std::uintptr_t real;     // handle of the predefined real type
  std::uintptr_t complex;  // handle of the predefined complex type
};

template <class T>
constexpr Candidate candidate(std::uintptr_t real, std::uintptr_t complex) {
  using Limits = std::numeric_limits<T>;
  return {Limits::digits10, std::min(Limits::max_exponent10, -Limits::min_exponent10), real, complex};
}

constexpr Candidate kReals[] = {
    candidate<float>(0x2d2, 0x2db),        // MPI_REAL4, MPI_COMPLEX8
    candidate<double>(0x2da, 0x2e3),       // MPI_REAL8, MPI_COMPLEX16
    candidate<long double>(0x220, 0x224),  // MPI_LONG_DOUBLE, MPI_C_LONG_DOUBLE_COMPLEX
    {33, 4931, 0x2e2, 0x2eb},              // MPI_REAL16, MPI_COMPLEX32: IEEE 754 binary128
};
/// Decimal range and handle of MPI_INTEGER1 to MPI_INTEGER16.
constexpr std::pair<int, std::uintptr_t> kIntegers[] = {{2, 0x2c1}, {4, 0x2c9}, {9, 0x2d1}, {18, 0x2d9}, {38, 0x2e1}};

/// The handle of the first predefined type with the precision and range; 0 if there is none.  MPI_UNDEFINED is
/// negative, so every type satisfies it.
std::uintptr_t select(Combiner combiner, int precision, int range) noexcept {
  if (combiner == Combiner::f90_integer) {
    for (const auto& [reach, handle] : kIntegers) {
      if (reach >= range) return handle;
    }
    return 0;
  }
  for (const Candidate& one : kReals) {
    if (one.precision >= precision && one.range >= range) {
      return combiner == Combiner::f90_complex ? one.complex : one.real;
    }
  }
  return 0;
}

}  // namespace

Result<Datatype*> fortran_kind(Combiner combiner, int precision, int range) {
  if (precision == MPI_UNDEFINED && range == MPI_UNDEFINED) {
    return Error{Errc::invalid_argument, 0, "neither precision nor range"};
  }
  const std::uintptr_t like = select(combiner, precision, range);
  if (like == 0) return Error{Errc::not_supported, 0, "a Fortran kind of that precision and range"};
  Recipe recipe{combiner, {}, {}, {}};
  if (combiner != Combiner::f90_integer) recipe.integers.push_back(precision);
  recipe.integers.push_back(range);
  // Never destroyed: applications call MPI from their exit handlers.
  static auto& mutex = *new std::mutex;
  static auto& all = *new std::vector<Datatype*>;
  const std::lock_guard guard{mutex};
  for (Datatype* const known : all) {
    if (known->recipe().combiner == combiner && known->recipe().integers == recipe.integers) return known;
  }
  OPAL_TRY_ASSIGN(DatatypeRef made, handle::create<Datatype>(*predefined(like), std::move(recipe)));
  all.push_back(made.detach());
  return all.back();
}

}  // namespace mpi_shim::datatype
