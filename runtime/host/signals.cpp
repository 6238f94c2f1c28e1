// SPDX-License-Identifier: Apache-2.0
#include "runtime/host/signals.hpp"

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>

#include "runtime/guard/rank_process.hpp"

namespace runtime::launch {

Result<Signals> Signals::block() {
  const guard::SignalSet ignored = guard::ignored_signals();
  sigset_t handled;
  sigemptyset(&handled);
  for (const int signo : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT}) {
    if (!ignored[static_cast<std::size_t>(signo)]) sigaddset(&handled, signo);
  }
  sigset_t blocked = handled;
  sigaddset(&blocked, SIGPIPE);  // a closed output is an error of write(2)
  sigaddset(&blocked, SIGXFSZ);  // the same of a file that ulimit -f keeps small
  sigaddset(&blocked, SIGTTOU);  // messages of a job in the background may be shown
  if (::sigprocmask(SIG_BLOCK, &blocked, nullptr) != 0) return Error{Errc::os, errno, "sigprocmask"};
  Fd fd{::signalfd(-1, &handled, SFD_CLOEXEC | SFD_NONBLOCK)};
  if (!fd) return Error{Errc::os, errno, "signalfd"};
  return Signals{std::move(fd)};
}

void Signals::deliver(event::Loop& loop, std::function<void(int)> callback) {
  watch_ = loop.on_readable(fd_.get(), [fd = fd_.get(), callback = std::move(callback)] {
    signalfd_siginfo info{};
    while (::read(fd, &info, sizeof info) == sizeof info) callback(static_cast<int>(info.ssi_signo));
  });
}

}  // namespace runtime::launch
