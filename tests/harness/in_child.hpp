// SPDX-License-Identifier: Apache-2.0
// tests/harness/in_child.hpp — runs a function in a copy of this process as it is, memory, descriptors and all, where
// harness/child.hpp's children are set up to be talked to.
#pragma once
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

namespace opal::test {

/// The number that `what` returned in a forked child, which is killed after `seconds`; -1 when it did not end by
/// itself.
inline int in_child(const std::function<int()>& what, unsigned seconds = 20) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(seconds);
    ::_exit(what());
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace opal::test
