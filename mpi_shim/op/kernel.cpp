// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/op/kernel.hpp"

#include <cstring>

#include "mpi_shim/op/loop.hpp"

namespace mpi_shim::op {
namespace {

template <std::size_t extent>
void copy(const void* in, void* inout, std::int64_t count) noexcept {
  if (count > 0) std::memcpy(inout, in, extent * static_cast<std::size_t>(count));
}

void keep(const void*, void*, std::int64_t) noexcept {}

Kernel copy_kernel(datatype::Element element) noexcept {
  switch (info(element).extent) {
    case 1: return &copy<1>;
    case 2: return &copy<2>;
    case 4: return &copy<4>;
    case 8: return &copy<8>;
    case 12: return &copy<12>;
    case 16: return &copy<16>;
    case 32: return &copy<32>;
    default: return nullptr;
  }
}

}  // namespace

Vectors widest_vectors() noexcept {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    return Vectors::avx512;
  if (__builtin_cpu_supports("avx2")) return Vectors::avx2;
#endif
  return Vectors::built_in;
}

Kernel find_kernel(OpKind kind, datatype::Element element, Vectors vectors) noexcept {
  if (kind <= OpKind::prod) return arithmetic_kernel(kind, element, vectors);
  if (kind <= OpKind::lxor) return bit_kernel(kind, element, vectors);
  if (kind <= OpKind::maxloc) return pair_kernel(kind, element, vectors);
  if (kind == OpKind::replace) return copy_kernel(element);
  return kind == OpKind::no_op ? &keep : nullptr;
}

}  // namespace mpi_shim::op
