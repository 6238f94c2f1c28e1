// SPDX-License-Identifier: Apache-2.0
// opal/core/system/mapping.hpp — owns one mmap()ed range and unmaps it.  Threads: one thread at a time.
#pragma once
#include <cstddef>
#include <utility>

#include "opal/core/bytes.hpp"
#include "opal/core/export.hpp"
#include "opal/core/result.hpp"

namespace opal {

/// Bytes of a huge page on x86-64, and on arm64 with 4 KiB base pages.
inline constexpr std::size_t kHugePage = std::size_t{2} << 20;

/// Bytes of a base page of this machine.
OPAL_EXPORT std::size_t base_page_size() noexcept;

class OPAL_EXPORT Mapping {
 public:
  Mapping() noexcept = default;
  Mapping(Mapping&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}
  Mapping& operator=(Mapping&& other) noexcept {
    if (this != &other) {
      unmap();
      bytes_ = std::exchange(other.bytes_, {});
    }
    return *this;
  }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() { unmap(); }

  /// Maps `size` bytes of `fd` from `offset` as MAP_SHARED; `writable` false: read-only.  The caller may close `fd`.
  /// Errors: no_memory, os.
  static Result<Mapping> shared(int fd, std::size_t size, std::size_t offset = 0, bool writable = true) noexcept;

  /// Maps `size` zeroed private bytes; `reserve` false adds MAP_NORESERVE.  Errors: no_memory, os.
  static Result<Mapping> anonymous(std::size_t size, bool reserve = true) noexcept;

  /// Maps `size` bytes, readable and writable, at a multiple of `alignment`, a power of two and at least a page.
  /// `flags` and `fd` are those of mmap(2); fd -1: anonymous memory.
  /// Errors: invalid_argument (size 0, or size + alignment overflows), no_memory, os.
  static Result<Mapping> aligned(std::size_t size, std::size_t alignment, int flags, int fd = -1) noexcept;

  /// Takes ownership of a range that the caller has mmap()ed.
  static Mapping adopt(MutableBytes mapped) noexcept { return Mapping{mapped}; }

  [[nodiscard]] MutableBytes bytes() const noexcept { return bytes_; }
  [[nodiscard]] std::byte* data() const noexcept { return bytes_.data(); }
  [[nodiscard]] std::size_t size() const noexcept { return bytes_.size(); }
  explicit operator bool() const noexcept { return !bytes_.empty(); }

 private:
  explicit Mapping(MutableBytes bytes) noexcept : bytes_(bytes) {}
  void unmap() noexcept;

  MutableBytes bytes_;
};

/// Prefaults all pages that share a byte with `range`, which is writable memory, in one system call (Linux 5.14).
/// Older kernels do nothing: then each page faults at its first access.
OPAL_EXPORT void populate(MutableBytes range) noexcept;

}  // namespace opal
