// SPDX-License-Identifier: Apache-2.0
// opal/memory/shareable_arena.hpp — the memory file behind shareable memory and the addresses that belong to it: page n
// of the file is only ever mapped at base + n pages.  The addresses are not reserved: the kernel says whether one is
// free. Two bits per page: `ours` while the page there is the file's, and `taken` until the page has been given back,
// so that nobody maps a place anew whose memory another thread is about to discard. Threads: any, also signal handlers;
// nothing waits, but a fork for mappings that are being made (no longer than that).
#pragma once
#include <sys/mman.h>
#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "opal/core/fd.hpp"
#include "opal/core/mapping.hpp"
#include "opal/core/result.hpp"
#include "opal/memory/config.hpp"
#include "opal/memory/page_bitmap.hpp"
#include "opal/memory/range.hpp"

namespace opal::memory::shareable {

inline constexpr std::size_t kPage = 4096;

/// Rights of mappings that become shareable, and of what is made in their stead.
inline constexpr int kReadWrite = PROT_READ | PROT_WRITE;

class Arena {
 public:
  /// Errors: as enable().
  static Result<Arena*> create(const Config& config) noexcept;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  [[nodiscard]] std::size_t from() const noexcept { return from_; }
  [[nodiscard]] std::uintptr_t base() const noexcept { return all_.begin; }
  [[nodiscard]] Range all() const noexcept { return all_; }
  [[nodiscard]] ino_t inode() const noexcept { return inode_; }

  [[nodiscard]] bool holds(Range range) const noexcept { return all_.contains(range) && ours_.all(pages_of(range)); }
  [[nodiscard]] bool touches(Range range) const noexcept { return ours_.any(pages_of(range)); }
  /// The first piece of `range` that is ours; empty: none.
  [[nodiscard]] Range next_piece(Range range) const noexcept { return range_of(ours_.next_run(pages_of(range))); }

  /// Maps `size` bytes, readable and writable, zero, not inherited; or extends a mapping of such rights that ends at
  /// `at`.  0: not possible (no room, no descriptor, a fork is under way), nothing has happened.
  std::uintptr_t map(std::size_t size) noexcept;
  bool extend(std::uintptr_t at, std::size_t size) noexcept;

  /// Around a call of the kernel that takes the pages of `range` away: no longer ours; then, when it has succeeded,
  /// their memory is given back, and when not they are ours again.
  void leaving(Range range) noexcept { ours_.clear(pages_of(range)); }
  void left(Range range) noexcept;
  void stayed(Range range) noexcept;

  /// Discards the contents of what is ours in `range`, for peers as well.
  void empty(Range range) noexcept;

  /// Copies the file's bytes at the addresses `range` to `to`, which is zero.  0 or -errno.
  long read(Range range, std::uintptr_t to) const noexcept;

  /// While one lives no mapping is being made.
  class NoneMade {
   public:
    explicit NoneMade(Arena& arena) noexcept;
    ~NoneMade();
    NoneMade(const NoneMade&) = delete;
    NoneMade& operator=(const NoneMade&) = delete;

   private:
    Arena& arena_;
  };

  /// A descriptor of the caller's own.  Errors: limit_reached, os.
  Result<Fd> duplicate() const noexcept;
  /// At the end of the arena: in a child, which has copies, it is the parent's.
  void close_file() noexcept;

 private:
  Arena(Fd fd, ino_t inode, dev_t device, Range all, std::size_t from, Mapping bits) noexcept;

  [[nodiscard]] Pages pages_of(Range range) const noexcept;
  [[nodiscard]] Range range_of(Pages pages) const noexcept;
  /// Maps pages that were claimed.  0, or -errno; then they are free again.
  long map_claimed(Pages pages) noexcept;
  /// False when the program has closed our descriptor: it may name anything by now.
  [[nodiscard]] bool file_is_ours() const noexcept { return is_file(fd_.get()); }
  [[nodiscard]] bool is_file(int fd) const noexcept;
  void discard(Range range) noexcept;

  Fd fd_;
  const ino_t inode_;
  const dev_t device_;
  const Range all_;
  const std::size_t from_;
  const Mapping bits_;
  PageBitmap ours_;
  PageBitmap taken_;
  std::atomic<std::size_t> lowest_{0};  // no free word below, as far as known
  std::atomic<std::uint32_t> makers_{0};
  std::atomic<std::uint32_t> forks_{0};
};

}  // namespace opal::memory::shareable
