// SPDX-License-Identifier: Apache-2.0
// opal/core/log.hpp — messages for people: one line each, on stderr unless a sink takes them.
//   log::warn("btl.sm", "no single copy with {}: {}", peer, reason);
// The level is a property of the process (OPAL_LOG, default warn): a message below it costs one relaxed load and is
// never formatted.  Cold paths only: writing a message allocates.  Threads: everything is safe from any thread.
#pragma once
#include <fmt/core.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "opal/core/export.hpp"

namespace opal::log {

enum class Level : std::uint8_t { error, warn, info, debug };

/// "error", "warn", "info" or "debug".
OPAL_EXPORT const char* name(Level level) noexcept;

/// The level called `name`, or nothing.
OPAL_EXPORT std::optional<Level> level_from_name(std::string_view name) noexcept;

struct Message {
  Level level;
  std::string_view component;  ///< the source: "btl.sm", "runtime", ...
  std::string_view text;       ///< one line, without the newline
};

/// Takes messages instead of stderr.  Called with a lock held: it must not log.
using Sink = void (*)(void* user, const Message& message) noexcept;

/// Replaces where messages go; a null sink means stderr again.  `user` must live until the sink is replaced.
OPAL_EXPORT void set_sink(Sink sink, void* user) noexcept;

/// Shows messages up to and including `level` from now on.
OPAL_EXPORT void set_level(Level level) noexcept;

/// The level in force: the last set_level, else OPAL_LOG, else warn.
OPAL_EXPORT Level level() noexcept;

/// `message` as it appears on stderr, without the newline: "opal[host:pid] warn btl.sm: text".
OPAL_EXPORT std::string to_line(const Message& message);

namespace detail {
OPAL_EXPORT extern std::atomic<std::uint8_t> level_plus_one;  ///< 0 = OPAL_LOG has not been read yet
OPAL_EXPORT void write(Level level, std::string_view component, fmt::string_view format,
                       fmt::format_args args) noexcept;
OPAL_EXPORT bool first_time(std::string_view key) noexcept;
}  // namespace detail

/// True when a message of this level would be shown.
inline bool enabled(Level wanted) noexcept {
  const std::uint8_t limit = detail::level_plus_one.load(std::memory_order_relaxed);
  return static_cast<std::uint8_t>(wanted) <= (limit != 0 ? limit - 1 : static_cast<std::uint8_t>(level()));
}

template <class... Args>
void write(Level level, std::string_view component, fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(level)) detail::write(level, component, format, fmt::make_format_args(args...));
}

/// Says a message the first time this process uses `key`; later ones are dropped.
template <class... Args>
void once(Level level, std::string_view key, std::string_view component, fmt::format_string<Args...> format,
          Args&&... args) {
  if (enabled(level) && detail::first_time(key)) {
    detail::write(level, component, format, fmt::make_format_args(args...));
  }
}

template <class... Args>
void error(std::string_view component, fmt::format_string<Args...> format, Args&&... args) {
  write(Level::error, component, format, std::forward<Args>(args)...);
}
template <class... Args>
void warn(std::string_view component, fmt::format_string<Args...> format, Args&&... args) {
  write(Level::warn, component, format, std::forward<Args>(args)...);
}
template <class... Args>
void info(std::string_view component, fmt::format_string<Args...> format, Args&&... args) {
  write(Level::info, component, format, std::forward<Args>(args)...);
}
template <class... Args>
void debug(std::string_view component, fmt::format_string<Args...> format, Args&&... args) {
  write(Level::debug, component, format, std::forward<Args>(args)...);
}

}  // namespace opal::log
