// SPDX-License-Identifier: Apache-2.0
// The launcher's command line, hosts, binding and wording, without starting anything.
#include "runtime/options/options.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>

#include "opal/core/environment.hpp"
#include "runtime/host/binding.hpp"
#include "runtime/host/environment.hpp"
#include "runtime/host/messages.hpp"
#include "runtime/launch/hosts.hpp"

namespace runtime::launch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

Options parsed(const std::vector<std::string>& arguments) {
  const ParsedCommandLine result = parse_command_line("opalrun", arguments);
  EXPECT_TRUE(result.options) << result.text;
  return result.options.value_or(Options{});
}

std::string refused(const std::vector<std::string>& arguments) {
  const ParsedCommandLine result = parse_command_line("opalrun", arguments);
  EXPECT_FALSE(result.options);
  EXPECT_EQ(result.status, 2);
  return result.text;
}

TEST(Options, EverythingBehindTheProgramIsTheProgramsOwn) {
  const Options options = parsed({"-n", "4", "prog", "-n", "5", "--help"});
  EXPECT_EQ(options.ranks, 4U);
  EXPECT_THAT(options.command, ElementsAre("prog", "-n", "5", "--help"));
}

TEST(Options, TwoDashesEndTheOptionsOfTheLauncher) {
  const Options options = parsed({"-n", "1", "--", "--strange-name", "x"});
  EXPECT_THAT(options.command, ElementsAre("--strange-name", "x"));
}

TEST(Options, TheProgramsArgumentsKeepTheirSpelling) {
  EXPECT_THAT(parsed({"-np", "1", "a.out", "-np", "--", "-wd"}).command, ElementsAre("a.out", "-np", "--", "-wd"));
  EXPECT_THAT(parsed({"-mca", "btl", "tcp", "--mca", "pml", "ob1", "a.out", "x", "y"}).command,
              ElementsAre("a.out", "x", "y"));
  EXPECT_THAT(parsed({"-x", "A=1", "--set", "runtime_radix=2", "a.out", "b"}).command, ElementsAre("a.out", "b"));
}

TEST(Options, SpellingsOfOtherLaunchersAreUnderstood) {
  const Options options = parsed({"-np", "2", "-host", "localhost:2", "--bind-to", "none", "-mca", "btl", "tcp,self",
                                  "--allow-run-as-root", "--oversubscribe", "-wdir", "/tmp", "a.out"});
  EXPECT_EQ(options.ranks, 2U);
  EXPECT_THAT(options.hosts, ElementsAre("localhost:2"));
  EXPECT_EQ(options.bind, Bind::none);
  EXPECT_TRUE(options.oversubscribe);
  EXPECT_EQ(options.working_directory, "/tmp");
  EXPECT_THAT(options.command, ElementsAre("a.out"));
  ASSERT_EQ(options.warnings.size(), 1U);
  EXPECT_THAT(options.warnings[0], HasSubstr("--mca btl tcp,self is ignored"));
}

TEST(Options, SettingsAndVariablesKeepTheirOrderAndMayContainEquals) {
  const Options options = parsed({"--set", "a=1", "--set", "b=x=y", "-x", "PATHS=/a=b", "--env", "EMPTY=", "prog"});
  EXPECT_THAT(options.settings, ElementsAre(Pair("a", "1"), Pair("b", "x=y")));
  EXPECT_THAT(options.environment, ElementsAre(Pair("PATHS", "/a=b"), Pair("EMPTY", "")));
}

TEST(Options, QuiesceAndResumeNameALauncherAndStartNothing) {
  EXPECT_EQ(parsed({"--quiesce", "4711", "--timeout", "5"}).quiesce, 4711);
  EXPECT_EQ(parsed({"--resume", "4711"}).resume, 4711);
  EXPECT_THAT(refused({"--quiesce", "4711", "prog"}), HasSubstr("no program"));
  EXPECT_THAT(refused({"--quiesce", "4711", "--resume", "4711"}), HasSubstr("--resume"));
  for (const char* const pid : {"0", "-1", "x", ""})
    EXPECT_THAT(refused({"--resume", pid}), HasSubstr("--resume")) << pid;
}

