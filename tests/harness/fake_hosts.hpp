// SPDX-License-Identifier: Apache-2.0
// tests/harness/fake_hosts.hpp — hosts made of namespaces: each has its own network, processes, host name, IPC and
// /dev/shm, and reaches the others through a bridge.  Only the kernel's references keep them: they are gone with the
// processes made here, which die with the test, however it ends.
#pragma once
#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

namespace opal::test {

class FakeHosts {
 public:
  /// Makes hosts h1, h2, ... hN with the addresses 10.77.0.1 ... N; null where that is not permitted or a tool is
  /// missing, with the reason in `why` ("needs netns: ...").  `directory` takes the launch agent.
  static std::unique_ptr<FakeHosts> make(unsigned count, const std::string& directory, std::string& why);
  ~FakeHosts();
  FakeHosts(const FakeHosts&) = delete;
  FakeHosts& operator=(const FakeHosts&) = delete;

  /// A program that is called as `AGENT HOST COMMAND...` and runs COMMAND there, as ssh would.
  [[nodiscard]] const std::string& agent() const noexcept { return agent_; }

  /// Words before a command that is to run here, but on the network of host `number` (from 1).
  [[nodiscard]] std::vector<std::string> on_network_of(unsigned number) const;

  /// Takes a host's cable out, or puts it back.
  void set_link(unsigned number, bool up) const;

  /// True when the process runs on host `number`.
  [[nodiscard]] bool holds(unsigned number, pid_t pid) const;

  /// The path from here to a directory of host `number`.
  [[nodiscard]] std::string path_on(unsigned number, const std::string& path) const;

  /// Ends every process of a host at once.
  void crash(unsigned number);

 private:
  struct Namespace {
    pid_t outer = 0;  // our child
    pid_t init = 0;   // the process whose namespaces they are
  };
  FakeHosts() = default;
  static Namespace start(const std::vector<std::string>& unshare, const std::string& script, std::string& said);
  static bool run(const std::string& script);
  Namespace bridge_;
  std::vector<Namespace> hosts_;
  std::string agent_;
};

}  // namespace opal::test
