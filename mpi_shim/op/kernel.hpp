// SPDX-License-Identifier: Apache-2.0
// mpi_shim/op/kernel.hpp — the predefined reductions as typed loops: looked up once for a call, then nothing but the
// loop. Threads: safe from any thread.  Invariants: buffers need no alignment and do not overlap; elements are one
// extent apart.
#pragma once
#include <cstdint>

#include "mpi_shim/datatype/element.hpp"

namespace mpi_shim::op {

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

/// The loop for `kind` on arrays of `element`; null where the standard defines no such reduction (and for
/// OpKind::user). Integers wrap around; LAND, LOR and LXOR give 0 or 1; equal values of MINLOC and MAXLOC keep the
/// smaller index.
[[nodiscard]] Kernel find_kernel(OpKind kind, datatype::Element element) noexcept;

}  // namespace mpi_shim::op
