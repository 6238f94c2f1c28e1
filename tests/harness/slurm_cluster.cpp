// SPDX-License-Identifier: Apache-2.0
#include "tests/harness/slurm_cluster.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "opal/core/clock.hpp"

namespace opal::test {
namespace {

constexpr std::chrono::seconds kTimeout{20};
constexpr int kRoundMs = 20;

/// Everything that belongs to one host has its name in it: the hosts share the file system.
constexpr char kConfiguration[] = R"(ClusterName=opaltest
SlurmctldHost=h1(10.77.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={0}/munge.socket
CredType=cred/munge
MpiDefault=pmix
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
SlurmdParameters=config_overrides
KillWait=2
TmpFS={0}/tmp.%n
StateSaveLocation={0}/state
SlurmdSpoolDir={0}/spool.%n
SlurmctldPidFile={0}/slurmctld.pid
SlurmdPidFile={0}/slurmd.%n.pid
SlurmctldLogFile={0}/slurmctld.log
SlurmdLogFile={0}/slurmd.%n.log
NodeName=h[1-{1}] NodeAddr=10.77.0.[1-{1}] CPUs={2} RealMemory=500 State=UNKNOWN
PartitionName=all Nodes=h[1-{1}] Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:16
)";

/// This machine's cgroups are not Slurm's to arrange.
constexpr char kCgroups[] = "CgroupAutomount=no\nIgnoreSystemd=yes\nCgroupPlugin=cgroup/v1\n";

std::string text_of(const std::string& path) {
  std::ifstream file{path};
  return {std::istreambuf_iterator<char>{file}, {}};
}

}  // namespace

std::unique_ptr<SlurmCluster> SlurmCluster::make(const FakeHosts& hosts, unsigned count, unsigned cpus,
                                                 const std::string& directory, std::string& why) {
  if (std::system("command -v munged slurmctld slurmd srun salloc sinfo squeue > /dev/null") != 0) {
    why = "needs slurm: slurmctld, slurmd, srun, munged (packages slurmctld, slurmd, slurm-client, munge)";
    return nullptr;
  }
  std::unique_ptr<SlurmCluster> made{new SlurmCluster{hosts, count, directory}};
  made->configure(cpus);
  made->start(1,
              {"munged", "--foreground", "--force", "--socket=" + directory + "/munge.socket",
               "--key-file=" + directory + "/munge.key", "--pid-file=" + directory + "/munged.pid",
               "--log-file=" + directory + "/munged.log", "--seed-file=" + directory + "/munged.seed"},
              directory + "/munged.out");
  const Deadline deadline = Deadline::after(kTimeout);
  while (!std::filesystem::exists(directory + "/munge.socket") && !deadline.expired()) ::poll(nullptr, 0, kRoundMs);
  made->start(1, {"slurmctld", "-D", "-i"}, directory + "/slurmctld.out");
  for (unsigned host = 1; host <= count; ++host) {
    made->start(host, {"slurmd", "-D", "-N", fmt::format("h{}", host)},
                fmt::format("{}/slurmd.h{}.out", directory, host));
  }
  if (made->becomes_idle()) return made;
  why = "Slurm does not come up:\n" + made->logs();
  return nullptr;
}

void SlurmCluster::configure(unsigned cpus) const {
  namespace fs = std::filesystem;
  fs::create_directories(directory_ + "/state");
  for (unsigned host = 1; host <= count_; ++host) {
    fs::create_directories(fmt::format("{}/spool.h{}", directory_, host));
    fs::create_directories(fmt::format("{}/tmp.h{}", directory_, host));
  }
  std::ofstream{directory_ + "/slurm.conf"} << fmt::format(kConfiguration, directory_, count_, cpus);
  std::ofstream{directory_ + "/cgroup.conf"} << kCgroups;
  // How long a fence waits for a host without live ranks; the default is 300.
  std::ofstream{directory_ + "/mpi.conf"} << "PMIxTimeout=10\n";
  const std::string key = directory_ + "/munge.key";
  std::ofstream{key, std::ios::binary} << std::string(1024, 'k');  // for hosts without other users
  fs::permissions(key, fs::perms::owner_read | fs::perms::owner_write);
}

std::vector<std::string> SlurmCluster::command(const std::vector<std::string>& words) const {
  std::vector<std::string> all{hosts_.agent(), "h1", "env", "SLURM_CONF=" + directory_ + "/slurm.conf"};
  all.insert(all.end(), words.begin(), words.end());
  return all;
}

void SlurmCluster::start(unsigned host, const std::vector<std::string>& command, const std::string& log) {
  std::vector<std::string> all{hosts_.agent(), fmt::format("h{}", host), "env",
                               "SLURM_CONF=" + directory_ + "/slurm.conf"};
  all.insert(all.end(), command.begin(), command.end());
  daemons_.push_back(std::make_unique<Program>(all, log));
}

std::string SlurmCluster::ask(const std::vector<std::string>& words) const {
  Program program{command(words), directory_ + "/answer"};
  return program.wait() == 0 ? program.output() : std::string{"?"};
}

bool SlurmCluster::becomes_idle() const {
  const std::string idle = fmt::format("{} idle\n", count_);
  const Deadline deadline = Deadline::after(kTimeout);
  while (!deadline.expired()) {
    if (ask({"sinfo", "-h", "-o", "%D %T"}) == idle && ask({"squeue", "-h"}).empty()) return true;
    ::poll(nullptr, 0, kRoundMs);
  }
  return false;
}

std::string SlurmCluster::logs() const {
  std::string text;
  for (const auto& entry : std::filesystem::directory_iterator{directory_}) {
    const std::string name = entry.path().filename();
    if (name.ends_with(".log") || name.ends_with(".out")) text += name + ":\n" + text_of(entry.path());
  }
  return text;
}

}  // namespace opal::test
