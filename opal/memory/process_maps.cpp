// SPDX-License-Identifier: Apache-2.0
#include "opal/memory/process_maps.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <charconv>
#include <cstring>
#include <utility>

#include "opal/core/system/raw_syscall.hpp"

namespace opal::memory {
namespace {

/// Parses the number before `end`, and removes it and `end` from the front of `text`.
std::uint64_t take_hexadecimal(std::string_view& text, char end) noexcept {
  std::uint64_t value = 0;
  (void)std::from_chars(text.data(), text.data() + text.size(), value, 16);
  const std::size_t length = text.find(end);
  text.remove_prefix(length < text.size() ? length + 1 : text.size());
  return value;
}

}  // namespace

ProcessMaps::ProcessMaps() noexcept
    : fd_(static_cast<int>(
          raw_syscall(SYS_openat, AT_FDCWD, reinterpret_cast<long>("/proc/self/maps"), O_RDONLY | O_CLOEXEC))) {}

ProcessMaps::~ProcessMaps() {
  if (fd_ >= 0) raw_syscall(SYS_close, fd_);
}

std::string_view ProcessMaps::line() noexcept {
  for (;;) {
    char* const start = buffer_.data() + begin_;
    if (const void* const found = std::memchr(start, '\n', end_ - begin_); found != nullptr) {
      const auto length = static_cast<std::size_t>(static_cast<const char*>(found) - start);
      begin_ += length + 1;
      if (std::exchange(in_tail_, false)) continue;
      return {start, length};
    }
    std::memmove(buffer_.data(), start, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
    if (end_ == buffer_.size()) {
      begin_ = end_;
      if (std::exchange(in_tail_, true)) continue;
      return {buffer_.data(), buffer_.size()};
    }
    const long got = raw_syscall(SYS_read, fd_, reinterpret_cast<long>(buffer_.data() + end_),
                                 static_cast<long>(buffer_.size() - end_));
    if (got == -EINTR) continue;
    if (got <= 0) {
      complete_ = got == 0 && end_ == 0 && !in_tail_;
      return {};
    }
    end_ += static_cast<std::size_t>(got);
  }
}

bool ProcessMaps::next(MapsEntry& entry) noexcept {
  // 7f0c8a000000-7f0c8a021000 rw-p 00000000 00:00 0      name
  std::string_view text = line();
  if (text.empty()) return false;
  entry.range.begin = take_hexadecimal(text, '-');
  entry.range.end = take_hexadecimal(text, ' ');
  if (text.size() < 5) return false;
  entry.protection =
      (text[0] == 'r' ? PROT_READ : 0) | (text[1] == 'w' ? PROT_WRITE : 0) | (text[2] == 'x' ? PROT_EXEC : 0);
  text.remove_prefix(5);
  entry.offset = take_hexadecimal(text, ' ');
  return true;
}

}  // namespace opal::memory
