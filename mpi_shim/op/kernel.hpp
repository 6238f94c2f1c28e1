// SPDX-License-Identifier: Apache-2.0
// mpi_shim/op/kernel.hpp — the predefined reductions as typed loops: looked up once for a call, then nothing but the
// loop. Threads: safe from any thread.  Invariants: buffers need no alignment and do not overlap; elements are one
// extent apart.
#pragma once
#include <cstdint>

#include "mpi_shim/datatype/element.hpp"

namespace mpi_shim::op {

/// Those of numbers first, then those of bits and of truth values, then those of pairs.
enum class OpKind : std::uint8_t {
  sum,
  min,
  max,
  prod,
  band,
  bor,
  bxor,
  land,
  lor,
  lxor,
  minloc,
  maxloc,
  replace,  ///< one-sided accumulation only
  no_op,    ///< one-sided accumulation only
  user,
};

/// inout[i] = in[i] op inout[i] for `count` elements.
using Kernel = void (*)(const void* in, void* inout, std::int64_t count) noexcept;

/// Vector instructions beyond those that the library is built for.
enum class Vectors : std::uint8_t { built_in, avx2, avx512 };
[[nodiscard]] Vectors widest_vectors() noexcept;

/// The loop for `kind` on arrays of `element`; null where the standard defines no such reduction (and for
/// OpKind::user). Integers wrap around; LAND, LOR and LXOR give 0 or 1; equal values of MINLOC and MAXLOC keep the
/// smaller index. The result is the same, bit by bit, with all `vectors`, which this processor must have.
[[nodiscard]] Kernel find_kernel(OpKind kind, datatype::Element element, Vectors vectors = widest_vectors()) noexcept;

}  // namespace mpi_shim::op
