// SPDX-License-Identifier: Apache-2.0
// opal/core/log.hpp — log messages, one line each, to stderr or to a sink.
//   log::warn("btl.sm", "no single copy with {}: {}", peer, reason);
// The process has one level (OPAL_LOG, default warn).  A message below the level costs one relaxed load and is not
// formatted.  A message that is written allocates: for cold paths only.  Threads: safe from any thread.
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

/// The level called `name`; nullopt if there is none.
OPAL_EXPORT std::optional<Level> level_from_name(std::string_view name) noexcept;

struct Message {
  Level level;
  std::string_view component;  ///< the part of OPAL that logs: "btl.sm", "runtime", ...
  std::string_view text;       ///< one line, without the newline
};

/// Receives each message instead of stderr.  `message` is valid during the call.  The log holds its lock during
/// the call: a sink must not log or fork.
using Sink = void (*)(void* user, const Message& message) noexcept;

/// Replaces the sink; null: stderr.  `user` must stay valid until the next set_sink() returns.
OPAL_EXPORT void set_sink(Sink sink, void* user) noexcept;

/// From now on the process writes messages from `error` up to and including `level`.
OPAL_EXPORT void set_level(Level level) noexcept;

/// The present level: of the last set_level(), else OPAL_LOG, else warn.
OPAL_EXPORT Level level() noexcept;

/// The line for stderr, without the newline: "opal[host:pid] warn btl.sm: text".
OPAL_EXPORT std::string to_line(const Message& message);

namespace detail {
OPAL_EXPORT extern std::atomic<std::uint8_t> level_plus_one;  // 0: OPAL_LOG has not been read yet
OPAL_EXPORT void write(Level level, std::string_view component, fmt::string_view format,
                       fmt::format_args args) noexcept;
OPAL_EXPORT bool first_time(std::string_view key) noexcept;
}  // namespace detail

/// True if messages of this level are written.
inline bool enabled(Level wanted) noexcept {
  const std::uint8_t limit = detail::level_plus_one.load(std::memory_order_relaxed);
  return static_cast<std::uint8_t>(wanted) <= (limit != 0 ? limit - 1 : static_cast<std::uint8_t>(level()));
}

template <class... Args>
void write(Level level, std::string_view component, fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(level)) detail::write(level, component, format, fmt::make_format_args(args...));
}

/// Writes a message the first time that this process uses `key`; drops it every later time.
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
