// SPDX-License-Identifier: Apache-2.0
// tests/harness/child.hpp — a forked process that runs a function, with a message channel to its parent.
// Start children before the parent opens anything that has threads.  A child still running at the end of its scope is
// killed, so that a failing test leaves nothing behind.
#pragma once
#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "opal/core/bytes.hpp"
#include "opal/core/system/fd.hpp"

namespace opal::test {

/// One end of a socket pair that keeps message borders.
class Channel {
 public:
  explicit Channel(Fd socket) noexcept : socket_(std::move(socket)) {}
  void send(ByteSpan message) const;
  void send(std::string_view word) const { send(std::as_bytes(std::span{word})); }
  /// Empty when the other side is gone or nothing came within `timeout`.
  [[nodiscard]] std::vector<std::byte> receive(std::chrono::seconds timeout = std::chrono::seconds{20}) const;
  /// True when the next message is `word`.
  [[nodiscard]] bool expect(std::string_view word) const;
  /// True when a message (or a hang-up) is there.
  [[nodiscard]] bool ready() const;

 private:
  Fd socket_;
};

class Child {
 public:
  /// Forks; the child runs `body` and exits with what it returns.
  explicit Child(const std::function<int(Channel&)>& body);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  [[nodiscard]] Channel& channel() noexcept { return channel_; }
  [[nodiscard]] pid_t pid() const noexcept { return pid_; }
  void kill() noexcept;  ///< SIGKILL
  /// Its exit status as waitpid gives it; empty if it did not end within `timeout`.
  std::optional<int> wait(std::chrono::seconds timeout = std::chrono::seconds{20});

 private:
  pid_t pid_ = -1;
  Channel channel_{Fd{}};
};

}  // namespace opal::test
