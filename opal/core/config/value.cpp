// SPDX-License-Identifier: Apache-2.0
#include "opal/core/config/value.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <optional>
#include <span>

#include "opal/core/text.hpp"

namespace opal::config {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

struct Suffix {
  std::string_view text;
  std::uint64_t factor;
};

// The first suffix of a factor is the one that is printed.  "KB" is not allowed because it is ambiguous: 1000 or 1024.
constexpr std::array kSizeSuffixes{Suffix{"TiB", 1ULL << 40},
                                   Suffix{"T", 1ULL << 40},
                                   Suffix{"GiB", 1ULL << 30},
                                   Suffix{"G", 1ULL << 30},
                                   Suffix{"MiB", 1ULL << 20},
                                   Suffix{"M", 1ULL << 20},
                                   Suffix{"KiB", 1ULL << 10},
                                   Suffix{"K", 1ULL << 10},
                                   Suffix{"k", 1ULL << 10},
                                   Suffix{"m", 1ULL << 20},
                                   Suffix{"g", 1ULL << 30},
                                   Suffix{"t", 1ULL << 40},
                                   Suffix{"B", 1}};

constexpr std::array kTimeSuffixes{Suffix{"h", 3'600'000'000ULL}, Suffix{"min", 60'000'000ULL},
                                   Suffix{"s", 1'000'000ULL}, Suffix{"ms", 1'000ULL}, Suffix{"us", 1ULL}};

Parsed bad(std::string problem) { return {Value{}, std::move(problem)}; }

Parsed parse_bool(std::string_view text) {
  for (const std::string_view word : {"true", "yes", "on", "1"}) {
    if (text == word) return {Value{true}, {}};
  }
  for (const std::string_view word : {"false", "no", "off", "0"}) {
    if (text == word) return {Value{false}, {}};
  }
  return bad("is neither true nor false");
}

/// `text` = whole number, decimal or hexadecimal with 0x, optional blanks, optional suffix.  A number without suffix is
/// multiplied by `bare_factor`.  nullopt if it is none, or does not fit (`too_large`).
std::optional<std::uint64_t> parse_scaled(std::string_view text, std::span<const Suffix> suffixes,
                                          std::uint64_t bare_factor, bool& too_large) {
  const bool hexadecimal = text.starts_with("0x") || text.starts_with("0X");
  if (hexadecimal) text.remove_prefix(2);
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, hexadecimal ? 16 : 10);
  too_large = error == std::errc::result_out_of_range;
  if (error != std::errc{}) return std::nullopt;
  const std::string_view rest = trimmed(text.substr(static_cast<std::size_t>(end - text.data())));
  std::uint64_t factor = rest.empty() ? bare_factor : 0;
  for (const Suffix& suffix : suffixes) {
    if (rest == suffix.text) factor = suffix.factor;
  }
  if (factor == 0) return std::nullopt;
  too_large = __builtin_mul_overflow(number, factor, &number);
  return too_large ? std::nullopt : std::optional{number};
}

template <class N>
Parsed parse_integer(std::string_view text) {
  bool too_large = false;
  const std::optional<std::uint64_t> number = parse_scaled(text, {}, 1, too_large);
  if (too_large || (number && *number > std::numeric_limits<N>::max())) {
    return bad(fmt::format("does not fit into {} bits", sizeof(N) * 8));
  }
  if (!number) return bad("is not a whole number >= 0");
  return {Value{static_cast<N>(*number)}, {}};
}

Parsed parse_real(std::string_view text) {
  const auto number = parse_number<double>(text);
  if (!number || !std::isfinite(*number)) return bad("is not a number");
  return {Value{*number}, {}};
}

Parsed parse_size(std::string_view text) {
  bool too_large = false;
  const std::optional<std::uint64_t> bytes = parse_scaled(text, kSizeSuffixes, 1, too_large);
  if (too_large) return bad("does not fit into 64 bits");
  if (!bytes) return bad("is not a size (a whole number, then nothing, K, M, G or T)");
  return {Value{ByteSize{*bytes}}, {}};
}

template <class Duration>
Parsed parse_duration(std::string_view text) {
  constexpr std::uint64_t kUnit = microseconds{Duration{1}}.count();
  bool too_large = false;
  const std::optional<std::uint64_t> us = parse_scaled(text, kTimeSuffixes, kUnit, too_large);
  if (too_large || (us && *us > static_cast<std::uint64_t>(INT64_MAX))) return bad("is too long a time");
  if (!us) return bad("is not a time (a whole number, then us, ms, s, min or h)");
  if (*us % kUnit != 0) return bad("is not a whole number of milliseconds");
  return {Value{Duration{static_cast<std::int64_t>(*us / kUnit)}}, {}};
}

std::string format_scaled(std::uint64_t value, std::span<const Suffix> suffixes, const char* separator) {
  for (const Suffix& suffix : suffixes) {
    if (value != 0 && value % suffix.factor == 0)
      return fmt::format("{}{}{}", value / suffix.factor, separator, suffix.text);
  }
  return fmt::format("0{}{}", separator, suffixes.back().text);
}

std::string format_bound(double value, Type type) {
  switch (type) {
    case Type::size: return format_scaled(static_cast<std::uint64_t>(value), kSizeSuffixes, " ");
    case Type::milliseconds: return to_string(Value{milliseconds{static_cast<std::int64_t>(value)}});
    case Type::microseconds: return to_string(Value{microseconds{static_cast<std::int64_t>(value)}});
    case Type::real: return fmt::format("{}", value);
    default: return fmt::format("{:.0f}", value);
  }
}

/// The number that is compared with a Range; text and bool have none.
std::optional<double> magnitude(const Value& value) {
  return std::visit(
      [](const auto& v) -> std::optional<double> {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, bool> || std::is_same_v<T, std::string>) {
          return std::nullopt;
        } else if constexpr (std::is_same_v<T, ByteSize>) {
          return static_cast<double>(v.bytes);
        } else if constexpr (std::is_arithmetic_v<T>) {
          return static_cast<double>(v);
        } else {
          return static_cast<double>(v.count());
        }
      },
      value);
}

/// Why `value` is not within `range`, as a Parsed::problem; empty if it is.
std::string problem_with(const Value& value, const Range& range) {
  if (const auto* text = std::get_if<std::string>(&value)) {
    if (range.choices == nullptr) return {};
    const std::vector<std::string_view> choices = split(range.choices, '|');
    if (std::find(choices.begin(), choices.end(), *text) != choices.end()) return {};
    const std::string_view nearest = nearest_name(*text, choices);
    return nearest.empty() ? "is not a known choice" : fmt::format("is not a known choice; did you mean {}?", nearest);
  }
  const std::optional<double> number = magnitude(value);
  if (!number) return {};
  if (*number < range.min.value) return "is too small";
  if (*number > range.max.value) return "is too large";
  if (range.power_of_two && !std::has_single_bit(static_cast<std::uint64_t>(*number))) return "is not a power of two";
  return {};
}

}  // namespace

const char* name(Type type) noexcept {
  switch (type) {
    case Type::boolean: return "yes/no";
    case Type::u32:
    case Type::u64: return "number";
    case Type::real: return "real";
    case Type::size: return "size";
    case Type::text: return "text";
    case Type::milliseconds:
    case Type::microseconds: return "time";
  }
  return "unknown";
}

const char* name(Level level) noexcept {
  switch (level) {
    case Level::user: return "user";
    case Level::tuner: return "tuner";
    case Level::developer: return "developer";
  }
  return "unknown";
}

std::string to_string(const Value& value) {
  return std::visit(
      [](const auto& v) -> std::string {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, std::string>) {
          return v;
        } else if constexpr (std::is_same_v<T, bool>) {
          return v ? "true" : "false";
        } else if constexpr (std::is_same_v<T, ByteSize>) {
          return format_scaled(v.bytes, kSizeSuffixes, " ");
        } else if constexpr (std::is_arithmetic_v<T>) {
          return fmt::format("{}", v);
        } else {
          // Only a default can be a negative time, because parse() rejects it.  It means "never" for some variables.
          if (v.count() < 0) return fmt::format("{}", v.count());
          return format_scaled(static_cast<std::uint64_t>(microseconds{v}.count()), kTimeSuffixes, "");
        }
      },
      value);
}

