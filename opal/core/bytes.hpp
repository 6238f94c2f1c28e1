// SPDX-License-Identifier: Apache-2.0
// opal/core/bytes.hpp — spans of bytes, sizes in bytes, and helpers that copy plain structs to and from bytes.
#pragma once
#if __cplusplus < 202002L  // most public headers include this one
#error "OPAL needs C++20: compile with -std=c++20"
#include <OPAL needs C++20>  // no such file: the compiler stops here and prints no follow-up errors
#endif
#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

namespace opal {

using ByteSpan = std::span<const std::byte>;  ///< bytes that are only read
using MutableBytes = std::span<std::byte>;    ///< bytes that may be written

/// Bytes of a cache line on all supported processors; clang 14 has no std::hardware_destructive_interference_size.
inline constexpr std::size_t kCacheLine = 64;

/// The type of a configuration variable that is a number of bytes, written as "4 KiB" or "16M".
struct ByteSize {
  std::uint64_t bytes = 0;
  friend constexpr auto operator<=>(ByteSize, ByteSize) = default;
};

inline namespace literals {
constexpr ByteSize operator""_B(unsigned long long n) { return {n}; }
constexpr ByteSize operator""_KiB(unsigned long long n) { return {n << 10}; }
constexpr ByteSize operator""_MiB(unsigned long long n) { return {n << 20}; }
constexpr ByteSize operator""_GiB(unsigned long long n) { return {n << 30}; }
}  // namespace literals

/// A view of the bytes of `object`; valid as long as the object.
template <class T>
requires std::is_trivially_copyable_v<T> ByteSpan bytes_of(const T& object)
noexcept { return std::as_bytes(std::span<const T, 1>{&object, 1}); }

/// Copies an object from the start of `bytes`.  False, and `object` is unchanged, if `bytes` is shorter than a T.
template <class T>
requires std::is_trivially_copyable_v<T>
[[nodiscard]] bool read_object(ByteSpan bytes, T& object) noexcept {
  if (bytes.size() < sizeof(T)) return false;
  std::memcpy(&object, bytes.data(), sizeof(T));
  return true;
}

/// `value` rounded up to a multiple of `alignment`, a power of two.
constexpr std::uint64_t align_up(std::uint64_t value, std::uint64_t alignment) noexcept {
  return (value + alignment - 1) & ~(alignment - 1);
}

}  // namespace opal