TEST(Options, TimesAreSecondsWithFractions) {
  const Options options = parsed({"--timeout", "0.25", "--grace=1.5", "prog"});
  EXPECT_EQ(options.timeout, std::chrono::milliseconds{250});
  EXPECT_EQ(options.grace, std::chrono::milliseconds{1500});
}

TEST(Options, VariablesGiveTheDefaultsOfASiteAndOptionsWin) {
  EXPECT_EQ(parsed({"prog"}).radix, 16U);
  EXPECT_EQ(parsed({"--set", "runtime_radix=4", "prog"}).radix, 4U);
  EXPECT_EQ(parsed({"--set", "runtime_radix=4", "--radix", "8", "prog"}).radix, 8U);
  ::setenv("OPAL_RUNTIME_AGENTS", "3", 1);
  ::setenv("OPAL_RUNTIME_DAEMON_TIMEOUT", "5s", 1);
  const Options options = parsed({"prog"});
  ::unsetenv("OPAL_RUNTIME_AGENTS");
  ::unsetenv("OPAL_RUNTIME_DAEMON_TIMEOUT");
  EXPECT_EQ(options.agents, 3U);
  EXPECT_EQ(options.timeouts.silence, std::chrono::seconds{5});
  EXPECT_THAT(refused({"--set", "runtime_radix=0", "prog"}), HasSubstr("runtime_radix"));
}

TEST(Options, MistakesAreNamed) {
  EXPECT_THAT(refused({"-n"}), HasSubstr("--np"));
  EXPECT_THAT(refused({"-n", "0", "prog"}), HasSubstr("--np"));
  EXPECT_THAT(refused({"--bind", "board", "prog"}), HasSubstr("--bind"));
  EXPECT_THAT(refused({"--timeout", "-3", "prog"}), HasSubstr("--timeout"));
  for (const char* const time : {"--timeout", "--grace", "--daemon-timeout", "--start-timeout"}) {
    EXPECT_THAT(refused({time, "nan", "prog"}), HasSubstr(time));
    EXPECT_THAT(refused({time, "inf", "prog"}), HasSubstr(time));
  }
  EXPECT_THAT(refused({"--set", "novalue", "prog"}), HasSubstr("NAME=VALUE"));
  EXPECT_THAT(refused({"--set", "Not A Name=1", "prog"}), HasSubstr("NAME=VALUE"));
  EXPECT_THAT(refused({"--reprot-bindings", "prog"}), HasSubstr("did you mean --report-bindings?"));
  EXPECT_THAT(refused({}), HasSubstr("no program to run"));
}

TEST(Options, ASecondProgramIsRefusedAndNotTakenForArguments) {
  EXPECT_THAT(refused({"-n", "1", "a", ":", "-n", "1", "b"}), HasSubstr("several programs"));
  EXPECT_THAT(parsed({"--", "a", ":", "b"}).command, ElementsAre("a", ":", "b"));
  EXPECT_THAT(parsed({"sh", "-c", ":"}).command, ElementsAre("sh", "-c", ":")) << "it separates nothing";
}

TEST(Options, HelpAndVersionAreNotErrors) {
  EXPECT_EQ(parse_command_line("mpirun", {"--help"}).status, 0);
  EXPECT_THAT(parse_command_line("mpirun", {"--help"}).text, HasSubstr("Usage: mpirun [OPTIONS] PROGRAM"));
  EXPECT_THAT(parse_command_line("mpirun", {"--version"}).text, HasSubstr("OPAL"));
}

