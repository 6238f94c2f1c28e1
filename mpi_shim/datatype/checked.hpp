// SPDX-License-Identifier: Apache-2.0
// mpi_shim/datatype/checked.hpp — 64-bit arithmetic that notices overflow: counts and strides come from applications.
// Each function returns false, and leaves an unspecified result, when the true value does not fit.
#pragma once
#include <cstdint>

namespace mpi_shim::datatype {

[[nodiscard]] inline bool add_checked(std::int64_t a, std::int64_t b, std::int64_t& sum) noexcept {
  return !__builtin_add_overflow(a, b, &sum);
}
[[nodiscard]] inline bool subtract_checked(std::int64_t a, std::int64_t b, std::int64_t& difference) noexcept {
  return !__builtin_sub_overflow(a, b, &difference);
}
[[nodiscard]] inline bool multiply_checked(std::int64_t a, std::int64_t b, std::int64_t& product) noexcept {
  return !__builtin_mul_overflow(a, b, &product);
}

}  // namespace mpi_shim::datatype
