// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/datatype/construction/fortran_kinds.hpp"

#include <algorithm>
#include <deque>
#include <limits>
#include <mutex>
#include <utility>

#include "mpi_shim/datatype/construction/predefined.hpp"
#include "mpi_shim/datatype/element.hpp"

namespace mpi_shim::datatype {
namespace {

using opal::Errc;
using opal::Error;
using opal::Result;

/// A kind of the compilers of this platform; in the order in which SELECTED_INT_KIND and SELECTED_REAL_KIND try them.
struct Candidate {
  int precision;  // decimal digits
  int range;      // decimal exponent
  std::uintptr_t real;
  std::uintptr_t complex;
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
/// MPI_INTEGER1 to MPI_INTEGER16.
constexpr std::pair<int, std::uintptr_t> kIntegers[] = {{2, 0x2c1}, {4, 0x2c9}, {9, 0x2d1}, {18, 0x2d9}, {38, 0x2e1}};

/// The handle of the predefined type with the representation; 0: there is none.
std::uintptr_t select(const FortranKind& kind) noexcept {
  if (kind.combiner == Combiner::f90_integer) {
    for (const auto& [range, handle] : kIntegers) {
      if (range >= kind.range.value_or(0)) return handle;
    }
    return 0;
  }
  for (const Candidate& one : kReals) {
    if (one.precision < kind.precision.value_or(0) || one.range < kind.range.value_or(0)) continue;
    return kind.combiner == Combiner::f90_complex ? one.complex : one.real;
  }
  return 0;
}

struct Made {
  FortranKind kind;
  Recipe recipe;
  std::uintptr_t like;
  Datatype* type;
};

/// All of them; never destroyed: programs call MPI from their exit handlers.
class Registry {
 public:
  Result<Datatype*> find_or_make(const FortranKind& kind, std::uintptr_t like, int undefined) {
    const std::lock_guard guard{mutex_};
    const auto known = std::find_if(all_.begin(), all_.end(), [&](const Made& made) { return made.kind == kind; });
    if (known != all_.end()) return known->type;
    Recipe recipe{kind.combiner, {}, {}, {}};
    if (kind.combiner != Combiner::f90_integer) recipe.integers.push_back(kind.precision.value_or(undefined));
    recipe.integers.push_back(kind.range.value_or(undefined));
    // Represented like a predefined type, but its handle is an object's.
    const Element element = *predefined(like)->element();
    OPAL_TRY_ASSIGN(DatatypeRef made, handle::create<Datatype>(std::uintptr_t{0}, "", element, info(element).size));
    all_.push_back({kind, std::move(recipe), like, made.get()});
    return made.detach();
  }
  /// Null when it is none of them.
  const Made* find(const Datatype& type) {
    if (type.is_predefined() || type.recipe().combiner != Combiner::named) [[likely]]
      return nullptr;
    const std::lock_guard guard{mutex_};
    const auto found = std::find_if(all_.begin(), all_.end(), [&](const Made& made) { return made.type == &type; });
    return found != all_.end() ? &*found : nullptr;
  }

 private:
  std::mutex mutex_;
  std::deque<Made> all_;  // whose elements stay where they are
};

Registry& registry() {
  static Registry& all = *new Registry;
  return all;
}

}  // namespace

Result<Datatype*> fortran_kind(const FortranKind& kind, int undefined) {
  if (!kind.precision && !kind.range) return Error{Errc::invalid_argument, 0, "neither precision nor range"};
  const std::uintptr_t like = select(kind);
  if (like == 0) return Error{Errc::not_supported, 0, "a Fortran kind of that precision and range"};
  return registry().find_or_make(kind, like, undefined);
}

const Recipe& recipe_of(const Datatype& type) {
  const Made* const made = registry().find(type);
  return made != nullptr ? made->recipe : type.recipe();
}

std::uintptr_t predefined_handle(const Datatype& type) {
  if (type.is_predefined()) return type.handle();
  const Made* const made = registry().find(type);
  return made != nullptr ? made->like : 0;
}

}  // namespace mpi_shim::datatype
