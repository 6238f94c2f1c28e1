// SPDX-License-Identifier: Apache-2.0
#include "opal/core/log.hpp"

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <array>
#include <mutex>
#include <set>

#include "opal/core/environment.hpp"

namespace opal::log {
namespace {

constexpr std::array kNames{"error", "warn", "info", "debug"};

/// The state of the log, one per process.
struct Shared {
  std::mutex mutex;
  Sink sink = nullptr;
  void* user = nullptr;
  std::set<std::string, std::less<>> keys_seen;  // the keys of first_time()
};

/// Never destroyed: a Context may end, and log, after the destructors of this library have run.
Shared& shared() {
  static Shared& state = *new Shared;
  return state;
}

/// Keeps the lock during fork(), so that a child does not find it held by a thread that the child does not have.
/// Registered when the library is loaded, before all others: so their functions may log in the parent and the child.
[[maybe_unused]] const int kForkIsSafe =
    ::pthread_atfork([] { shared().mutex.lock(); }, [] { shared().mutex.unlock(); }, [] { shared().mutex.unlock(); });

void write_to_stderr(const Message& message) {
  const std::string line = to_line(message) + '\n';
  // One write(2) per line, so that lines of several processes on one pipe do not mix.  A failure cannot be reported.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace

namespace detail {

constinit std::atomic<std::uint8_t> level_plus_one{0};

void write(Level level, std::string_view component, fmt::string_view format, fmt::format_args args) noexcept {
  try {
    std::string text = fmt::vformat(format, args);
    for (char& c : text) {
      if (c == '\n' || c == '\r') c = ' ';  // a message is one line, also with text of a peer or user
    }
    const Message message{level, component, text};
    Shared& state = shared();
    const std::lock_guard lock{state.mutex};
    if (state.sink != nullptr) {
      state.sink(state.user, message);
    } else {
      write_to_stderr(message);
    }
  } catch (...) {
    constexpr std::string_view kLost = "opal: a message was lost: no memory\n";
    [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, kLost.data(), kLost.size());
  }
}

bool first_time(std::string_view key) noexcept {
  try {
    Shared& state = shared();
    const std::lock_guard lock{state.mutex};
    return state.keys_seen.emplace(key).second;
  } catch (...) {
    return true;  // without memory: log again rather than never
  }
}

}  // namespace detail

const char* name(Level level) noexcept { return kNames[static_cast<std::size_t>(level) % kNames.size()]; }

std::optional<Level> level_from_name(std::string_view name) noexcept {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (name == kNames[i]) return static_cast<Level>(i);
  }
  return std::nullopt;
}

void set_sink(Sink sink, void* user) noexcept {
  Shared& state = shared();
  const std::lock_guard lock{state.mutex};
  state.sink = sink;
  state.user = user;
}

void set_level(Level level) noexcept {
  detail::level_plus_one.store(static_cast<std::uint8_t>(level) + 1, std::memory_order_relaxed);
}

Level level() noexcept {
  std::uint8_t limit = detail::level_plus_one.load(std::memory_order_relaxed);
  if (limit == 0) {
    // A bad OPAL_LOG counts as warn here; apply_to_process() reports it.
    const Level wanted = level_from_name(environment("OPAL_LOG").value_or("")).value_or(Level::warn);
    if (detail::level_plus_one.compare_exchange_strong(limit, static_cast<std::uint8_t>(wanted) + 1)) return wanted;
  }
  return static_cast<Level>(limit - 1);
}

std::string to_line(const Message& message) {
  return fmt::format("opal[{}:{}] {} {}: {}", host_name(), ::getpid(), name(message.level), message.component,
                     message.text);
}

}  // namespace opal::log
