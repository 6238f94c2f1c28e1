// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>

#include "opal/memory/events/events.hpp"
#include "opal/memory/events/monitor.hpp"

/// Function of sanitizers, whose allocators keep freed blocks for a while: unmaps them now, by direct system calls.
// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming): its name in the sanitizers
extern "C" [[gnu::weak]] void __sanitizer_purge_allocator();

namespace opal::memory {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kSize = 16 * kPage;

/// A size that the allocator unmaps when it is freed.  glibc raises its limit up to 32 MiB.  Sanitizers unmap from
/// 256 KiB on, and realloc() copies there: a small block keeps the start of a process short.
std::size_t large_block() noexcept {
  const std::size_t mebibytes = __sanitizer_purge_allocator != nullptr ? 1 : 64;
  return mebibytes << 20;
}

/// A listener that records whether a release of the expected page was reported.
class Watch final : public Listener {
 public:
  void released(Range range) noexcept override {
    const std::uintptr_t page = page_.load(std::memory_order_relaxed);
    if (range.overlaps(Range::pages(page, 1))) seen_.store(true, std::memory_order_relaxed);
  }
  /// Expects a report for the page of `address` from now on.
  void expect(const void* address) noexcept {
    page_.store(reinterpret_cast<std::uintptr_t>(address), std::memory_order_relaxed);
    seen_.store(false, std::memory_order_relaxed);
  }
  [[nodiscard]] bool seen() const noexcept { return seen_.load(std::memory_order_relaxed); }
  /// True if the page is mapped and resident: the allocator has kept it.
  [[nodiscard]] bool still_there() const noexcept {
    unsigned char resident = 0;
    const std::uintptr_t page = Range::pages(page_.load(std::memory_order_relaxed), 1).begin;
    return ::mincore(reinterpret_cast<void*>(page), kPage, &resident) == 0 && (resident & 1U) != 0;
  }
  /// After free() of the block: false if its page was released without a report.
  [[nodiscard]] bool seen_or_kept() const noexcept {
    if (!seen() && __sanitizer_purge_allocator != nullptr) __sanitizer_purge_allocator();
    return seen() || still_there();
  }

 private:
  std::atomic<std::uintptr_t> page_{0};  // an address in the expected page; any thread may report
  std::atomic<bool> seen_{false};
};

std::byte* map(std::size_t size) noexcept {
  void* const at = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return nullptr;
  *static_cast<volatile std::byte*>(at) = std::byte{1};
  return static_cast<std::byte*>(at);
}

/// Tests whether the release of a new mapping by `release(at)` is reported.  release() returns the range that is left
/// to unmap (null: none), or MAP_FAILED if the kernel refused; then the test passes.
template <class Release>
Result<void> test_mapping(Watch& watch, const char* unseen, Release release) noexcept {
  std::byte* const at = map(kSize);
  if (at == nullptr) return Error{Errc::no_memory, errno, "memory monitor self-test: mmap", kSize};
  watch.expect(at);
  void* const left = release(at);
  const bool refused = left == MAP_FAILED;
  const bool fine = watch.seen() || refused;
  if (left != nullptr) ::munmap(refused ? at : left, kSize);
  return fine ? Result<void>{} : Error{Errc::not_supported, 0, unseen};
}

/// Tests whether the release of a large block by `release(block)` is reported.  release() returns the block left to
/// free.
template <class Release>
Result<void> test_block(Watch& watch, const char* unseen, Release release) noexcept {
  auto* const block = static_cast<std::byte*>(std::malloc(large_block()));
  if (block == nullptr) return {};  // a small memory limit: the program cannot have such a block either
  *static_cast<volatile std::byte*>(block + kPage) = std::byte{1};
  watch.expect(block + kPage);
  void* const left = release(block);
  const bool fine = watch.seen_or_kept();
  std::free(left);
  return fine ? Result<void>{} : Error{Errc::not_supported, 0, unseen};
}

Result<void> test_all(Watch& watch) noexcept {
  OPAL_TRY(test_mapping(watch, "self-test: munmap went unseen", [](std::byte* at) -> void* {
    ::munmap(at, kSize);
    return nullptr;
  }));
  OPAL_TRY(test_mapping(watch, "self-test: madvise(MADV_DONTNEED) went unseen", [](std::byte* at) -> void* {
    ::madvise(at, kSize, MADV_DONTNEED);
    return at;
  }));
  OPAL_TRY(test_mapping(watch, "self-test: mmap(MAP_FIXED) went unseen", [](std::byte* at) {
    return ::mmap(at, kSize, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  }));
  OPAL_TRY(test_mapping(watch, "self-test: mremap went unseen", [](std::byte* at) {
    std::byte* const to = map(kSize);
    void* const moved = to != nullptr ? ::mremap(at, kSize, kSize, MREMAP_MAYMOVE | MREMAP_FIXED, to) : MAP_FAILED;
    if (moved == MAP_FAILED && to != nullptr) ::munmap(to, kSize);
    return moved;
  }));
  OPAL_TRY(test_block(watch, "self-test: free() of a large block went unseen", [](std::byte* block) -> void* {
    std::free(block);
    return nullptr;
  }));
  return test_block(watch, "self-test: realloc() of a large block went unseen", [](std::byte* block) {
    void* const larger = std::realloc(block, 2 * large_block());
    return larger != nullptr ? larger : block;
  });
}

}  // namespace

Result<void> self_test() noexcept {
  Watch watch;
  OPAL_TRY(add_listener(watch));
  const Result<void> outcome = test_all(watch);
  remove_listener(watch);
  return outcome;
}

}  // namespace opal::memory
