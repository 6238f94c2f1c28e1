// SPDX-License-Identifier: Apache-2.0
// opal/mpool/shared_pool.hpp — memory that processes of one host share: a memory file (memfd) of fixed size, mapped
// once.  The file is sparse: allocate() commits memory in chunks, so a lack of memory is an Error of allocate() and not
// a SIGBUS later.  A peer maps the whole file once, and later chunks need no action of it.
// The size is sealed: no process with the descriptor can shrink or grow the file.
// Bookkeeping is in private memory; the shared bytes contain only the data of the user.
// Owns: descriptor and mapping.  Threads: all calls are safe from any thread.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "opal/allocator/best_fit.hpp"
#include "opal/core/bytes.hpp"
#include "opal/core/export.hpp"
#include "opal/core/result.hpp"
#include "opal/core/system/fd.hpp"
#include "opal/core/system/mapping.hpp"
#include "opal/mpool/pool.hpp"

namespace opal::mpool {

/// One allocation: its address here, and its offset in every mapping.
struct SharedBlock {
  std::byte* address = nullptr;
  std::uint64_t offset = 0;  ///< from the start of the file
};

struct SharedPoolOptions {
  std::size_t chunk = std::size_t{256} << 10;  ///< bytes committed at a time; rounded up to the page size
  bool hugetlb = false;                        ///< use pages of hugetlbfs, of kHugePage bytes
};

class OPAL_EXPORT SharedPool {
 public:
  using Options = SharedPoolOptions;

  /// Alignment of the mapping in this process, and the largest alignment that allocate() accepts.
  static constexpr std::size_t kMaxAlignment = kHugePage;

  /// Makes a pool of at most `virtual_size` bytes (rounded up to the page size); commits no memory.  `name` appears in
  /// /proc/PID/maps.  Errors: invalid_argument, no_memory, no_space, limit_reached, os (also: no hugetlbfs).
  static Result<SharedPool> create(const std::string& name, std::size_t virtual_size, Options options = {});

  /// Maps all of a peer's pool, whose descriptor is `fd`; the caller may close it.  `writable` false: read-only.
  /// Errors: protocol (not a memory file of sealed size: its owner could cause a SIGBUS), no_memory, os.
  static Result<Mapping> attach(int fd, bool writable = true) noexcept;

  /// Allocates `size` bytes, rounded up to whole cache lines, at a multiple of `alignment` here and in the file.
  /// In a peer the alignment holds up to the page size.  The first use of committed memory finds zeros; later ones find
  /// the old content.
  /// Errors: limit_reached (virtual size used up), no_space / no_memory (the host has no more), invalid_argument.
  Result<SharedBlock> allocate(std::size_t size, std::size_t alignment = kCacheLine) noexcept;

  /// Frees a block by its address in this process.  Errors: invalid_argument (not the address of a live block).
  Result<void> deallocate(std::byte* address) noexcept;

  /// The descriptor, owned by the pool.  Duplicate it, or send it over a Unix socket, to share the memory.
  [[nodiscard]] int fd() const noexcept { return fd_.get(); }

  /// The whole mapping, valid as long as the pool.  Only live blocks may be accessed.
  [[nodiscard]] MutableBytes bytes() const noexcept { return mapping_.bytes(); }

  /// `managed` counts the committed bytes.
  [[nodiscard]] Usage usage() const noexcept;
  [[nodiscard]] std::size_t page_size() const noexcept { return page_size_; }

 private:
  SharedPool(Fd fd, Mapping mapping, std::size_t chunk, std::size_t page_size)
      : fd_(std::move(fd)), mapping_(std::move(mapping)), chunk_(chunk), page_size_(page_size) {}
  Result<void> commit_locked(std::size_t bytes) noexcept;
  Result<void> grow_locked(std::size_t size, std::size_t alignment) noexcept;

  Fd fd_;
  Mapping mapping_;
  std::size_t chunk_;
  std::size_t page_size_;
  std::unique_ptr<std::mutex> mutex_ = std::make_unique<std::mutex>();  // a pointer, so that a pool can be moved
  allocator::BestFit blocks_{kCacheLine};  // its offsets are the committed part of the file
};

}  // namespace opal::mpool
