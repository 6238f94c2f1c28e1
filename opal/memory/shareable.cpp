// SPDX-License-Identifier: Apache-2.0
#include "opal/memory/shareable.hpp"

#include <fcntl.h>
#include <malloc.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>

#include "opal/memory/events.hpp"
#include "opal/memory/shareable_state.hpp"

namespace opal::memory::shareable {
namespace {

constinit std::atomic<Arena*> process_arena{nullptr};
constinit std::atomic<Arena*> refused_arena{
    nullptr};  // whose trial failed; a call of another thread may still look at it

constexpr ByteSize kLeast = 64_KiB;  // below, mallocs would be mappings, of a word of the bitmap each

/// Where the system promises memory at mmap(), a page of a file that it then lacks would be a SIGBUS.
bool memory_is_reserved_strictly() noexcept {
  const Fd file{::open("/proc/sys/vm/overcommit_memory", O_RDONLY | O_CLOEXEC)};
  char mode = '0';
  return file && ::read(file.get(), &mode, 1) == 1 && mode == '2';
}

/// glibc takes what it has seen freed from its heap the next time, unless the threshold is set.
void fix_threshold_of_malloc([[maybe_unused]] std::size_t from) noexcept {
#ifdef __GLIBC__
  constexpr std::size_t kLargest = std::size_t{32} << 20;  // beyond it malloc maps blocks in any case
  const std::size_t threshold = std::min(from, kLargest);
  ::mallopt(M_MMAP_THRESHOLD, static_cast<int>(threshold));
  ::mallopt(M_TRIM_THRESHOLD, static_cast<int>(2 * threshold));  // as it would set it itself
#endif
}

/// A child that wrote to its copy of `*page` and found there what its parent had written.
Result<void> try_fork(volatile unsigned char* page, volatile unsigned char* verdict) noexcept {
  constexpr unsigned char kParents = 1, kChilds = 2;
  *page = kParents;
  const pid_t child = ::fork();
  if (child < 0) return Error{Errc::os, errno, "memory_shareable_from: fork"};
  if (child == 0) {
    if (process_arena.load(std::memory_order_relaxed) == nullptr) {  // else the call went unseen, and there is no page
      const bool found = *page == kParents;
      *page = kChilds;
      *verdict = found ? 1 : 0;
    }
    ::_exit(0);
  }
  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  if (*verdict != 1 || *page != kParents) {
    return Error{Errc::not_supported, 0, "memory_shareable_from: a forked child has no copy of its own"};
  }
  return {};
}

Result<void> try_out(const Arena& arena) noexcept {
  const std::size_t size = align_up(std::max(arena.from(), kPage), kPage);
  void* const at = ::mmap(nullptr, size, kReadWrite, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return Error{Errc::no_memory, errno, "memory_shareable_from: mmap", size};
  const auto begin = reinterpret_cast<std::uintptr_t>(at);
  const Mapping mapping = Mapping::adopt({static_cast<std::byte*>(at), size});
  if (!arena.holds({begin, begin + size})) {
    return Error{Errc::not_supported, 0, "memory_shareable_from: mmap goes unseen, or finds no place", size};
  }
  void* const shared = ::mmap(nullptr, kPage, kReadWrite, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return Error{Errc::no_memory, errno, "memory_shareable_from: mmap", kPage};
  const Mapping verdict = Mapping::adopt({static_cast<std::byte*>(shared), kPage});
  return try_fork(static_cast<unsigned char*>(at), static_cast<unsigned char*>(shared));
}

}  // namespace

Arena* state() noexcept { return process_arena.load(std::memory_order_acquire); }

void forget() noexcept {
  process_arena.store(nullptr, std::memory_order_release);
  detail::interested.fetch_sub(1, std::memory_order_relaxed);
}

bool active() noexcept { return state() != nullptr; }

Result<void> enable(const Config& config) noexcept {
  if (active()) return Error{Errc::invalid_argument, 0, "memory_shareable_from: once per process"};
  if (::sysconf(_SC_PAGESIZE) != static_cast<long>(kPage)) {
    return Error{Errc::not_supported, 0, "memory_shareable_from: pages of 4 KiB only"};
  }
  if (config.shareable_from < kLeast) {
    return Error{Errc::invalid_argument, 0, "memory_shareable_from: below 64 KiB", config.shareable_from.bytes};
  }
  if (memory_is_reserved_strictly()) {
    return Error{Errc::not_supported, 0, "memory_shareable_from: vm.overcommit_memory is 2"};
  }
  OPAL_TRY_ASSIGN(Arena* const arena, Arena::create(config));
  process_arena.store(arena, std::memory_order_release);
  detail::interested.fetch_add(1, std::memory_order_seq_cst);
  if (auto works = try_out(*arena); !works) {
    forget();
    arena->close_file();
    refused_arena.store(arena, std::memory_order_relaxed);
    return works;
  }
  fix_threshold_of_malloc(config.shareable_from.bytes);
  return {};
}

bool holds(Range range) noexcept {
  const Arena* const arena = state();
  return arena != nullptr && arena->holds(range);
}

Result<Access> access() noexcept {
  const Arena* const arena = state();
  if (arena == nullptr) return Error{Errc::invalid_argument, 0, "shareable memory: there is none"};
  OPAL_TRY_ASSIGN(Fd fd, arena->duplicate());
  return Access{std::move(fd), arena->base()};
}

}  // namespace opal::memory::shareable
