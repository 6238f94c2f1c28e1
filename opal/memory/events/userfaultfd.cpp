// SPDX-License-Identifier: Apache-2.0
// The monitor `userfaultfd`: watched memory is registered with a userfaultfd, for the events of unmapping, moving and
// emptying it, not for faults.  It needs no patched code, so it may start after threads, and the kernel also reports
// calls that bypass libc.  Cost: a reader thread, and each call that releases watched memory blocks until the reader
// has read its event (two context switches).
//
// The kernel continues that call when the event is read, which is before the reader reports it; another thread may map
// the addresses anew even earlier.  So users call settle(), which waits until both are false: a call waits for the
// reader (the kernel then returns EAGAIN, mmap_changing), and `handling_`, which the reader sets before it reads.
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <mutex>

#include "opal/core/system/raw_syscall.hpp"
#include "opal/memory/events/events.hpp"
#include "opal/memory/events/monitor.hpp"
#include "opal/memory/process_maps.hpp"

namespace opal::memory {
namespace {

constexpr std::uint64_t kEvents = UFFD_FEATURE_EVENT_REMAP | UFFD_FEATURE_EVENT_REMOVE | UFFD_FEATURE_EVENT_UNMAP;
constexpr std::uint64_t kAnyMemory = 1U << 15;  // UFFD_FEATURE_WP_ASYNC, Linux 6.7: includes mappings of files
#ifndef UFFD_USER_MODE_ONLY
constexpr int UFFD_USER_MODE_ONLY = 1;
#endif

/// watch() extends ranges to multiples of this size if it can.  A watched range is a mapping of its own in the kernel,
/// and a process can have 65530 mappings.
constexpr std::uintptr_t kBlock = std::uintptr_t{2} << 20;

class Userfaultfd final : public Monitor {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "userfaultfd"; }
  Result<void> start() noexcept override;
  Result<void> watch(Range range) noexcept override;

 private:
  static void settle() noexcept;
  static void prepare_fork() noexcept { instance_->mutex_.lock(); }
  static void after_fork() noexcept { instance_->mutex_.unlock(); }
  static void start_anew_in_child() noexcept;
  static void* read_events(void*) noexcept;

  Result<void> open_locked() noexcept;
  [[nodiscard]] Result<void> watch_exactly(Range range) const noexcept;
  [[nodiscard]] bool calls_wait() const noexcept;
  void report(const uffd_msg& event) const noexcept;

  static Userfaultfd* instance_;

  std::mutex mutex_;  // held while the descriptor is opened, and during a fork
  std::atomic<int> fd_{-1};
  std::atomic<bool> handling_{false};  // true: some events that were read may not be reported yet
};

Userfaultfd* Userfaultfd::instance_ = nullptr;

Result<void> Userfaultfd::start() noexcept {
  instance_ = this;
  if (const int why = ::pthread_atfork(prepare_fork, after_fork, start_anew_in_child); why != 0) {
    return Error{Errc::no_memory, why, "pthread_atfork(userfaultfd)"};
  }
  const std::lock_guard lock{mutex_};
  return open_locked();
}

Result<void> Userfaultfd::open_locked() noexcept {
  const int fd = static_cast<int>(::syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY));
  if (fd < 0) {
    return Error{errno == ENOSYS ? Errc::not_supported : Errc::permission, errno,
                 "userfaultfd: the system call; does a sandbox forbid it?"};
  }
  uffdio_api api{.api = UFFD_API, .features = kEvents | kAnyMemory, .ioctls = 0};
  if (::ioctl(fd, UFFDIO_API, &api) != 0) {
    const int why = errno;
    ::close(fd);
    return Error{Errc::not_supported, why, "userfaultfd: events and mappings of any kind need Linux 6.7"};
  }
  fd_.store(fd, std::memory_order_release);
  // The reader blocks all signals: a handler of the program could unmap memory, and so wait for the reader itself.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t reader{};
  const int why = ::pthread_create(&reader, nullptr, read_events, this);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (why != 0) {
    fd_.store(-1, std::memory_order_release);
    ::close(fd);
    return Error{Errc::no_memory, why, "userfaultfd: pthread_create"};
  }
  ::pthread_detach(reader);  // it runs until the process ends
  detail::wait_for_reports.store(settle, std::memory_order_seq_cst);
  return {};
}

