// SPDX-License-Identifier: Apache-2.0
#include "opal/memory/patcher/code_changes.hpp"

#include <linux/membarrier.h>
#include <pthread.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <mutex>

#include "opal/core/bytes.hpp"
#include "opal/core/system/raw_syscall.hpp"

namespace opal::memory {
namespace {

/// Makes all threads of the process fetch their next instructions anew.  Requires: an earlier call with `command`
/// REGISTER_....
Result<void> synchronise_code(int command) noexcept {
  if (const long result = raw_syscall(SYS_membarrier, command, 0); result != 0) {
    return Error{Errc::not_supported, static_cast<int>(-result),
                 "patcher: several threads run, and membarrier(SYNC_CORE) fails; start it earlier (open a Context, or "
                 "MPI_Init, first)"};
  }
  return {};
}

/// Held while code changes.
std::mutex changing;

/// Blocks all signals of this thread: a handler might call a function that is being patched, and wait there for ever.
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

}  // namespace

Result<void> hold_forks() noexcept {
  static const int refused =
      ::pthread_atfork([] { changing.lock(); }, [] { changing.unlock(); }, [] { changing.unlock(); });
  if (refused != 0) return Error{Errc::no_memory, refused, "pthread_atfork(patcher)"};
  return {};
}

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
  const std::lock_guard no_forks{changing};
  const SignalsBlocked no_handlers;
  // From here to the last step this thread must not call a function that is being patched.
  for (const Patch& patch : patches) store_two_bytes(patch.where, kJumpToItself.data());
  (void)synchronise_code(MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE);
  for (const Patch& patch : patches) std::copy(patch.bytes.begin() + 2, patch.bytes.end(), patch.where + 2);
  (void)synchronise_code(MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE);
  for (const Patch& patch : patches) store_two_bytes(patch.where, patch.bytes.data());
  (void)synchronise_code(MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE);
  return {};
}

}  // namespace opal::memory
