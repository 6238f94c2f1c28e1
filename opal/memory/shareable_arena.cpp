// SPDX-License-Identifier: Apache-2.0
#include "opal/memory/shareable_arena.hpp"

#include <fcntl.h>
#include <linux/falloc.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <new>

#include "opal/core/memory_file.hpp"
#include "opal/memory/raw_syscall.hpp"

namespace opal::memory::shareable {
namespace {

/// Where the kernel does not look for space by itself, nor programs, stacks, libraries and sanitizers are.
constexpr std::uintptr_t kLowest = std::uintptr_t{0x20} << 40;
constexpr std::uintptr_t kStep = std::uintptr_t{1} << 30;
constexpr std::uint32_t kSteps = 0x2000;

/// Free addresses, not the same ones in every process.
Result<Range> find_addresses(std::size_t size) noexcept {
  for (int attempt = 0; attempt < 32; ++attempt) {
    std::uint32_t random = 0;
    if (::getrandom(&random, sizeof random, GRND_NONBLOCK) != sizeof random)
      random = static_cast<std::uint32_t>(attempt);
    const std::uintptr_t begin = kLowest + random % kSteps * kStep;
    void* const hint = reinterpret_cast<void*>(begin);
    void* const at =
        ::mmap(hint, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (at == MAP_FAILED) continue;
    ::munmap(at, size);
    if (at == hint) return Range{begin, begin + size};
  }
  return Error{Errc::no_space, errno, "memory_shareable_size: no free addresses", size};
}

/// A thread that is making a mapping and forks in a signal handler must not wait for itself.  Not a dynamic TLS
/// variable: its first use would call malloc.
__attribute__((tls_model("initial-exec"))) thread_local std::uint32_t making = 0;

/// What surrounds making a mapping; it may only be made if this is true.
class Making {
 public:
  Making(std::atomic<std::uint32_t>& makers, const std::atomic<std::uint32_t>& forks) noexcept : makers_(makers) {
    ++making;
    makers_.fetch_add(1, std::memory_order_seq_cst);
    allowed_ = forks.load(std::memory_order_seq_cst) == 0;
  }
  ~Making() {
    makers_.fetch_sub(1, std::memory_order_release);
    --making;
  }
  Making(const Making&) = delete;
  Making& operator=(const Making&) = delete;
  explicit operator bool() const noexcept { return allowed_; }

 private:
  std::atomic<std::uint32_t>& makers_;
  bool allowed_ = false;
};

}  // namespace

Result<Arena*> Arena::create(const Config& config) noexcept {
  const std::size_t size = align_up(config.shareable_size.bytes, PageBitmap::kPerWord * kPage);
  OPAL_TRY_ASSIGN(Fd fd, create_memory_file("opal-private", size));
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) return memory_file_error(errno, "fstat(memfd)", size);
  const std::size_t words = size / kPage / PageBitmap::kPerWord;
  OPAL_TRY_ASSIGN(Mapping bits, Mapping::anonymous(2 * words * sizeof(PageBitmap::Word), false));
  OPAL_TRY_ASSIGN(const Range all, find_addresses(size));
  auto* const arena = new (std::nothrow)
      Arena{std::move(fd), status.st_ino, status.st_dev, all, config.shareable_from.bytes, std::move(bits)};
  if (arena == nullptr) return Error{Errc::no_memory, 0, "memory_shareable_from", sizeof(Arena)};
  return arena;
}

Arena::Arena(Fd fd, ino_t inode, dev_t device, Range all, std::size_t from, Mapping bits) noexcept
    : fd_(std::move(fd)), inode_(inode), device_(device), all_(all), from_(from), bits_(std::move(bits)) {
  const std::size_t words = all_.size() / kPage / PageBitmap::kPerWord;
  auto* const first = reinterpret_cast<PageBitmap::Word*>(bits_.data());  // zero bytes are words without bits
  ours_ = PageBitmap{{first, words}};
  taken_ = PageBitmap{{first + words, words}};
}

Pages Arena::pages_of(Range range) const noexcept {
  const std::uintptr_t begin = std::clamp(range.begin, all_.begin, all_.end);
  const std::uintptr_t end = std::clamp(range.end, all_.begin, all_.end);
  return {(begin - all_.begin) / kPage, (end - all_.begin + kPage - 1) / kPage};
}

Range Arena::range_of(Pages pages) const noexcept {
  return {all_.begin + pages.begin * kPage, all_.begin + pages.end * kPage};
}

bool Arena::is_file(int fd) const noexcept {
  struct stat status {};
  return raw_syscall(SYS_fstat, fd, reinterpret_cast<long>(&status)) == 0 && status.st_ino == inode_ &&
         status.st_dev == device_;
}

long Arena::map_claimed(Pages pages) noexcept {
  const Range range = range_of(pages);
  const auto address = static_cast<long>(range.begin);
  const auto size = static_cast<long>(range.size());
  long result = -EBADF;
  if (file_is_ours()) {
    result = raw_syscall(SYS_mmap, address, size, kReadWrite, MAP_SHARED | MAP_NORESERVE | MAP_FIXED_NOREPLACE,
                         fd_.get(), static_cast<long>(range.begin - all_.begin));
  }
  if (result == address) {
    // A child never has its parent's memory; fork() gives it copies.
    result = raw_syscall(SYS_madvise, address, size, MADV_DONTFORK);
    if (result == 0) {
      ours_.set(pages);
      return 0;
    }
    raw_syscall(SYS_munmap, address, size);
  } else if (result >= 0) {  // an old kernel took the address for a hint only
    raw_syscall(SYS_munmap, result, size);
    result = -EEXIST;
  }
  taken_.clear(pages);
  return result;
}

Arena::NoneMade::NoneMade(Arena& arena) noexcept : arena_(arena) {
  arena_.forks_.fetch_add(1, std::memory_order_seq_cst);
  while (arena_.makers_.load(std::memory_order_seq_cst) > making) raw_syscall(SYS_sched_yield);
}

Arena::NoneMade::~NoneMade() { arena_.forks_.fetch_sub(1, std::memory_order_release); }

std::uintptr_t Arena::map(std::size_t size) noexcept {
  constexpr int kAttempts = 16;  // places where the program has something of its own
  const Making permission{makers_, forks_};
  if (!permission) return 0;
  const std::size_t count = (size + kPage - 1) / kPage;
  std::size_t hint = lowest_.load(std::memory_order_relaxed);
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    const auto pages = taken_.claim(count, hint);
    if (!pages) return 0;
    const long result = map_claimed(*pages);
    if (result == 0) {
      lowest_.store(pages->end, std::memory_order_relaxed);
      return range_of(*pages).begin;
    }
    if (result != -EEXIST) return 0;
    hint = pages->end + PageBitmap::kPerWord;
  }
  return 0;
}