TEST(Hosts, ListsAndFilesGiveTheSlots) {
  Options options;
  EXPECT_EQ(find_hosts(options, 6).ranks, 6U);
  options.hosts = {"localhost:2", opal::host_name() + ":3"};
  EXPECT_EQ(find_hosts(options, 6).ranks, 5U);
  options.hosts = {"localhost"};
  EXPECT_EQ(find_hosts(options, 6).ranks, 6U);
  options.ranks = 40;
  EXPECT_EQ(find_hosts(options, 6).ranks, 40U) << "without slots there is nothing to exceed";
  options.hosts = {"localhost:x"};
  EXPECT_THAT(find_hosts(options, 6).problem, HasSubstr("is not a number of slots"));
  options.hosts = {"localhost:2", ""};
  EXPECT_THAT(find_hosts(options, 6).problem, HasSubstr("empty host name"));

  const std::string path = ::testing::TempDir() + "/opal-hosts." + std::to_string(::getpid());
  std::ofstream{path} << "# comment\n\nlocalhost slots=3 max_slots=4\n127.0.0.1:2 # more\n";
  Options from_file;
  from_file.host_file = path;
  EXPECT_EQ(find_hosts(from_file, 1).ranks, 5U);
  std::ofstream{path} << "localhost slots = 3 max-slots = 4\n127.0.0.1 cpu=2\nlocalhost count=1\n";
  EXPECT_EQ(find_hosts(from_file, 1).ranks, 6U) << "as Open MPI spells it";
  std::ofstream{path} << "localhost:4 ifname=eth0\n127.0.0.1:2 binding=user:0,1\n";
  EXPECT_EQ(find_hosts(from_file, 1).ranks, 6U) << "as MPICH spells it";
  std::ofstream{path} << "localhost slits=4\n";
  EXPECT_THAT(find_hosts(from_file, 1).problem, HasSubstr(":1: \"slits=4\" is not understood"));
  std::ofstream{path} << "localhost slots=none\n";
  EXPECT_THAT(find_hosts(from_file, 1).problem, HasSubstr(":1: "));
  std::remove(path.c_str());
  from_file.host_file = "/no/such/file";
  EXPECT_THAT(find_hosts(from_file, 1).problem, HasSubstr("No such file"));
}

std::string problem_of_host(const std::string& name) {
  Options options;
  options.hosts = {name};
  return find_hosts(options, 1).problem;
}

TEST(Hosts, NamesThatAreNoHostNamesAreRefused) {
  for (const char* const name : {"h1", "n-1.example.org", "fe80::1%eth0", "user@h1", "h_1:3"}) {
    EXPECT_EQ(problem_of_host(name), "") << name;
  }
  EXPECT_THAT(problem_of_host("-oProxyCommand=x"), HasSubstr("does not begin with \"-\""));
  for (const char* const name : {"a b", "a;b", "$(x)", "a\nb", "a/b", "a`b`", "a[1]"}) {
    EXPECT_THAT(problem_of_host(name), HasSubstr("letters, digits and")) << name;
  }
  EXPECT_EQ(problem_of_host(std::string(255, 'h')), "");
  const std::string wrong = problem_of_host(std::string(10'000'000, 'h'));
  EXPECT_THAT(wrong, HasSubstr("the name has 10000000 characters"));
  EXPECT_LT(wrong.size(), 300U) << "a message is for people";
}

TEST(Hosts, AFileThatNeverEndsOrIsNoFileIsRefused) {
  Options options;
  for (const char* const path : {"/dev/zero", "/tmp"}) {
    options.host_file = path;
    EXPECT_THAT(find_hosts(options, 1).problem, HasSubstr("neither a regular file nor a pipe")) << path;
  }
  options.host_file = ::testing::TempDir() + "/opal-many-hosts." + std::to_string(::getpid());
  std::ofstream{options.host_file}.close();
  ASSERT_EQ(::truncate(options.host_file.c_str(), 1 << 30), 0);
  EXPECT_THAT(find_hosts(options, 1).problem, HasSubstr("larger than 16 MiB"));
  std::remove(options.host_file.c_str());
}

