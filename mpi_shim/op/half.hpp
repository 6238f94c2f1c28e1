// SPDX-License-Identifier: Apache-2.0
// mpi_shim/op/half.hpp — IEEE 754 half precision by conversion to float, for MPI_REAL2 and MPI_COMPLEX4.
// A value type of two bytes.  Arithmetic gives the result of one rounding to nearest even, as hardware does (of a
// subnormal result: in the rounding mode of the thread): a float
// holds the exact product of two halves, and for a sum the second rounding changes nothing (24 >= 2 * 11 + 2 bits of
// mantissa).  Threads: a value.
#pragma once
#include <bit>
#include <cstdint>

namespace mpi_shim::op {

struct Half {
  std::uint16_t bits;

  static Half of(float value) noexcept { return {rounded(value)}; }

  explicit operator float() const noexcept {
    const std::uint32_t sign = std::uint32_t{bits & 0x8000U} << 16;
    const std::uint32_t exponent = bits >> 10 & 0x1fU;
    const std::uint32_t mantissa = bits & 0x3ffU;
    if (exponent == 0) {  // zero and subnormals: mantissa * 2^-24
      const float magnitude = static_cast<float>(mantissa) * 0x1p-24F;
      return sign != 0 ? -magnitude : magnitude;
    }
    const std::uint32_t wide = exponent == 0x1f ? 0xffU : exponent + 112;
    return std::bit_cast<float>(sign | wide << 23 | mantissa << 13);
  }

  friend Half operator+(Half a, Half b) noexcept { return of(static_cast<float>(a) + static_cast<float>(b)); }
  friend Half operator-(Half a, Half b) noexcept { return of(static_cast<float>(a) - static_cast<float>(b)); }
  friend Half operator*(Half a, Half b) noexcept { return of(static_cast<float>(a) * static_cast<float>(b)); }
  friend bool operator<(Half a, Half b) noexcept { return static_cast<float>(a) < static_cast<float>(b); }

 private:
  static std::uint16_t rounded(float value) noexcept {
    const auto wide = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = wide >> 16 & 0x8000U;
    const std::uint32_t magnitude = wide & 0x7fffffffU;
    std::uint32_t half = 0;
    if (magnitude > 0x7f800000U) {
      half = 0x7e00U;  // not a number
    } else if (magnitude >= 0x47800000U) {
      half = 0x7c00U;  // infinity
    } else if (magnitude < 0x38800000U) {
      // Zero and subnormals, by the rounding of a float: near 0.5 its last place is 2^-24, that of a subnormal half.
      half = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - std::bit_cast<std::uint32_t>(0.5F);
    } else {
      const std::uint32_t odd = magnitude >> 13 & 1U;         // a tie goes to the even neighbour
      half = (magnitude - 0x38000000U + 0xfffU + odd) >> 13;  // a carry increments the exponent, as it must
    }
    return static_cast<std::uint16_t>(sign | half);
  }
};
static_assert(sizeof(Half) == 2);

}  // namespace mpi_shim::op