bool Arena::extend(std::uintptr_t at, std::size_t size) noexcept {
  const Making permission{makers_, forks_};
  if (!permission || size > all_.end - at) return false;
  const Pages pages = pages_of({at, at + size});
  return taken_.claim_at(pages) && map_claimed(pages) == 0;
}

void Arena::discard(Range range) noexcept {
  raw_syscall(SYS_fallocate, fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
              static_cast<long>(range.begin - all_.begin), static_cast<long>(range.size()));
}

void Arena::left(Range range) noexcept {
  const Pages pages = pages_of(range);
  if (pages.empty()) return;
  const bool whose = file_is_ours();
  for (Pages run = taken_.next_run(pages); !run.empty(); run = taken_.next_run({run.end, pages.end})) {
    if (whose) discard(range_of(run));
    taken_.clear(run);
    std::size_t lowest = lowest_.load(std::memory_order_relaxed);
    while (run.begin < lowest && !lowest_.compare_exchange_weak(lowest, run.begin, std::memory_order_relaxed)) {
    }
  }
}

void Arena::stayed(Range range) noexcept {
  const Pages pages = pages_of(range);
  for (Pages run = taken_.next_run(pages); !run.empty(); run = taken_.next_run({run.end, pages.end})) ours_.set(run);
}

void Arena::empty(Range range) noexcept {
  if (!file_is_ours()) return;
  for (Range piece = next_piece(range); !piece.empty(); piece = next_piece({piece.end, range.end})) discard(piece);
}

long Arena::read(Range range, std::uintptr_t to) const noexcept {
  if (!file_is_ours()) return -EBADF;
  const auto end = static_cast<long>(range.end - all_.begin);
  auto at = static_cast<long>(range.begin - all_.begin);
  while (at < end) {
    // What was never written has no memory here, and needs none in the copy.
    const long data = raw_syscall(SYS_lseek, fd_.get(), at, SEEK_DATA);
    if (data == -ENXIO) return 0;
    if (data < 0) return data;
    if (data >= end) return 0;
    const long hole = raw_syscall(SYS_lseek, fd_.get(), data, SEEK_HOLE);
    if (hole < 0) return hole;
    for (at = data; at < std::min(hole, end);) {
      const auto place = static_cast<long>(to + (static_cast<std::uintptr_t>(at) - (range.begin - all_.begin)));
      const long got = raw_syscall(SYS_pread64, fd_.get(), place, std::min(hole, end) - at, at);
      if (got == -EINTR) continue;
      if (got <= 0) return got < 0 ? got : -EIO;
      at += got;
    }
  }
  return 0;
}

Result<Fd> Arena::duplicate() const noexcept {
  Fd fd{::fcntl(fd_.get(), F_DUPFD_CLOEXEC, 0)};
  if (!fd) return memory_file_error(errno, "dup(shareable memory)", 0);
  if (!is_file(fd.get())) return Error{Errc::os, EBADF, "shareable memory: the program has closed its descriptor"};
  return fd;
}

void Arena::close_file() noexcept { raw_syscall(SYS_close, fd_.release()); }

}  // namespace opal::memory::shareable
