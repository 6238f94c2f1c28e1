// SPDX-License-Identifier: Apache-2.0
// tests/harness/slurm_cluster.hpp — a Slurm of its own on fake hosts: munged, slurmctld and a slurmd per host, with all
// their files in one directory.  They live in the hosts' namespaces and are gone with them.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "tests/harness/fake_hosts.hpp"
#include "tests/harness/program.hpp"

namespace opal::test {

class SlurmCluster {
 public:
  /// Starts Slurm on the first `count` of `hosts`, with `cpus` processors each, and waits until they are idle; null
  /// where it is not installed ("needs slurm: ..."), or when it does not come up, with what it has logged in `why`.
  /// `hosts` must outlive the cluster; `directory` takes its files.
  static std::unique_ptr<SlurmCluster> make(const FakeHosts& hosts, unsigned count, unsigned cpus,
                                            const std::string& directory, std::string& why);

  /// Words before a Slurm command (srun, salloc, ...) that is to run on the first host.
  [[nodiscard]] std::vector<std::string> command(const std::vector<std::string>& words) const;

  /// True when no job holds any host and no step runs; waits for it, false after 20 s.
  [[nodiscard]] bool becomes_idle() const;

 private:
  SlurmCluster(const FakeHosts& hosts, unsigned count, std::string directory)
      : hosts_(hosts), count_(count), directory_(std::move(directory)) {}
  void configure(unsigned cpus) const;
  void start(unsigned host, const std::vector<std::string>& command, const std::string& log);
  [[nodiscard]] std::string ask(const std::vector<std::string>& words) const;
  [[nodiscard]] std::string logs() const;

  const FakeHosts& hosts_;
  const unsigned count_;
  const std::string directory_;
  std::vector<std::unique_ptr<Program>> daemons_;
};

}  // namespace opal::test
