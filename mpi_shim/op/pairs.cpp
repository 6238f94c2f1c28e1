// SPDX-License-Identifier: Apache-2.0
// MINLOC and MAXLOC on pairs of value and index.
#include "mpi_shim/op/loop.hpp"

namespace mpi_shim::op {
namespace {

template <bool smallest>
struct ValueAndLocation {
  template <class V, class I>
  static Pair<V, I> apply(Pair<V, I> a, Pair<V, I> b) noexcept {
    if (smallest ? a.value < b.value : b.value < a.value) return a;
    if (a.value == b.value && a.index < b.index) return a;
    return b;
  }
};

template <class Operation>
Kernel pair_loop(datatype::Element element, Vectors vectors) noexcept {
  using enum datatype::Element;
  switch (element) {
    case pair_f32_i32: return loop<Operation, Pair<float, std::int32_t>>(vectors);
    case pair_f64_i32: return loop<Operation, Pair<double, std::int32_t>>(vectors);
    case pair_i64_i32: return loop<Operation, Pair<std::int64_t, std::int32_t>>(vectors);
    case pair_i32_i32: return loop<Operation, Pair<std::int32_t, std::int32_t>>(vectors);
    case pair_i16_i32: return loop<Operation, Pair<std::int16_t, std::int32_t>>(vectors);
    case pair_fext_i32: return loop<Operation, Pair<long double, std::int32_t>>(vectors);
    case pair_f32_f32: return loop<Operation, Pair<float, float>>(vectors);
    case pair_f64_f64: return loop<Operation, Pair<double, double>>(vectors);
    default: return nullptr;
  }
}

}  // namespace

Kernel pair_kernel(OpKind kind, datatype::Element element, Vectors vectors) noexcept {
  switch (kind) {
    case OpKind::minloc: return pair_loop<ValueAndLocation<true>>(element, vectors);
    case OpKind::maxloc: return pair_loop<ValueAndLocation<false>>(element, vectors);
    default: return nullptr;
  }
}

}  // namespace mpi_shim::op