std::string to_string(const Range& range, Type type) {
  if (type == Type::boolean) return "true | false";
  if (type == Type::text) {
    return range.choices != nullptr ? fmt::format("{}", fmt::join(split(range.choices, '|'), " | ")) : "";
  }
  std::string text;
  const bool has_min = std::isfinite(range.min.value);
  const bool has_max = std::isfinite(range.max.value);
  if (has_min && has_max) {
    text = fmt::format("{} .. {}", format_bound(range.min.value, type), format_bound(range.max.value, type));
  } else if (has_min) {
    text = fmt::format(">= {}", format_bound(range.min.value, type));
  } else if (has_max) {
    text = fmt::format("<= {}", format_bound(range.max.value, type));
  }
  if (range.power_of_two) text += text.empty() ? "power of two" : ", power of two";
  return text;
}

Parsed parse(std::string_view text, Type type, const Range& range) {
  const std::string_view word = trimmed(text);
  Parsed parsed;
  switch (type) {
    case Type::boolean: parsed = parse_bool(word); break;
    case Type::u32: parsed = parse_integer<std::uint32_t>(word); break;
    case Type::u64: parsed = parse_integer<std::uint64_t>(word); break;
    case Type::real: parsed = parse_real(word); break;
    case Type::size: parsed = parse_size(word); break;
    case Type::text: parsed = {Value{std::string{word}}, {}}; break;
    case Type::milliseconds: parsed = parse_duration<milliseconds>(word); break;
    case Type::microseconds: parsed = parse_duration<microseconds>(word); break;
  }
  if (parsed.problem.empty()) parsed.problem = problem_with(parsed.value, range);
  return parsed;
}

}  // namespace opal::config
