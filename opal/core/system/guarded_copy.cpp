// SPDX-License-Identifier: Apache-2.0
#include "opal/core/system/guarded_copy.hpp"

#include <setjmp.h>
#include <signal.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <mutex>

#include "opal/core/copy.hpp"

namespace opal {
namespace {

/// One guarded access: a fault in [from, +size) or [to, +size) jumps to `back`.
struct Guard {
  sigjmp_buf back;
  std::uintptr_t from;
  std::uintptr_t to;
  std::size_t size;
  Guard* outer;  // the access that this one interrupts or is nested in

  // It does not initialise `back`, which would cost more than a small copy.
  Guard(const void* from_memory, const void* to_memory, std::size_t bytes, Guard* around) noexcept
      : from(reinterpret_cast<std::uintptr_t>(from_memory)),
        to(reinterpret_cast<std::uintptr_t>(to_memory)),
        size(bytes),
        outer(around) {}

  [[nodiscard]] bool covers(std::uintptr_t address) const noexcept {
    return address - from < size || address - to < size;
  }
};
// The innermost access of this thread; null if there is none.  Initial-exec: the handler must not allocate TLS.
thread_local Guard* guard __attribute__((tls_model("initial-exec"))) = nullptr;

struct sigaction before_bus {};
struct sigaction before_segv {};

/// A process has sent the signal, so si_addr is meaningless.
bool is_sent(const siginfo_t& info) noexcept { return info.si_code <= 0; }

void forward(int number, siginfo_t* info, void* context) noexcept {
  const struct sigaction& before = number == SIGBUS ? before_bus : before_segv;
  if ((before.sa_flags & SA_SIGINFO) != 0) return before.sa_sigaction(number, info, context);
  if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) return before.sa_handler(number);
  const bool sent = is_sent(*info);
  if (sent && before.sa_handler == SIG_IGN) return;
  // Installs the old action, default or ignore; the instruction runs again and its fault ends the process.
  ::sigaction(number, &before, nullptr);
  if (sent) ::raise(number);  // no instruction faults again; the signal comes when this handler returns
}

void on_fault(int number, siginfo_t* info, void* context) noexcept {
  Guard* const mine = guard;
  if (mine == nullptr || is_sent(*info) || !mine->covers(reinterpret_cast<std::uintptr_t>(info->si_addr))) {
    return forward(number, info, context);
  }
  guard = mine->outer;
  // The jump does not return from the handler, so restore the signal mask here.  ThreadSanitizer blocks more signals in
  // a handler than sa_mask says.
  ::pthread_sigmask(SIG_SETMASK, &static_cast<ucontext_t*>(context)->uc_sigmask, nullptr);
  ::siglongjmp(mine->back, 1);
}

bool is_ours(int number) noexcept {
  struct sigaction now {};
  return ::sigaction(number, nullptr, &now) == 0 && (now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == &on_fault;
}

bool thread_blocks_faults() noexcept {
  sigset_t mask;
  ::sigemptyset(&mask);
  ::pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  return ::sigismember(&mask, SIGSEGV) == 1 || ::sigismember(&mask, SIGBUS) == 1;
}

// A thread tests whether a fault would reach on_fault() once per this many bytes that it copies.
constexpr std::size_t kBytesBetweenTests = 4 << 20;
constexpr std::size_t kBytesPerCopy = 1 << 10;  // added to the size of each copy

/// The last such test of a thread.
struct HandlerTest {
  std::size_t copied = kBytesBetweenTests;  // bytes since the test
  bool handlers_work = false;               // its result
};
thread_local HandlerTest handler_test __attribute__((tls_model("initial-exec")));

bool handlers_work(std::size_t size) noexcept {
  handler_test.copied += size + kBytesPerCopy;
  if (handler_test.copied > kBytesBetweenTests) [[unlikely]] {
    handler_test.copied = 0;
    handler_test.handlers_work = is_ours(SIGSEGV) && is_ours(SIGBUS) && !thread_blocks_faults();
  }
  return handler_test.handlers_work;
}

enum class KernelCopy : std::uint8_t { done, fault, refused };
KernelCopy copy_by_kernel(std::byte* to, const std::byte* from, std::size_t size) noexcept {
  const int saved = errno;
  KernelCopy outcome = KernelCopy::done;
  while (size != 0) {
    const iovec source{const_cast<std::byte*>(from), size};
    const iovec target{to, size};
    const ssize_t copied = ::process_vm_writev(::getpid(), &source, 1, &target, 1, 0);
    if (copied <= 0) {
      outcome = copied == 0 || errno == EFAULT ? KernelCopy::fault : KernelCopy::refused;
      break;
    }
    to += copied;
    from += copied;
    size -= static_cast<std::size_t>(copied);
  }
  errno = saved;
  return outcome;
}

std::atomic<bool> installed{false};

[[gnu::noinline, gnu::cold]] void install_now() noexcept {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action {};
    action.sa_sigaction = &on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    ::sigemptyset(&action.sa_mask);
    ::sigaction(SIGBUS, &action, &before_bus);
    ::sigaction(SIGSEGV, &action, &before_segv);
    installed.store(true, std::memory_order_release);
  });
}

void install_once() noexcept {
  if (!installed.load(std::memory_order_acquire)) [[unlikely]]
    install_now();
}

}  // namespace

bool detail::run_guarded(const void* memory, std::size_t size, void (*access)(void*), void* argument) noexcept {
  install_once();
  Guard mine{memory, memory, size, guard};
  if (sigsetjmp(mine.back, 0) != 0) return false;
  guard = &mine;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  access(argument);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  guard = mine.outer;
  return true;
}

bool guarded_copy(std::byte* to, const std::byte* from, std::size_t size) noexcept {
  if (size == 0) return true;
  install_once();
  if (!handlers_work(size)) [[unlikely]] {
    // KernelCopy::refused: a sandbox forbids process_vm_writev(), so only the handlers are left.
    if (const KernelCopy outcome = copy_by_kernel(to, from, size); outcome != KernelCopy::refused) {
      return outcome == KernelCopy::done;
    }
  }
  Guard mine{from, to, size, guard};
  if (sigsetjmp(mine.back, 0) != 0) return false;
  guard = &mine;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  copy_host_memory(to, from, size);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  guard = mine.outer;
  return true;
}

}  // namespace opal
