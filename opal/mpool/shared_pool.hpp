// SPDX-License-Identifier: Apache-2.0
// opal/mpool/shared_pool.hpp — memory that processes of one host share: a nameless file of fixed virtual size, mapped
// once. The file is sparse: memory is committed in chunks when allocate() needs it, so a lack of memory is an Error
// here and never a SIGBUS later, and a peer that maps the descriptor once sees all later growth without doing anything.
// The size is sealed: no holder of the descriptor can shrink or grow the file under the others.
// Free-list bookkeeping is private; the shared bytes hold only what the user puts there.
// Owns: descriptor and mapping.  Threads: all calls are safe from any thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "opal/allocator/allocator.hpp"
#include "opal/core/bytes.hpp"
#include "opal/core/export.hpp"
#include "opal/core/result.hpp"
#include "opal/core/system/mapping.hpp"

namespace opal::mpool {

/// One allocation: its address here, and its offset in every mapping.
struct SharedBlock {
  std::byte* address = nullptr;
  std::uint64_t offset = 0;  ///< from the start of the file
};

class OPAL_EXPORT SharedPool {
 public:
  struct Options {
    std::size_t chunk = std::size_t{256} << 10;  ///< bytes committed at a time; rounded up to the page size
    bool hugetlb = false;                        ///< pages of hugetlbfs
  };

  /// Alignment of the mapping in this process, and so the largest alignment that allocate() accepts.
  static constexpr std::size_t kMaxAlignment = kHugePage;

  /// A pool of at most `virtual_size` bytes (rounded up to the page size); `name` shows up in /proc/PID/maps.
  /// Nothing is committed yet.  Errors: invalid_argument, no_memory, not_supported (no hugetlbfs), limit_reached, os.
  static Result<SharedPool> create(const std::string& name, std::size_t virtual_size);
  static Result<SharedPool> create(const std::string& name, std::size_t virtual_size, Options options);

  /// Maps all of a peer's pool.  The descriptor is checked first: it must be sealed against shrinking (an unsealed one
  /// could turn into a SIGBUS at any time).  Errors: protocol (not a sealed pool), no_memory, os.
  static Result<Mapping> attach(int fd, bool writable = true) noexcept;

  SharedPool(SharedPool&&) noexcept;
  SharedPool& operator=(SharedPool&&) noexcept;
  ~SharedPool();

  /// A block of `size` bytes, rounded up to whole cache lines, at a multiple of `alignment` here and in the file.
  /// In a peer the alignment holds up to the page size.  Memory never handed out before is zero, other memory is not.
  /// Errors: limit_reached (virtual size used up), no_space / no_memory (the machine has no more), invalid_argument.
  Result<SharedBlock> allocate(std::size_t size, std::size_t alignment = kCacheLine) noexcept;

  /// Takes back a block by its address.  Errors: invalid_argument for anything that is not a live block.
  Result<void> deallocate(std::byte* address) noexcept;

  /// Uncommits chunks at the end of the committed part that hold no block; returns the bytes given back.
  std::size_t trim() noexcept;

  /// Stays owned by the pool; duplicate it or pass it over a Unix socket to share the memory.
  [[nodiscard]] int fd() const noexcept;

  /// The whole mapping.  Only what allocate() returned may be touched.
  [[nodiscard]] MutableBytes bytes() const noexcept;

  /// Managed is what is committed.
  [[nodiscard]] allocator::Usage usage() const noexcept;
  [[nodiscard]] std::size_t page_size() const noexcept;

 private:
  struct State;
  explicit SharedPool(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

}  // namespace opal::mpool
