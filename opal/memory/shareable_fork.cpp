// SPDX-License-Identifier: Apache-2.0
// A fork of a process with shareable memory.  The mappings themselves are not inherited (MADV_DONTFORK): the child
// would go on sharing them with its parent.  So the thread that forks copies them to private memory first, where lack
// of memory is still an answer of fork(); the child moves the copies to their places before it does anything else. Done
// around the system call itself, so whatever handlers of fork() do, on either side, finds memory as it should be.
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include <cerrno>
#include <csignal>
#include <cstdint>

#include "opal/memory/raw_syscall.hpp"
#include "opal/memory/shareable.hpp"
#include "opal/memory/shareable_copy.hpp"
#include "opal/memory/shareable_state.hpp"

namespace opal::memory::shareable {
namespace {

/// No handler of a signal may see the child while its memory is not there yet.
class SignalsHeld {
 public:
  SignalsHeld() noexcept {
    const std::uint64_t all = ~std::uint64_t{0};
    raw_syscall(SYS_rt_sigprocmask, SIG_SETMASK, reinterpret_cast<long>(&all), reinterpret_cast<long>(&before_),
                kBytes);
  }
  ~SignalsHeld() { raw_syscall(SYS_rt_sigprocmask, SIG_SETMASK, reinterpret_cast<long>(&before_), 0, kBytes); }
  SignalsHeld(const SignalsHeld&) = delete;
  SignalsHeld& operator=(const SignalsHeld&) = delete;

 private:
  static constexpr long kBytes = sizeof(std::uint64_t);
  std::uint64_t before_ = 0;
};

/// Runs make_private() on a stack of its own, because `range` holds the caller's.
class OtherStack {
 public:
  long make_private(Arena& arena, Range range) noexcept {
    const long stack =
        raw_syscall(SYS_mmap, 0, kBytes, kReadWrite, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (failed(stack)) return stack;
    arena_ = &arena;
    range_ = range;
    ::getcontext(&there_);
    there_.uc_stack.ss_sp = reinterpret_cast<void*>(stack);
    there_.uc_stack.ss_size = kBytes;
    there_.uc_link = &here_;
    const auto self = reinterpret_cast<std::uintptr_t>(this);
    ::makecontext(&there_, reinterpret_cast<void (*)()>(&run), 2, static_cast<unsigned>(self >> 32),
                  static_cast<unsigned>(self));
    ::swapcontext(&here_, &there_);
    raw_syscall(SYS_munmap, stack, kBytes);
    return result_;
  }

 private:
  static constexpr long kBytes = 64 << 10;
  static void run(unsigned high, unsigned low) noexcept {
    auto& self = *reinterpret_cast<OtherStack*>(std::uintptr_t{high} << 32 | low);
    self.result_ = shareable::make_private(*self.arena_, self.range_);  // by now *this is in the copy
  }

  Arena* arena_ = nullptr;
  Range range_;
  long result_ = 0;
  ucontext_t here_{};
  ucontext_t there_{};
};

/// A thread may run on a stack that it has from malloc (coroutines do).  A child that comes back from the kernel would
/// have none, so the mapping becomes private, for good.
long make_own_stack_private(Arena& arena) noexcept {
  const Range here = Range::pages(reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)), 1);
  if (!arena.touches(here)) return 0;
  ArenaMaps maps{arena};
  for (MapsEntry entry; maps.next(entry);) {
    if (entry.range.contains(here)) return OtherStack{}.make_private(arena, entry.range);
  }
  return -ENOMEM;
}

struct Copy {
  Range place;
  std::uintptr_t at;
};

/// The copies of everything, or none.
class Copies {
 public:
  explicit Copies(const Arena& arena) noexcept;
  ~Copies();
  Copies(const Copies&) = delete;
  Copies& operator=(const Copies&) = delete;

  [[nodiscard]] long error() const noexcept { return error_; }
  /// In the child: moves them to where they belong.
  void put_in_place(const Arena& arena) noexcept;

 private:
  long add(const Arena& arena, const MapsEntry& entry) noexcept;

  static constexpr std::size_t kMost = std::size_t{1} << 17;  // the kernel allows a process 65530 mappings
  Copy* list_ = nullptr;
  std::size_t count_ = 0;
  long error_ = 0;
};

Copies::Copies(const Arena& arena) noexcept {
  const long list =
      raw_syscall(SYS_mmap, 0, kMost * sizeof(Copy), kReadWrite, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (failed(list)) {
    error_ = list;
    return;
  }
  list_ = reinterpret_cast<Copy*>(list);
  ArenaMaps maps{arena};
  for (MapsEntry entry; error_ == 0 && maps.next(entry);) error_ = add(arena, entry);
  if (maps.failed()) error_ = -ENOMEM;
}

long Copies::add(const Arena& arena, const MapsEntry& entry) noexcept {
  if (count_ == kMost) return -ENOMEM;
  const long copy = private_copy(arena, entry.range, entry.range.size(), entry.protection);
  if (failed(copy)) return copy;
  list_[count_++] = {entry.range, static_cast<std::uintptr_t>(copy)};
  return 0;
}

Copies::~Copies() {
  for (std::size_t i = 0; i < count_; ++i) {
    unmap({list_[i].at, list_[i].at + list_[i].place.size()});
  }
  if (list_ != nullptr) raw_syscall(SYS_munmap, reinterpret_cast<long>(list_), kMost * sizeof(Copy));
}

void Copies::put_in_place(const Arena& arena) noexcept {
  for (std::size_t i = 0; i < count_; ++i) {
    const Copy& copy = list_[i];
    // Another thread may have unmapped some of it since, and something else may be there.
    for (Range piece = arena.next_piece(copy.place); !piece.empty();
         piece = arena.next_piece({piece.end, copy.place.end})) {
      const auto from = static_cast<long>(copy.at + (piece.begin - copy.place.begin));
      const auto size = static_cast<long>(piece.size());
      const long moved =
          raw_syscall(SYS_mremap, from, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, static_cast<long>(piece.begin));
      if (failed(moved)) {
        static constexpr char kWords[] = "opal: a forked child cannot place its copy of shareable memory, it ends\n";
        raw_syscall(SYS_write, STDERR_FILENO, reinterpret_cast<long>(kWords), sizeof kWords - 1);
        raw_syscall(SYS_exit_group, 127);
      }
    }
  }
}

}  // namespace

long fork(const SystemCall& call) noexcept {
  Arena& arena = *state();
  const auto& a = call.arguments;
  const SignalsHeld held;
  const Arena::NoneMade standstill{arena};
  if (const long result = make_own_stack_private(arena); result != 0) return result;
  Copies copies{arena};
  if (copies.error() != 0) return copies.error();
  const long result = raw_syscall(call.number, a[0], a[1], a[2], a[3], a[4], a[5]);
  if (result == 0) {
    copies.put_in_place(arena);
    const bool shares_descriptors = call.number == SYS_clone && (a[0] & CLONE_FILES) != 0;
    if (!shares_descriptors) arena.close_file();
    forget();
  }
  return result;
}

}  // namespace opal::memory::shareable