/// The variables of a Slurm allocation, as long as this object lives.
class Allocated {
 public:
  Allocated(const char* list, const char* tasks) {
    ::setenv("SLURM_JOB_ID", "7", 1);
    ::setenv("SLURM_JOB_NODELIST", list, 1);
    ::setenv("SLURM_TASKS_PER_NODE", tasks, 1);
  }
  ~Allocated() {
    for (const char* const name : {"SLURM_JOB_ID", "SLURM_JOB_NODELIST", "SLURM_TASKS_PER_NODE"}) ::unsetenv(name);
  }
  Allocated(const Allocated&) = delete;
  Allocated& operator=(const Allocated&) = delete;
};

TEST(Hosts, AnAllocationWhoseListIsNotUnderstoodIsAnErrorThatNamesIt) {
  {
    const Allocated allocated{"n[1-2]", "3(x2)"};
    EXPECT_EQ(find_hosts({}, 1).ranks, 6U);
  }
  for (const char* const list : {"n[1-2", "n[x]", "-oProxyCommand=x", "n[1-99999999999]"}) {
    const Allocated allocated{list, "2"};
    EXPECT_THAT(find_hosts({}, 1).problem, HasSubstr(list));
  }
  const Allocated allocated{"n[1-2]", "two"};
  EXPECT_THAT(find_hosts({}, 1).problem, HasSubstr("SLURM_TASKS_PER_NODE=two"));
}

/// Packages of cores of hardware threads; NUMA nodes are packages, caches are not told.
Domains domains_of(const std::vector<std::vector<Cpus>>& packages) {
  Domains domains;
  const auto at = [&](Level level) -> std::vector<Cpus>& { return domains.of[static_cast<std::size_t>(level)]; };
  Cpus all;
  for (const std::vector<Cpus>& cores : packages) {
    Cpus package;
    for (const Cpus& core : cores) {
      at(Level::core).push_back(core);
      for (const std::uint32_t cpu : core) at(Level::hwthread).push_back({cpu});
      package.insert(package.end(), core.begin(), core.end());
    }
    std::sort(package.begin(), package.end());
    all.insert(all.end(), package.begin(), package.end());
    at(Level::package).push_back(package);
    at(Level::numa).push_back(package);
  }
  std::sort(all.begin(), all.end());
  at(Level::l2cache) = at(Level::l3cache) = {all};
  return domains;
}

TEST(Binding, MappedByAnObjectRanksGoRoundAndAreBoundWithin) {
  const Domains domains = domains_of({{{0, 6}, {1, 7}, {2, 8}}, {{3, 9}, {4, 10}}});
  EXPECT_THAT(bind_ranks(by<Map>(Level::package), Bind::automatic, 3, domains),
              ElementsAre(Cpus{0, 1, 2, 6, 7, 8}, Cpus{3, 4, 9, 10}, Cpus{0, 1, 2, 6, 7, 8}));
  EXPECT_THAT(bind_ranks(by<Map>(Level::package), by<Bind>(Level::core), 5, domains),
              ElementsAre(Cpus{0, 6}, Cpus{3, 9}, Cpus{1, 7}, Cpus{4, 10}, Cpus{2, 8}));
  EXPECT_THAT(bind_ranks(by<Map>(Level::core), by<Bind>(Level::numa), 4, domains),
              ElementsAre(Cpus{0, 1, 2, 6, 7, 8}, Cpus{0, 1, 2, 6, 7, 8}, Cpus{0, 1, 2, 6, 7, 8}, Cpus{3, 4, 9, 10}));
  EXPECT_THAT(bind_ranks(Map::node, by<Bind>(Level::hwthread), 3, domains), ElementsAre(Cpus{0}, Cpus{6}, Cpus{1}));
  EXPECT_THAT(bind_ranks(by<Map>(Level::core), Bind::none, 1, domains), ElementsAre(IsEmpty()));
  EXPECT_THAT(bind_ranks(by<Map>(Level::l3cache), Bind::automatic, 1, domains), ElementsAre(SizeIs(10)));
}

