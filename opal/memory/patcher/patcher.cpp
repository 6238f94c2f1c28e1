// SPDX-License-Identifier: Apache-2.0
// The monitor `patcher`: it replaces the system call instructions inside libc by jumps to trampolines.  It does not
// replace symbols, because libc calls its own functions without them (free() -> munmap), nor function entries, because
// other libraries patch those.  So it detects every call through libc, whatever hooks precede it.  It replaces one
// instruction by one of the same size, so a thread is never between the bytes that change; see
// replace_while_threads_run().
#include <dlfcn.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <mutex>
#include <span>
#include <vector>

#include "opal/core/bytes.hpp"
#include "opal/core/system/raw_syscall.hpp"
#include "opal/memory/events/monitor.hpp"
#include "opal/memory/patcher/syscall_sites.hpp"
#include "opal/memory/patcher/trampolines.hpp"

namespace opal::memory {
namespace {

bool single_threaded() noexcept {
  struct stat status {};  // one link per thread besides "." and ".."
  return ::stat("/proc/self/task", &status) == 0 && status.st_nlink == 3;
}

/// Prevents that this library is unloaded: trampolines call it until the process ends.
Result<void> stay_loaded() noexcept {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&opal_memory_syscall_entry), &info) == 0 ||
      ::dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE) == nullptr) {
    return Error{Errc::not_supported, 0, "patcher: dlopen(RTLD_NODELETE) of the library itself"};
  }
  return {};
}

/// Makes all threads of the process fetch their next instructions anew.  Call it with `command` REGISTER_... once
/// before.
Result<void> synchronise_code(int command) noexcept {
  if (const long result = raw_syscall(SYS_membarrier, command, 0); result != 0) {
    return Error{Errc::not_supported, static_cast<int>(-result),
                 "patcher: several threads run, and membarrier(SYNC_CORE) fails; start it earlier (open a Context, or "
                 "MPI_Init, first)"};
  }
  return {};
}

/// Locks out fork() while code changes: a child must not get a copy in which a site is a jump to itself.
std::mutex code_changes;

Result<void> lock_out_forks() noexcept {
  static const int refused =
      ::pthread_atfork([] { code_changes.lock(); }, [] { code_changes.unlock(); }, [] { code_changes.unlock(); });
  if (refused != 0) return Error{Errc::no_memory, refused, "pthread_atfork(patcher)"};
  return {};
}

/// No signal handler runs in this thread: it might call a function that waits at a site.
class SignalsBlocked {
 public:
  SignalsBlocked() noexcept {
    sigset_t all{};
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

constexpr std::array<std::byte, 2> kJumpToItself{std::byte{0xeb}, std::byte{0xfe}};

/// One store, so that a thread that executes `where` finds the old or the new bytes; they are in one cache line.
void store_two_bytes(std::byte* where, const std::byte* bytes) noexcept {
  std::uint16_t value = 0;
  std::memcpy(&value, bytes, sizeof value);
  asm volatile("movw %1, %0" : "=m"(*reinterpret_cast<std::uint16_t(*)>(where)) : "r"(value) : "memory");
}

/// Other threads may execute the sites at any time.
/// 1. The first two bytes of each site become a jump to itself, where a thread that arrives now waits.
/// 2. The other three bytes, which no thread executes now, become those of the new jump.
/// 3. The first two bytes become those of the new jump.
/// After each step all threads fetch instructions anew.  This thread calls no patched function meanwhile.
/// Errors: not_supported (nothing has changed).
Result<void> replace_while_threads_run(std::span<const Patch> patches) noexcept {
  const bool possible = std::none_of(patches.begin(), patches.end(), [](const Patch& patch) {
    return reinterpret_cast<std::uintptr_t>(patch.where) % kCacheLine == kCacheLine - 1;
  });
  if (!possible) {
    return Error{Errc::not_supported, 0,
                 "patcher: several threads run, and a system call's first bytes are in two cache lines; start it "
                 "earlier (open a Context, or MPI_Init, first)"};
  }
  OPAL_TRY(synchronise_code(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE));
  OPAL_TRY(synchronise_code(MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE));
  const std::lock_guard no_forks{code_changes};
  const SignalsBlocked no_handlers;
  for (const Patch& patch : patches) store_two_bytes(patch.where, kJumpToItself.data());
  (void)synchronise_code(MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE);
  for (const Patch& patch : patches) std::copy(patch.bytes.begin() + 2, patch.bytes.end(), patch.where + 2);
  (void)synchronise_code(MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE);
  for (const Patch& patch : patches) store_two_bytes(patch.where, patch.bytes.data());
  (void)synchronise_code(MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE);
  return {};
}

/// Writes the jumps into one segment of code, and makes it writable for this time only.
Result<void> write_jumps(std::span<std::byte> code, std::span<const Patch> patches) noexcept {
  const auto begin = reinterpret_cast<std::uintptr_t>(code.data()) & ~std::uintptr_t{4095};
  const auto end = align_up(reinterpret_cast<std::uintptr_t>(code.data() + code.size()), 4096);
  void* const pages = reinterpret_cast<void*>(begin);
  if (::mprotect(pages, end - begin, PROT_READ | PROT_WRITE | PROT_EXEC) != 0) {
    return Error{Errc::permission, errno, "patcher: mprotect(writable code of libc); does this system forbid it?"};
  }
  Result<void> written;
  if (single_threaded()) {
    for (const Patch& patch : patches) std::copy(patch.bytes.begin(), patch.bytes.end(), patch.where);
  } else {
    written = replace_while_threads_run(patches);
  }
  if (::mprotect(pages, end - begin, PROT_READ | PROT_EXEC) != 0) {
    return Error{Errc::permission, errno, "patcher: mprotect(code of libc back to read-only)"};
  }
  return written;
}

Result<void> patch(const CodeObject& object) {
  for (const std::span<std::byte> code : object.code) {
    std::vector<SyscallSite> sites;
    find_syscall_sites(code, sites);
    if (sites.empty()) continue;
    OPAL_TRY_ASSIGN(const std::vector<Patch> patches, make_trampolines(object, sites));
    OPAL_TRY(write_jumps(code, patches));
  }
  return {};
}

class Patcher final : public Monitor {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "patcher"; }

  Result<void> start() noexcept override {
    if (::dlsym(RTLD_DEFAULT, "__tsan_init") != nullptr) {
      // Its threads still unmap memory after ThreadSanitizer has freed their state, and then cannot take a lock.
      return Error{Errc::not_supported, 0, "patcher: not under ThreadSanitizer; use userfaultfd or explicit"};
    }
    OPAL_TRY(stay_loaded());
    OPAL_TRY(lock_out_forks());
    prepare_syscall_entry();
    for (const CodeObject& object : objects_to_watch()) OPAL_TRY(patch(object));
    return {};
  }
};

}  // namespace

std::unique_ptr<Monitor> make_patcher() { return std::make_unique<Patcher>(); }

}  // namespace opal::memory
