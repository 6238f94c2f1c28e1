// SPDX-License-Identifier: Apache-2.0
#include "runtime/stdio/line_merger.hpp"

#include <utility>

namespace runtime::stdio {

std::string LineBuffer::append(std::string_view text) {
  const std::size_t end = text.rfind('\n');
  if (end == std::string_view::npos) {
    held_ += text;
    return held_.size() > kLongestLine ? take() : std::string{};
  }
  std::string ready = take();
  ready += text.substr(0, end + 1);
  held_ = text.substr(end + 1);
  return ready;
}

std::string LineBuffer::take() { return std::exchange(held_, {}); }

std::string LineMerger::merge(int source, std::string_view prefix, std::string_view text) {
  std::string result;
  result.reserve(text.size() + prefix.size() + 1);
  if (text.empty()) return result;
  if (line_open_ && last_source_ != source) {
    result += '\n';
    line_open_ = false;
  }
  last_source_ = source;
  while (!text.empty()) {
    if (!line_open_) result += prefix;
    const std::size_t end = text.find('\n');
    line_open_ = end == std::string_view::npos;
    const std::size_t size = line_open_ ? text.size() : end + 1;
    result += text.substr(0, size);
    text.remove_prefix(size);
  }
  return result;
}

}  // namespace runtime::stdio
