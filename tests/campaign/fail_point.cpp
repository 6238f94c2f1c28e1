// SPDX-License-Identifier: Apache-2.0
// A library that is preloaded into one process of a job and acts when that process reaches a step of a protocol: it
// writes a breakpoint over the first byte of the step's function.  The product carries no code for this.  x86-64 only.
//
//   FAIL_POINT   "OBJECT OFFSET VISIT ACTION FILE": the file name of the library or program that holds the
//                     function, its offset there (hexadecimal), the visit that counts (from 1), what happens then,
//                     and the file to which "pid\n" is appended first.
//   FAIL_RANK    only in the process with this PMIX_RANK
//   FAIL_PROGRAM only in the process with this name
//   FAIL_HOST    only in processes on the host of this name
//   FAIL_FIRST   only in the rank that reaches the step first
//
// Actions: kill (SIGKILL), stop (SIGSTOP), fork (another thread forks; the child keeps every descriptor until it is
// killed), cut (every TCP connection of the process but those between a PMIx server and its clients is shut down, and
// every queue pair is moved to the error state).
#include <fcntl.h>
#include <link.h>
#include <netinet/in.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#ifdef FAIL_POINT_VERBS
#include "tests/campaign/queue_pairs.hpp"
#endif

namespace {

constexpr unsigned char kBreakpoint = 0xcc;
constexpr greg_t kTrapFlag = 0x100;

struct Plan {
  char object[128];
  std::uintptr_t offset;
  unsigned visit;
  char action[16];
  char file[512];
};
Plan plan;
unsigned char* step;     // where the breakpoint is
unsigned char original;  // the byte that it replaces
unsigned visits;         // under `visiting`
std::atomic_flag visiting = ATOMIC_FLAG_INIT;
bool done;
bool only_first;
in_port_t server_port;  // of the PMIx server, which is not a transport's peer; 0: this process is no client of one
pid_t armed;            // the process that acts: not one that it forks
sem_t fork_now, forking;

void put(unsigned char byte) noexcept { __atomic_store_n(step, byte, __ATOMIC_SEQ_CST); }

/// False: another process was first, and this one does nothing.
bool report() noexcept {
  const int fd = ::open(plan.file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (only_first ? O_EXCL : 0), 0600);
  if (fd < 0 && only_first && errno == EEXIST) return false;
  char text[24];
  int begin = sizeof text;
  text[--begin] = '\n';
  for (unsigned pid = static_cast<unsigned>(::getpid()); pid != 0; pid /= 10) {
    text[--begin] = static_cast<char>('0' + pid % 10);
  }
  if (fd < 0 || ::write(fd, text + begin, sizeof text - static_cast<std::size_t>(begin)) < 0) ::_exit(99);
  ::close(fd);
  return true;
}

/// Whether it is in 127.0.0.0/8, where a PMIx server's clients are.
bool is_loopback(const sockaddr_in6& peer) noexcept {
  const auto& v4 = reinterpret_cast<const sockaddr_in&>(peer);
  return peer.sin6_family == AF_INET && (ntohl(v4.sin_addr.s_addr) >> 24) == 127;
}

void cut_connections() noexcept {
  for (int fd = 0; fd < 1024; ++fd) {
    sockaddr_in6 peer{};
    socklen_t size = sizeof peer;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0) continue;
    if (peer.sin6_family != AF_INET && peer.sin6_family != AF_INET6) continue;
    if (server_port != 0 ? peer.sin6_port == server_port : is_loopback(peer)) continue;  // sin_port is at that place
    ::shutdown(fd, SHUT_RDWR);
  }
}

void act() noexcept {
  if (!report()) return;
  if (plan.action[0] == 'k') {
    ::syscall(SYS_kill, ::getpid(), SIGKILL);
  } else if (plan.action[0] == 's') {
    ::syscall(SYS_tgkill, ::getpid(), ::gettid(), SIGSTOP);
  } else if (plan.action[0] == 'f') {
    ::sem_post(&fork_now);
    while (::sem_wait(&forking) != 0 && errno == EINTR) continue;
  } else {
    cut_connections();
#ifdef FAIL_POINT_VERBS
    cut_queue_pairs();
#endif
  }
}

