// SPDX-License-Identifier: Apache-2.0
// opal/core/config/value.hpp — types, text form and limits of the values of configuration variables.
//   bool      true|false|yes|no|on|off|1|0
//   integer   12, 0x1f; not negative
//   real      0.5
//   size      4096, 4K, 4 KiB, 2M, 1G, 1T (powers of 1024)
//   time      10us, 50ms, 2s, 1min, 1h, or a number without suffix in the variable's own unit (ms or us)
// No value is clamped or rounded: it is an error instead.  Threads: values and pure functions.
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

/// The audience of a variable: all users, performance work, work on OPAL itself.
enum class Level : std::uint8_t { user, tuner, developer };

/// The types a variable may have, in the order of Value's alternatives.
enum class Type : std::uint8_t { boolean, u32, u64, real, size, text, milliseconds, microseconds };

using Value = std::variant<bool, std::uint32_t, std::uint64_t, double, ByteSize, std::string, std::chrono::milliseconds,
                           std::chrono::microseconds>;

/// A pointer to a member of C of one of the types above.
template <class C>
using Member = std::variant<bool C::*, std::uint32_t C::*, std::uint64_t C::*, double C::*, ByteSize C::*,
                            std::string C::*, std::chrono::milliseconds C::*, std::chrono::microseconds C::*>;

/// One end of a range, in the variable's own unit (times: milliseconds or microseconds, by the type).
/// Exact up to 2^53 and for every power of two.
struct Bound {
  template <class N>
  requires std::is_arithmetic_v<N>
  constexpr Bound(N number) noexcept : value(static_cast<double>(number)) {}  // NOLINT(google-explicit-constructor)
  constexpr Bound(ByteSize size) noexcept
      : value(static_cast<double>(size.bytes)) {}  // NOLINT(google-explicit-constructor)
  double value;
};

/// The allowed values of a variable.  A default-constructed Range allows every value of the type.
struct Range {
  Bound min = -std::numeric_limits<double>::infinity();  // both ends are allowed values
  Bound max = std::numeric_limits<double>::infinity();
  bool power_of_two = false;
  const char* choices = nullptr;  ///< text variables only: the allowed words, "auto|on|off"; null allows any text
};

/// The name of the type for users: "yes/no", "number", "real", "size", "text" or "time".
OPAL_EXPORT const char* name(Type type) noexcept;

/// "user", "tuner" or "developer".
OPAL_EXPORT const char* name(Level level) noexcept;

/// The value as text.  parse() returns the same value for it, except for a negative time or a text with
/// blanks at its ends.
OPAL_EXPORT std::string to_string(const Value& value);

/// The allowed values as text: "1 KiB .. 1 MiB, power of two", "auto | on | off", ">= 1"; "" if all are allowed.
OPAL_EXPORT std::string to_string(const Range& range, Type type);

/// A parsed value, or the reason why the text is not allowed.
struct Parsed {
  Value value;          ///< meaningful only if `problem` is empty
  std::string problem;  ///< a predicate for a message: "is not a power of two"
};

/// Removes blanks at both ends of `text` and parses it as a value of `type` within `range`.
OPAL_EXPORT Parsed parse(std::string_view text, Type type, const Range& range);

}  // namespace opal::config
