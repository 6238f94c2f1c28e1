// SPDX-License-Identifier: Apache-2.0
// runtime/stdio/line_merger.hpp — merges the text of several sources into one output, line by line.
//   LineBuffer  one per source: keeps an unfinished line back;
//   LineMerger  one per output: adds prefixes, and ends the unfinished line of one source before another one writes.
// Threads: the loop's thread.
#pragma once
#include <string>
#include <string_view>

namespace runtime::stdio {

/// The text of one source since its last newline.
class LineBuffer {
 public:
  /// Bytes.  A longer line is passed on in parts, between which other sources may write.
  static constexpr std::size_t kLongestLine = 1U << 20;

  /// Appends `text`; returns and removes everything up to the last newline.
  std::string append(std::string_view text);

  /// Returns and removes the unfinished line: at the end of the source, or to show a prompt.
  std::string take();

  [[nodiscard]] bool empty() const noexcept { return held_.empty(); }

 private:
  std::string held_;
};

class LineMerger {
 public:
  /// Returns the bytes to write for `text` of `source`; each of its lines starts with `prefix`.
  std::string merge(int source, std::string_view prefix, std::string_view text);

 private:
  int last_source_ = 0;
  bool line_open_ = false;  // the last result does not end with a newline
};

}  // namespace runtime::stdio