/// Visits before the one that counts execute the original byte alone, and the breakpoint returns after it.
void on_trap(int /*signal*/, siginfo_t* /*info*/, void* context) {
  auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
  const int saved = errno;
  if ((registers[REG_EFL] & kTrapFlag) != 0) {  // first: a step of one byte ends where a breakpoint would, too
    registers[REG_EFL] &= ~kTrapFlag;
    if (!done) put(kBreakpoint);
  } else if (registers[REG_RIP] == static_cast<greg_t>(reinterpret_cast<std::uintptr_t>(step) + 1)) {
    registers[REG_RIP] -= 1;
    bool due = false;
    while (visiting.test_and_set(std::memory_order_acquire)) continue;
    put(original);
    if (!done && ++visits == plan.visit) due = done = true;
    if (!done) registers[REG_EFL] |= kTrapFlag;
    visiting.clear(std::memory_order_release);
    if (due && ::getpid() == armed) act();
  }
  errno = saved;
}

void* fork_when_told(void* /*unused*/) {
  while (::sem_wait(&fork_now) != 0) continue;
  ::sem_post(&forking);
  if (::fork() == 0) {
    for (;;) ::pause();
  }
  return nullptr;
}

int find_object(dl_phdr_info* info, std::size_t /*size*/, void* found) {
  char path[4096] = "";
  if (info->dlpi_name[0] == '\0') {
    const ssize_t size = ::readlink("/proc/self/exe", path, sizeof path - 1);
    path[size < 0 ? 0 : size] = '\0';
  } else {
    std::snprintf(path, sizeof path, "%s", info->dlpi_name);
  }
  const char* const slash = std::strrchr(path, '/');
  if (std::strcmp(slash == nullptr ? path : slash + 1, plan.object) != 0) return 0;
  *static_cast<unsigned char**>(found) = reinterpret_cast<unsigned char*>(info->dlpi_addr) + plan.offset;
  return 1;
}

bool is_ours() {
  const char* const mine = std::getenv("PMIX_RANK");
  if (const char* const rank = std::getenv("FAIL_RANK"); rank != nullptr) {
    if (mine == nullptr || std::strcmp(rank, mine) != 0) return false;
  }
  if (std::getenv("FAIL_FIRST") != nullptr && mine == nullptr) return false;
  if (const char* const host = std::getenv("FAIL_HOST"); host != nullptr) {
    char here[65] = "";
    if (::gethostname(here, sizeof here - 1) != 0 || std::strcmp(host, here) != 0) return false;
  }
  const char* const program = std::getenv("FAIL_PROGRAM");
  return program == nullptr || std::strcmp(program, program_invocation_short_name) == 0;
}

[[gnu::constructor]] void arm() {
  const char* const text = std::getenv("FAIL_POINT");
  if (text == nullptr || !is_ours()) return;
  if (std::sscanf(text, "%127s %lx %u %15s %511s", plan.object, &plan.offset, &plan.visit, plan.action, plan.file) !=
      5) {
    std::fprintf(stderr, "fail point: cannot read \"%s\"\n", text);
    std::_Exit(99);
  }
  only_first = std::getenv("FAIL_FIRST") != nullptr;
  armed = ::getpid();
  ::dl_iterate_phdr(&find_object, &step);
  if (step == nullptr) return;  // a process of the job that does not load that library
  if (const char* const uri = std::getenv("PMIX_SERVER_URI41"); uri != nullptr) {
    const char* const colon = std::strrchr(uri, ':');
    if (colon != nullptr) server_port = htons(static_cast<in_port_t>(std::atoi(colon + 1)));
  }
  if (plan.action[0] == 'f') {
    ::sem_init(&fork_now, 0, 0);
    ::sem_init(&forking, 0, 0);
    pthread_t thread;
    if (::pthread_create(&thread, nullptr, &fork_when_told, nullptr) != 0) std::_Exit(99);
  }
  struct sigaction action {};
  action.sa_sigaction = &on_trap;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  ::sigaction(SIGTRAP, &action, nullptr);
  const auto page = reinterpret_cast<std::uintptr_t>(step) & ~std::uintptr_t{4095};
  if (::mprotect(reinterpret_cast<void*>(page), 4096, PROT_READ | PROT_WRITE | PROT_EXEC) != 0) std::_Exit(99);
  original = *step;
  put(kBreakpoint);
}

}  // namespace

/// A thread that blocks all signals blocks this one not: the kernel kills a process whose breakpoint it cannot deliver.
extern "C" [[gnu::visibility("default")]] int pthread_sigmask(int how, const sigset_t* set, sigset_t* before) noexcept {
  sigset_t changed;
  if (set != nullptr && step != nullptr && how != SIG_UNBLOCK) {
    changed = *set;
    ::sigdelset(&changed, SIGTRAP);
    set = &changed;
  }
  return ::syscall(SYS_rt_sigprocmask, how, set, before, 8) == 0 ? 0 : errno;
}
