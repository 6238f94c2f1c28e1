// SPDX-License-Identifier: Apache-2.0
// tests/harness/log_lines.hpp — the messages of this process's log, from the beginning of its life to the end.
// Threads: read them when no other thread logs.
#pragma once
#include <string>
#include <vector>

#include "opal/core/log.hpp"

namespace opal::test {

class LogLines {
 public:
  explicit LogLines(log::Level level) : before_(log::level()) {
    log::set_level(level);
    log::set_sink(
        [](void* self, const log::Message& message) noexcept {
          static_cast<LogLines*>(self)->texts_.emplace_back(message.text);
        },
        this);
  }
  ~LogLines() {
    log::set_sink(nullptr, nullptr);
    log::set_level(before_);
  }
  LogLines(const LogLines&) = delete;
  LogLines& operator=(const LogLines&) = delete;

  [[nodiscard]] const std::vector<std::string>& texts() const noexcept { return texts_; }

 private:
  const log::Level before_;
  std::vector<std::string> texts_;
};

}  // namespace opal::test
