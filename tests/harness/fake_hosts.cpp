// SPDX-License-Identifier: Apache-2.0
#include "tests/harness/fake_hosts.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "opal/core/system/fd.hpp"

namespace opal::test {

/// Runs `script` in new namespaces until it has written "ready", after which it must stay; `said`: what else it wrote.
FakeHosts::Namespace FakeHosts::start(const std::vector<std::string>& unshare, const std::string& script,
                                      std::string& said) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return {};
  const Fd reader{ends[0]};
  Fd writer{ends[1]};
  std::vector<std::string> words{"unshare"};
  words.insert(words.end(), unshare.begin(), unshare.end());
  words.insert(words.end(), {"sh", "-c", script + "; echo ready; exec sleep 100000 > /dev/null"});
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  Namespace made;
  made.outer = ::fork();
  if (made.outer == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const int null = ::open("/dev/null", O_RDONLY);
    ::dup2(null, 0);
    ::dup2(writer.get(), 2);
    ::dup2(writer.get(), 1);
    ::execvp(argv[0], argv.data());
    ::_exit(126);
  }
  writer.reset();
  said.clear();
  char bytes[256];
  ssize_t size = 0;
  while (!said.ends_with("ready\n") && (size = ::read(reader.get(), bytes, sizeof bytes)) > 0) {
    said.append(bytes, static_cast<std::size_t>(size));
  }
  if (size <= 0) {
    while (said.ends_with('\n')) said.pop_back();
    std::replace(said.begin(), said.end(), '\n', ';');
    ::kill(made.outer, SIGKILL);
    ::waitpid(made.outer, nullptr, 0);
    return {};
  }
  made.init = made.outer;
  std::ifstream children{fmt::format("/proc/{0}/task/{0}/children", made.outer)};
  if (pid_t child = 0; children >> child) made.init = child;  // with a process namespace unshare stays the parent
  return made;
}

bool FakeHosts::run(const std::string& script) { return std::system(script.c_str()) == 0; }

std::unique_ptr<FakeHosts> FakeHosts::make(unsigned count, const std::string& directory, std::string& why) {
  if (!run("command -v unshare nsenter ip > /dev/null")) {
    why = "needs netns: the programs unshare, nsenter and ip (packages util-linux, iproute2)";
    return nullptr;
  }
  std::string said;
  std::unique_ptr<FakeHosts> made{new FakeHosts};
  made->bridge_ =
      start({"-n"}, "ip link set lo up && ip link add br0 type bridge && ip link set br0 up || exit 1", said);
  if (made->bridge_.init == 0) {
    why = "needs netns: permission to make network namespaces and bridges (root): " + said;
    return nullptr;
  }
  const pid_t bridge = made->bridge_.init;
  for (unsigned number = 1; number <= count; ++number) {
    const Namespace host = start(
        {"-n", "-m", "-u", "-i", "-p", "--fork", "--kill-child", "--mount-proc"},
        fmt::format("hostname h{} && mount -t tmpfs tmpfs /dev/shm && ip link set lo up || exit 1", number), said);
    made->hosts_.push_back(host);
    const bool wired =
        host.init != 0 &&
        run(fmt::format(
            "ip link add eth0 netns {0} type veth peer name v{2} netns {1} && "
            "nsenter -t {1} -n ip link set v{2} master br0 up && "
            "nsenter -t {0} -n ip addr add 10.77.0.{2}/24 dev eth0 && nsenter -t {0} -n ip link set eth0 up",
            host.init, bridge, number));
    if (!wired) {
      why = "needs netns: permission to make hosts of namespaces (root, and veth in the kernel): " + said;
      return nullptr;
    }
  }
  made->agent_ = directory + "/agent";
  std::ofstream script{made->agent_};
  script << "#!/bin/sh\nhost=$1\nshift\ncase $host in\n";
  for (unsigned number = 1; number <= count; ++number) {
    script << fmt::format("h{}) pid={} ;;\n", number, made->hosts_[number - 1].init);
  }
  script << "*) echo \"agent: no host $host\" >&2; exit 255 ;;\nesac\n"
         << "exec nsenter -t $pid -n -u -m -p -i -r -w -- \"$@\"\n";
  script.close();
  ::chmod(made->agent_.c_str(), 0700);
  return made;
}

FakeHosts::~FakeHosts() {
  hosts_.push_back(bridge_);
  for (const Namespace& one : hosts_) {
    if (one.outer == 0) continue;
    ::kill(one.outer, SIGKILL);  // and with it its child, and with that everything in the namespace
    ::waitpid(one.outer, nullptr, 0);
  }
}

std::vector<std::string> FakeHosts::on_network_of(unsigned number) const {
  return {"nsenter", "-t", std::to_string(hosts_.at(number - 1).init), "-n", "--"};
}

void FakeHosts::set_link(unsigned number, bool up) const {
  (void)run(fmt::format("nsenter -t {} -n ip link set v{} {}", bridge_.init, number, up ? "up" : "down"));
}

bool FakeHosts::holds(unsigned number, pid_t pid) const {
  std::error_code gone;
  const auto name_space = [&](pid_t of) {
    return std::filesystem::read_symlink(fmt::format("/proc/{}/ns/uts", of), gone);
  };
  return name_space(pid) == name_space(hosts_.at(number - 1).init) && !gone;
}

std::string FakeHosts::path_on(unsigned number, const std::string& path) const {
  return fmt::format("/proc/{}/root{}", hosts_.at(number - 1).init, path);
}

void FakeHosts::crash(unsigned number) {
  Namespace& host = hosts_.at(number - 1);
  ::kill(host.init, SIGKILL);
  ::waitpid(host.outer, nullptr, 0);
  host.outer = 0;
}

}  // namespace opal::test
