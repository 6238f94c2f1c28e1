// SPDX-License-Identifier: Apache-2.0
// runtime/stdio/line_merger.hpp — one output made of many: whole lines of different sources never mix, each may get a
// prefix, and a line that one source left open is closed before another one writes.
// LineBuffer holds a source's unfinished line back; LineMerger forms what is written.  Threads: the loop's thread.
#pragma once
#include <string>
#include <string_view>

namespace runtime::stdio {

/// What one source has printed since its last newline.
class LineBuffer {
 public:
  /// A longer line is passed on in parts: memory stays bounded, and only such lines can be broken by others.
  static constexpr std::size_t kLongestLine = 1U << 20;

  /// Takes `text` and returns what may be passed on now: everything up to the last newline.
  std::string append(std::string_view text);

  /// Returns what is held back: at the end of the source, or when a person waits for a prompt.
  std::string take();

  [[nodiscard]] bool empty() const noexcept { return held_.empty(); }

 private:
  std::string held_;
};

class LineMerger {
 public:
  /// The bytes to write for `text` of `source` now; each of its lines starts with `prefix`.
  std::string merge(int source, std::string_view prefix, std::string_view text);

  /// What was formed last does not end with a newline.
  [[nodiscard]] bool line_open() const noexcept { return line_open_; }

 private:
  int last_source_ = 0;
  bool line_open_ = false;
};

}  // namespace runtime::stdio
