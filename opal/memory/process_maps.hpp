// SPDX-License-Identifier: Apache-2.0
// opal/memory/process_maps.hpp — reads the kernel's list of this process's mappings (/proc/self/maps).  It uses neither
// heap nor lock, and no libc function with a patched system call, so it may run inside malloc.
// Threads: one thread per object.  If other threads change mappings meanwhile, the result is of no single moment.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "opal/core/export.hpp"
#include "opal/core/result.hpp"
#include "opal/memory/range.hpp"

namespace opal::memory {

struct MapsEntry {
  Range range;
  int protection = 0;        ///< PROT_*
  std::uint64_t offset = 0;  ///< bytes from the start of the file
};

class OPAL_EXPORT ProcessMaps {
 public:
  ProcessMaps() noexcept;
  ~ProcessMaps();
  ProcessMaps(const ProcessMaps&) = delete;
  ProcessMaps& operator=(const ProcessMaps&) = delete;

  /// Reads the next mapping in ascending order of address.  False: end of the list, or an error: it cannot be opened
  /// (EMFILE) or read, or a line is malformed.  complete() tells which.
  bool next(MapsEntry& entry) noexcept;
  /// True if next() has returned false at the end of the list: it has given every mapping.
  [[nodiscard]] bool complete() const noexcept { return complete_; }

 private:
  std::string_view line() noexcept;  // the next line, at most the buffer's size; empty at the end or after an error

  int fd_;
  bool complete_ = false;
  bool in_tail_ = false;   // the unparsed bytes continue a line whose front line() has returned
  std::size_t begin_ = 0;  // the unparsed bytes are buffer_[begin_, end_)
  std::size_t end_ = 0;
  // A line has 73 characters and a path.  Paths may be longer than the buffer, but nothing needs their ends.
  std::array<char, 8192> buffer_;
};

}  // namespace opal::memory
