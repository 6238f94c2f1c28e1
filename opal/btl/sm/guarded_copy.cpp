// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/sm/guarded_copy.hpp"

#include <setjmp.h>
#include <signal.h>
#include <ucontext.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <mutex>

namespace opal::btl::sm {
namespace {

/// The copy that this thread is in, if it is in one.
struct Guard {
  sigjmp_buf back;
  std::uintptr_t from;
  std::uintptr_t to;
  std::size_t size;

  [[nodiscard]] bool covers(std::uintptr_t address) const noexcept {
    return address - from < size || address - to < size;
  }
};
// Constant initialisation: the handler must not be the first to touch it.
thread_local Guard* guard __attribute__((tls_model("initial-exec"))) = nullptr;

struct sigaction before_bus {};
struct sigaction before_segv {};

void forward(int number, siginfo_t* info, void* context) noexcept {
  const struct sigaction& before = number == SIGBUS ? before_bus : before_segv;
  if ((before.sa_flags & SA_SIGINFO) != 0) return before.sa_sigaction(number, info, context);
  if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) return before.sa_handler(number);
  // A fault cannot be ignored: with the default action in place the instruction runs again and ends the process.
  ::sigaction(number, &before, nullptr);
}

void on_fault(int number, siginfo_t* info, void* context) noexcept {
  Guard* const mine = guard;
  if (mine == nullptr || !mine->covers(reinterpret_cast<std::uintptr_t>(info->si_addr))) {
    return forward(number, info, context);
  }
  guard = nullptr;
  // The jump leaves the handler for good: what is blocked in it must not stay so (also where something wraps handlers
  // and blocks more, as ThreadSanitizer does).
  ::pthread_sigmask(SIG_SETMASK, &static_cast<ucontext_t*>(context)->uc_sigmask, nullptr);
  ::siglongjmp(mine->back, 1);
}

void install() noexcept {
  struct sigaction action {};
  action.sa_sigaction = &on_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGBUS, &action, &before_bus);
  ::sigaction(SIGSEGV, &action, &before_segv);
}

}  // namespace

bool guarded_copy(std::byte* to, const std::byte* from, std::size_t size) noexcept {
  static std::once_flag once;
  std::call_once(once, &install);
  Guard mine{{}, reinterpret_cast<std::uintptr_t>(from), reinterpret_cast<std::uintptr_t>(to), size};
  if (sigsetjmp(mine.back, 0) != 0) return false;
  guard = &mine;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  std::memcpy(to, from, size);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  guard = nullptr;
  return true;
}

}  // namespace opal::btl::sm
