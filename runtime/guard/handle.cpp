// SPDX-License-Identifier: Apache-2.0
#include "runtime/guard/handle.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "runtime/guard/guard.hpp"
#include "runtime/packing.hpp"

namespace runtime::guard {
namespace {

constexpr char kName[] = "opal-guard";

/// So that ps shows what it is and it is not mistaken for the launcher.
void rename_process(CommandLine command_line) {
  ::prctl(PR_SET_NAME, kName);
  for (char* const argument : command_line) std::memset(argument, 0, std::strlen(argument));
  if (!command_line.empty()) {
    // argv[0] was cleared above up to its old end; the strings of argv lie one after the other.
    char* const begin = command_line.front();
    const char* const end = command_line.size() > 1 ? command_line[1] : nullptr;
    if (end != nullptr && end > begin) std::strncpy(begin, kName, static_cast<std::size_t>(end - begin) - 1);
  }
}

/// Closes all descriptors except `socket`.  Otherwise the launcher's pipes would stay open when the launcher has died,
/// and their readers would see no end.
void keep_only(int socket) {
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int fd : {0, 1, 2}) ::dup2(null, fd);
  if (socket > 3) ::close_range(3, static_cast<unsigned>(socket) - 1, 0);
  ::close_range(static_cast<unsigned>(socket) + 1, ~0U, 0);
}

/// Resets SIGCHLD.  While it is ignored (inherited from the parent), the kernel discards the status of children.
void hear_of_children() noexcept { ::signal(SIGCHLD, SIG_DFL); }

[[noreturn]] void become_guard(const std::string& session_directory, int socket, CommandLine command_line,
                               std::chrono::milliseconds timeout) {
  const SignalSet ignored = ignored_signals();
  hear_of_children();
  ::setsid();  // the terminal's signals go to the launcher, which forwards them
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  rename_process(command_line);
  const int kept = ::fcntl(socket, F_DUPFD_CLOEXEC, 3);
  keep_only(kept);
  serve({kept, session_directory, static_cast<int>(timeout.count()), ignored});
  ::_exit(0);
}

}  // namespace

Result<Handle> Handle::start(const std::string& session_directory, CommandLine command_line,
                             std::chrono::milliseconds timeout) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return Error{Errc::os, errno, "socketpair(guard)"};
  }
  Fd ours{ends[0]};
  Fd theirs{ends[1]};
  const pid_t pid = ::fork();
  if (pid < 0) return Error{Errc::os, errno, "fork(guard)"};
  if (pid == 0) become_guard(session_directory, theirs.get(), command_line, timeout);
  hear_of_children();
  return Handle{pid, std::move(ours)};
}

Result<void> Handle::spawn(std::int32_t rank, const SpawnPlan& plan, const Stdio& stdio) {
  const Fd memory{::memfd_create("opal-plan", MFD_CLOEXEC)};
  if (!memory) return Error{Errc::os, errno, "memfd_create(plan)"};
  const std::string bytes = pack(plan);
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t written = ::write(memory.get(), bytes.data() + done, bytes.size() - done);
    if (written < 0 && errno != EINTR) return Error{Errc::os, errno, "write(plan)"};
    if (written > 0) done += static_cast<std::size_t>(written);
  }
  return ask({Request::Kind::spawn, rank, 0}, {memory.get(), stdio.in, stdio.out, stdio.err});
}

Result<void> Handle::signal(std::int32_t rank, int signo) { return ask({Request::Kind::signal, rank, signo}); }

Result<void> Handle::kill_all() { return ask({Request::Kind::kill_all, kEveryRank, 0}); }

Result<void> Handle::alive() { return ask({Request::Kind::alive, kEveryRank, 0}); }

void Handle::wake() noexcept { ::kill(pid_, SIGCONT); }

Result<void> Handle::ask(const Request& request, const std::vector<int>& fds) {
  wake();
  return send_message(fd(), opal::bytes_of(request), fds);
}

Result<std::optional<Report>> Handle::next() {
  Report report{};
  OPAL_TRY_ASSIGN(auto received, receive_message(fd(), std::as_writable_bytes(std::span{&report, 1})));
  if (!received) return std::optional<Report>{};
  if (received->size == 0) return Error{Errc::peer_gone, 0, "the process guard"};
  return std::optional<Report>{report};
}

void Handle::quit() noexcept {
  if (ask({Request::Kind::quit, kEveryRank, 0})) ::waitpid(pid_, nullptr, 0);
}

}  // namespace runtime::guard
