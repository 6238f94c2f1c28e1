// SPDX-License-Identifier: Apache-2.0
// opal/memory/process_maps.hpp — the kernel's list of this process's mappings, read without the heap, without a lock
// and without a libc call that a monitor could have patched: it may be read from within malloc. Threads: a value per
// reader; the list changes while it is read unless the caller keeps others from changing it.
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
  std::uint64_t offset = 0;  ///< in the file
  std::string_view name;     ///< file, "[heap]", "[stack]" or empty; valid until the next entry is read
};

class OPAL_EXPORT ProcessMaps {
 public:
  ProcessMaps() noexcept;
  ~ProcessMaps();
  ProcessMaps(const ProcessMaps&) = delete;
  ProcessMaps& operator=(const ProcessMaps&) = delete;

  /// The next mapping in order of address; false at the end, or when the list cannot be read: see failed().
  bool next(MapsEntry& entry) noexcept;
  [[nodiscard]] bool failed() const noexcept { return failed_; }

 private:
  std::string_view line() noexcept;  // empty at the end

  int fd_;
  bool failed_ = false;
  std::size_t begin_ = 0;  // of what was read and not looked at
  std::size_t end_ = 0;
  std::array<char, 8192> buffer_;  // a line is at most a path and 73 characters
};

}  // namespace opal::memory
