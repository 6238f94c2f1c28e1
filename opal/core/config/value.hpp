// SPDX-License-Identifier: Apache-2.0
// opal/core/config/value.hpp — the values a configuration variable can have: how they are written, read and limited.
// Spelling:  bool true|false|yes|no|on|off|1|0;  integers 12, 0x1f;  sizes 4096, 4K, 4 KiB, 2M, 1G, 1T (powers of
// 1024); durations 50ms, 2s, 10us, 1min, or a bare number in the variable's own unit.  Nothing is ever clamped or
// rounded. Threads: values and pure functions.
#pragma once
#include <chrono>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>

#include "opal/core/bytes.hpp"
#include "opal/core/export.hpp"

namespace opal::config {

/// The kind of user that sets a variable.
enum class Level : std::uint8_t { user, tuner, developer };

/// The types a variable may have, in the order of Value's alternatives.
enum class Type : std::uint8_t { boolean, u32, u64, real, size, text, milliseconds, microseconds };

using Value = std::variant<bool, std::uint32_t, std::uint64_t, double, ByteSize, std::string, std::chrono::milliseconds,
                           std::chrono::microseconds>;

/// A pointer to a member of C of one of the types above.
template <class C>
using Member = std::variant<bool C::*, std::uint32_t C::*, std::uint64_t C::*, double C::*, ByteSize C::*,
                            std::string C::*, std::chrono::milliseconds C::*, std::chrono::microseconds C::*>;

/// One end of a range, in the variable's own unit (a duration: in milliseconds or microseconds as its type says).
/// Exact up to 2^53 and for every power of two.
struct Bound {
  template <class N>
  requires std::is_arithmetic_v<N>
  constexpr Bound(N number) noexcept : value(static_cast<double>(number)) {}  // NOLINT(google-explicit-constructor)
  constexpr Bound(ByteSize size) noexcept
      : value(static_cast<double>(size.bytes)) {}  // NOLINT(google-explicit-constructor)
  double value;
};

/// What a variable may be set to.  A default-constructed Range allows every value of the type.
struct Range {
  Bound min = -std::numeric_limits<double>::infinity();
  Bound max = std::numeric_limits<double>::infinity();
  bool power_of_two = false;
  const char* choices = nullptr;  ///< text variables only: the allowed words, "auto|on|off"; null allows any text
};

/// "yes/no", "number", "size", "duration", "text" ...: what a person calls the type.
OPAL_EXPORT const char* name(Type type) noexcept;

/// "user", "tuner" or "developer".
OPAL_EXPORT const char* name(Level level) noexcept;

/// The value as people write it; parse() reads it back unchanged.
OPAL_EXPORT std::string to_string(const Value& value);

/// The allowed values for people: "1 KiB .. 1 MiB, power of two", "auto | on | off", ">= 1"; "" when all are.
OPAL_EXPORT std::string to_string(const Range& range, Type type);

/// A parsed value, or what is wrong with the text.
struct Parsed {
  Value value;
  std::string problem;  ///< empty when `value` is good, else a clause: "is not a power of two"
};

/// Reads `text` as a value of `type` within `range`.
OPAL_EXPORT Parsed parse(std::string_view text, Type type, const Range& range);

}  // namespace opal::config
