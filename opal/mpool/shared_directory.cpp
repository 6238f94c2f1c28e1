// SPDX-License-Identifier: Apache-2.0
#include "opal/mpool/shared_directory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <mutex>
#include <vector>

#include "opal/core/log.hpp"
#include "opal/memory/events/events.hpp"
#include "opal/mpool/shared_pool.hpp"

namespace opal::mpool {
namespace {

class SharedMemoryPool;

struct Directory {
  std::mutex mutex;
  std::vector<const SharedMemoryPool*> pools;
  std::uint32_t last_number = 0;
  std::atomic<std::size_t> count{0};  // of pools; read without the mutex
};

Directory& directory() noexcept {
  static Directory instance;  // constructed within the first pool's constructor, so destroyed after every static pool
  return instance;
}

/// A SharedPool whose blocks are whole pages, so a registration of one block shares no page with another block.  A peer
/// that has the descriptor can map all of the pool.
class SharedMemoryPool final : public Pool, private memory::Listener {
 public:
  explicit SharedMemoryPool(SharedPool pool);
  ~SharedMemoryPool() override;

  Result<std::byte*> allocate(std::size_t size, std::size_t alignment) noexcept override;
  Result<void> deallocate(std::byte* address) noexcept override { return pool_.deallocate(address); }
  [[nodiscard]] Usage usage() const noexcept override { return pool_.usage(); }

  [[nodiscard]] std::uint32_t number() const noexcept { return number_; }
  [[nodiscard]] bool intact() const noexcept { return intact_.load(std::memory_order_relaxed); }
  [[nodiscard]] const SharedPool& shared() const noexcept { return pool_; }

 private:
  /// Any thread, inside munmap(): no lock, no allocation.
  void released(memory::Range range) noexcept override {
    const MutableBytes mine = pool_.bytes();
    if (range.overlaps(memory::Range::pages(reinterpret_cast<std::uintptr_t>(mine.data()), mine.size()))) {
      intact_.store(false, std::memory_order_relaxed);
    }
  }

  /// True in a forked child: it has the parent's file, but a copy of the bookkeeping.
  [[nodiscard]] bool inherited() const noexcept { return process_ != ::getpid(); }

  SharedPool pool_;
  const pid_t process_ = ::getpid();
  std::atomic<bool> intact_{false};  // no part was unmapped or replaced; else shared_pool_of() does not return it
  std::uint32_t number_ = 0;
};

SharedMemoryPool::SharedMemoryPool(SharedPool pool) : pool_(std::move(pool)) {
  // If no listener can be added (too many), intact_ stays false: the blocks are treated as private memory.
  intact_.store(static_cast<bool>(memory::add_listener(*this)), std::memory_order_relaxed);
  Directory& all = directory();
  const std::lock_guard lock{all.mutex};
  number_ = ++all.last_number;
  all.pools.push_back(this);
  all.count.store(all.pools.size(), std::memory_order_release);
}

SharedMemoryPool::~SharedMemoryPool() {
  memory::remove_listener(*this);
  Directory& all = directory();
  {
    const std::lock_guard lock{all.mutex};
    std::erase(all.pools, this);
    all.count.store(all.pools.size(), std::memory_order_release);
  }
  if (inherited()) return;
  // Peers may keep the file mapped until their connection ends: free its pages now.
  (void)::fallocate(pool_.fd(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
                    static_cast<off_t>(pool_.bytes().size()));
}

Result<std::byte*> SharedMemoryPool::allocate(std::size_t size, std::size_t alignment) noexcept {
  if (inherited()) return Error{Errc::not_supported, 0, "Pool::allocate(shared pool of the parent process)", size};
  const std::size_t page = pool_.page_size();
  if (!std::has_single_bit(alignment)) {
    return Error{Errc::invalid_argument, 0, "Pool::allocate(alignment is not a power of two)", alignment};
  }
  if (size > SIZE_MAX - page) return Error{Errc::limit_reached, 0, "Pool::allocate(size)", size};
  OPAL_TRY_ASSIGN(const SharedBlock block,
                  pool_.allocate(align_up(std::max<std::size_t>(size, 1), page), std::max(alignment, page)));
  return block.address;
}

/// Creates a pool and tests that it can commit a page; without hugetlb pages that fails here.
Result<SharedPool> create_checked(const Config& config, bool hugetlb) {
  OPAL_TRY_ASSIGN(SharedPool pool, SharedPool::create("opal-pool", config.shared_size.bytes, {.hugetlb = hugetlb}));
  OPAL_TRY_ASSIGN(const SharedBlock probe, pool.allocate(pool.page_size()));
  OPAL_TRY(pool.deallocate(probe.address));
  return pool;
}

}  // namespace

Result<std::unique_ptr<Pool>> open_shared_memory_pool(const Config& config, bool huge) {
  auto pool = create_checked(config, huge);
  if (huge && !pool) {
    log::once(log::Level::info, "mpool shared hugepage", "mpool",
              "no hugetlb page for shared memory ({}); shared hugepage pools use transparent huge pages",
              to_string(pool.error()));
    pool = create_checked(config, false);
    if (pool) (void)::madvise(pool->bytes().data(), pool->bytes().size(), MADV_HUGEPAGE);  // may fail: small pages
  }
  if (!pool) return pool.error();
  return std::unique_ptr<Pool>{std::make_unique<SharedMemoryPool>(std::move(*pool))};
}

std::uint32_t shared_pool_of(const void* base, std::size_t size) noexcept {
  Directory& all = directory();
  if (all.count.load(std::memory_order_acquire) == 0) return 0;
  const auto address = reinterpret_cast<std::uintptr_t>(base);
  const std::lock_guard lock{all.mutex};
  for (const SharedMemoryPool* pool : all.pools) {
    const MutableBytes bytes = pool->shared().bytes();
    const auto distance = address - reinterpret_cast<std::uintptr_t>(bytes.data());
    if (distance < bytes.size() && size <= bytes.size() - distance) return pool->intact() ? pool->number() : 0;
  }
  return 0;
}

// Also a pool that is not intact: registrations that were made before, of its other parts, stay valid.
Result<SharedPoolAccess> open_shared_pool(std::uint32_t number) {
  Directory& all = directory();
  const std::lock_guard lock{all.mutex};
  const auto found = std::ranges::find_if(all.pools, [&](const auto* pool) { return pool->number() == number; });
  if (found == all.pools.end()) return Error{Errc::invalid_argument, 0, "shared pool: there is none", number};
  const SharedPool& memory = (*found)->shared();
  Fd copy{::fcntl(memory.fd(), F_DUPFD_CLOEXEC, 0)};
  if (!copy) return Error{errno == EMFILE ? Errc::limit_reached : Errc::os, errno, "dup(shared pool)", number};
  return SharedPoolAccess{std::move(copy), reinterpret_cast<std::uint64_t>(memory.bytes().data())};
}

}  // namespace opal::mpool