TEST(Options, MappingAndBindingNameObjects) {
  const Options options = parsed({"--map-by", "socket", "--bind-to", "l2cache", "prog"});
  EXPECT_EQ(options.map, by<Map>(Level::package));
  EXPECT_EQ(options.bind, by<Bind>(Level::l2cache));
  EXPECT_EQ(level_of(options.map), Level::package);
  EXPECT_EQ(level_of(Map::node), std::nullopt);
  EXPECT_EQ(level_of(static_cast<Map>(200)), std::nullopt) << "of a garbled message";
}

TEST(Binding, OfThisHostHasEveryLevel) {
  const Domains domains = usable_domains(opal::topology::Topology::open().value());
  Cpus all;
  for (const Cpus& thread : domains[Level::hwthread]) all.push_back(thread.front());
  std::sort(all.begin(), all.end());
  for (const auto& objects : domains.of) {
    Cpus together;
    for (const Cpus& object : objects) together.insert(together.end(), object.begin(), object.end());
    std::sort(together.begin(), together.end());
    EXPECT_EQ(together, all);
  }
}

/// Such as high-bandwidth memory beside the ordinary one: two NUMA nodes near the same processors.
TEST(Binding, ANodeOfMemoryOnlyIsNoDomainOfItsOwn) {
  ::setenv("HWLOC_SYNTHETIC", "[numa] [numa] core:256 pu:1", 1);
  ::setenv("HWLOC_THISSYSTEM", "1", 1);
  auto topology = opal::topology::Topology::open();
  ::unsetenv("HWLOC_SYNTHETIC");
  ::unsetenv("HWLOC_THISSYSTEM");
  ASSERT_TRUE(topology) << opal::to_string(topology.error());
  const Domains domains = usable_domains(*topology);
  ASSERT_THAT(domains[Level::numa], SizeIs(1));
  EXPECT_EQ(domains[Level::numa][0].size(), domains[Level::core].size());
}

TEST(Binding, DealsCoresOutOnlyWhenThereAreEnough) {
  const Domains two = domains_of({{{0, 4}, {1, 5}}});
  EXPECT_THAT(bind_ranks(Map::slot, Bind::automatic, 2, two), ElementsAre(Cpus{0, 4}, Cpus{1, 5}));
  EXPECT_THAT(bind_ranks(Map::slot, Bind::automatic, 3, two), ElementsAre(IsEmpty(), IsEmpty(), IsEmpty()));
  EXPECT_THAT(bind_ranks(Map::slot, by<Bind>(Level::core), 3, two), ElementsAre(Cpus{0, 4}, Cpus{1, 5}, Cpus{0, 4}));
  EXPECT_THAT(bind_ranks(Map::slot, Bind::none, 1, two), ElementsAre(IsEmpty()));
  EXPECT_EQ(to_string(Cpus{0, 1, 2, 5, 7, 8}), "cpus 0-2,5,7-8");
  EXPECT_EQ(to_string(Cpus{3}), "cpu 3");
}

TEST(Messages, StatusesAreThoseOfAShell) {
  EXPECT_EQ(exit_status_of(0), 0);
  EXPECT_EQ(exit_status_of(7 << 8), 7);
  EXPECT_EQ(exit_status_of(SIGSEGV), 128 + SIGSEGV);
  EXPECT_EQ(describe_end(SIGSEGV), "was killed by signal 11 (SIGSEGV)");
  EXPECT_EQ(describe_end(7 << 8), "exited with status 7");
  EXPECT_EQ(signal_name(SIGRTMIN + 3), fmt::format("signal {}", SIGRTMIN + 3));
}

TEST(Environment, LaterVariablesReplaceEarlierOnes) {
  EXPECT_THAT(to_environment({{"A", "1"}, {"B", "2"}, {"A", "3"}}), ElementsAre("A=3", "B=2"));
}

}  // namespace
}  // namespace runtime::launch
