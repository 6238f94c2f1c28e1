// SPDX-License-Identifier: Apache-2.0
// mpi_shim/op/kernel.hpp — the predefined reductions as typed loops (kernels), one for each operation and element.
// Threads: safe from any thread.
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
  user,     ///< a function of the application; has no kernel
};

/// inout[i] = in[i] op inout[i] for `count` elements in host memory, one extent apart.  The buffers need no alignment.
/// Requires: they do not overlap.
using Kernel = void (*)(const void* in, void* inout, std::int64_t count) noexcept;

/// The vector instructions that a kernel uses; built_in: those that the library is compiled for.
enum class Vectors : std::uint8_t { built_in, avx2, avx512 };
/// The widest ones that this processor has.
[[nodiscard]] Vectors widest_vectors() noexcept;

/// The loop for `kind` on arrays of `element`; null if the standard does not define the reduction, and for
/// OpKind::user.  Integers wrap around; LAND, LOR and LXOR give 0 or 1; equal values of MINLOC and MAXLOC keep the
/// smaller index.
/// Requires: the processor has `vectors`.  They do not change any bit of the result.
[[nodiscard]] Kernel find_kernel(OpKind kind, datatype::Element element, Vectors vectors = widest_vectors()) noexcept;

}  // namespace mpi_shim::op
