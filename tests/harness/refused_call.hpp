// SPDX-License-Identifier: Apache-2.0
// tests/harness/refused_call.hpp — a kernel that stops permitting a system call, by seccomp.  For child processes:
// there is no way back.
#pragma once
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <span>

namespace opal::test {

/// From here on the rules hold for this thread and those it starts; with SECCOMP_FILTER_FLAG_TSYNC for all threads.
inline void install_filter(std::span<sock_filter> rules, unsigned flags = 0) {
  const sock_fprog program{static_cast<unsigned short>(rules.size()), rules.data()};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) std::abort();
  if (::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program) != 0) std::abort();
}

/// From here on `number` has this outcome instead of its effect.
inline void filter_system_call(unsigned number, unsigned outcome, unsigned flags = 0) {
  sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, outcome),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  install_filter(rules, flags);
}

/// From here on they get `error` from `number`.
inline void refuse_system_call(unsigned number, unsigned error = EPERM, unsigned flags = 0) {
  filter_system_call(number, SECCOMP_RET_ERRNO | error, flags);
}

}  // namespace opal::test