/// Closes the descriptor in the child of a fork: it watches the parent's memory, and the child has no reader.  The next
/// watch() opens a new one.
void Userfaultfd::start_anew_in_child() noexcept {
  detail::wait_for_reports.store(nullptr, std::memory_order_relaxed);
  instance_->handling_.store(false, std::memory_order_relaxed);
  ::close(instance_->fd_.exchange(-1, std::memory_order_relaxed));
  instance_->mutex_.unlock();
}

Result<void> Userfaultfd::watch(Range range) noexcept {
  if (fd_.load(std::memory_order_acquire) < 0) {
    const std::lock_guard lock{mutex_};
    if (fd_.load(std::memory_order_relaxed) < 0) OPAL_TRY(open_locked());
  }
  // Refuse System V segments: the kernel has no event for shmdt().
  ProcessMaps maps;
  for (MapsEntry entry; maps.next(entry) && entry.range.begin < range.end;) {
    if (entry.range.overlaps(range) && entry.name.starts_with("/SYSV")) {
      return Error{Errc::not_supported, 0, "userfaultfd: segments of System V shared memory", range.begin};
    }
  }
  const Range pages = Range::pages(range.begin, range.size());
  const Range blocks{pages.begin & ~(kBlock - 1), (pages.end + kBlock - 1) & ~(kBlock - 1)};
  if (watch_exactly(blocks)) return {};
  return watch_exactly(pages);  // some other memory of the blocks cannot be watched
}

Result<void> Userfaultfd::watch_exactly(Range range) const noexcept {
  // MODE_WP because all kinds of memory support it.  Nothing is ever write-protected.
  uffdio_register request{
      .range = {.start = range.begin, .len = range.size()}, .mode = UFFDIO_REGISTER_MODE_WP, .ioctls = 0};
  const long answer = raw_syscall(SYS_ioctl, fd_.load(std::memory_order_relaxed), static_cast<long>(UFFDIO_REGISTER),
                                  reinterpret_cast<long>(&request));
  if (answer == 0) return {};
  return Error{Errc::not_supported, static_cast<int>(-answer), "userfaultfd: this memory cannot be watched",
               range.begin};
}

/// True while a call that released memory waits until its event is read.  The kernel then returns EAGAIN before it
/// checks the request, which is invalid on purpose.
bool Userfaultfd::calls_wait() const noexcept {
  uffdio_writeprotect nonsense{};
  nonsense.mode = ~std::uint64_t{0};
  return raw_syscall(SYS_ioctl, fd_.load(std::memory_order_relaxed), static_cast<long>(UFFDIO_WRITEPROTECT),
                     reinterpret_cast<long>(&nonsense)) == -EAGAIN;
}

void Userfaultfd::settle() noexcept {
  const Userfaultfd& self = *instance_;
  while (self.calls_wait() || self.handling_.load(std::memory_order_acquire)) raw_syscall(SYS_sched_yield);
}

void Userfaultfd::report(const uffd_msg& event) const noexcept {
  switch (event.event) {
    case UFFD_EVENT_REMAP: released(Range::pages(event.arg.remap.from, event.arg.remap.len)); break;
    case UFFD_EVENT_REMOVE:
    case UFFD_EVENT_UNMAP: released({event.arg.remove.start, event.arg.remove.end}); break;
    default: break;
  }
}

/// The reader thread.  It allocates and unmaps nothing, because it would wait for itself.
void* Userfaultfd::read_events(void* monitor) noexcept {
  auto& self = *static_cast<Userfaultfd*>(monitor);
  const int fd = self.fd_.load(std::memory_order_relaxed);
  std::array<uffd_msg, 16> events;
  for (;;) {
    pollfd ready{.fd = fd, .events = POLLIN, .revents = 0};
    raw_syscall(SYS_poll, reinterpret_cast<long>(&ready), 1, -1);
    self.handling_.store(true, std::memory_order_seq_cst);  // before a read lets the waiting calls continue
    for (;;) {
      const long got = raw_syscall(SYS_read, fd, reinterpret_cast<long>(events.data()), sizeof events);
      if (got <= 0) break;
      for (std::size_t i = 0; i < static_cast<std::size_t>(got) / sizeof(uffd_msg); ++i) self.report(events[i]);
    }
    self.handling_.store(false, std::memory_order_release);
  }
}

}  // namespace

std::unique_ptr<Monitor> make_userfaultfd() { return std::make_unique<Userfaultfd>(); }

}  // namespace opal::memory
