// SPDX-License-Identifier: Apache-2.0
// Runs the program opal-info as a person or a script does.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "opal/btl/registry.hpp"

namespace opal {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

struct Outcome {
  int status;
  std::string output;
};

/// Runs opal-info with nothing in its environment but `environment`; `arguments` may redirect.
Outcome opal_info(const std::string& arguments, const std::string& environment = "") {
  const std::string command = "env -i HOME=/nonexistent " + environment + " '" OPAL_INFO "' " + arguments;
  FILE* pipe = ::popen(command.c_str(), "r");
  EXPECT_NE(pipe, nullptr);
  std::string output;
  std::array<char, 4096> buffer{};
  for (std::size_t size = 0; (size = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
    output.append(buffer.data(), size);
  }
  const int status = ::pclose(pipe);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, output};
}

/// The variable `name` of opal-info's JSON; null when it is not there.
json variable(const json& report, const std::string& name) {
  for (const json& group : report["groups"]) {
    for (const json& row : group["variables"]) {
      if (row["name"] == name) return row;
    }
  }
  return nullptr;
}

TEST(OpalInfo, ShowsVersionTransportsAndTheVariablesForEverybody) {
  const Outcome outcome = opal_info("");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.output, AllOf(StartsWith("OPAL "), HasSubstr("Transports"), HasSubstr("am_transports"),
                                    HasSubstr("[default]"), Not(HasSubstr("am_pending_limit"))));
}

TEST(OpalInfo, SaysWhyThereIsNoGpuMemory) {
  const std::string text = opal_info("", "OPAL_GPU_LIBRARY=libcuda-missing.so.1").output;
  const std::string why = "libcuda-missing.so.1";
  EXPECT_THAT(text, AllOf(HasSubstr("GPU memory: not recognised"), HasSubstr(why)));
  const json report = json::parse(opal_info("--json", "OPAL_GPU_LIBRARY=libcuda-missing.so.1").output);
  EXPECT_EQ(report["gpu"]["usable"], false);
  EXPECT_THAT(report["gpu"]["why"].get<std::string>(), HasSubstr(why));
  const auto smcuda = std::find_if(report["transports"].begin(), report["transports"].end(),
                                   [](const json& transport) { return transport["name"] == "smcuda"; });
  ASSERT_NE(smcuda, report["transports"].end());
  EXPECT_EQ((*smcuda)["usable"], false);
  EXPECT_THAT((*smcuda)["why"].get<std::string>(), HasSubstr(why));
}

TEST(OpalInfo, SaysInOneLineWhyVerbsIsNotUsable) {
  if (VERBS && std::filesystem::exists("/sys/class/infiniband")) GTEST_SKIP() << "needs a host without RDMA devices";
  const std::string why = VERBS ? "no RDMA device on this host" : "built without libibverbs and librdmacm";
  const json report = json::parse(opal_info("--json").output);
  const auto verbs = std::find_if(report["transports"].begin(), report["transports"].end(),
                                  [](const json& transport) { return transport["name"] == "verbs"; });
  ASSERT_NE(verbs, report["transports"].end());
  EXPECT_EQ((*verbs)["usable"], false);
  EXPECT_THAT((*verbs)["why"].get<std::string>(), HasSubstr(why));
  EXPECT_THAT(opal_info("").output, testing::ContainsRegex("\n  verbs +refused [^\n]*" + why + "[^\n]*\n"));
}

TEST(OpalInfo, SaysInOneLineWhyOfiIsNotUsable) {
  const std::string why = OFI ? "no provider \"nonsense\"" : "built without the headers of libfabric";
  const json report = json::parse(opal_info("--json", "OPAL_BTL_OFI_PROVIDER=nonsense").output);
  const auto ofi = std::find_if(report["transports"].begin(), report["transports"].end(),
                                [](const json& transport) { return transport["name"] == "ofi"; });
  ASSERT_NE(ofi, report["transports"].end());
  EXPECT_EQ((*ofi)["usable"], false);
  EXPECT_THAT((*ofi)["why"].get<std::string>(), HasSubstr(why));
}

TEST(OpalInfo, SaysWhichDriverThereIs) {
  const std::string environment = "OPAL_CUDA_DOUBLE=api_version=12040 OPAL_GPU_LIBRARY='" DRIVER_DOUBLE "'";
  EXPECT_THAT(opal_info("", environment).output, HasSubstr("GPU memory: recognised, driver for CUDA 12.4"));
  EXPECT_THAT(opal_info("", environment).output, testing::ContainsRegex("smcuda +usable"));
  EXPECT_EQ(json::parse(opal_info("--json", environment).output)["gpu"]["driver_version"], 12040);
}

TEST(OpalInfo, ShowsEveryVariableWhenAskedForAll) {
  EXPECT_THAT(opal_info("--all").output, HasSubstr("am_pending_limit"));
  EXPECT_THAT(opal_info("--level tuner").output, HasSubstr("am_pending_limit"));
}

TEST(OpalInfo, AnswersForOneVariable) {
  const Outcome one = opal_info("am_pending_limit");
  EXPECT_EQ(one.status, 0);
  EXPECT_THAT(one.output,
              AllOf(HasSubstr("am_pending_limit"), Not(HasSubstr("am_spin")), Not(HasSubstr("Transports,"))));
  EXPECT_EQ(opal_info("am_pending_limitt 2>/dev/null").status, 2);
}

TEST(OpalInfo, ShowsTheFilesThatItReads) {
  EXPECT_THAT(opal_info("").output, AllOf(HasSubstr("\n  /etc/opal/opal.conf"),
                                          HasSubstr("\n  /nonexistent/.config/opal/opal.conf (not there)"),
                                          HasSubstr("\n  /nonexistent/.config/opal/secret (not there)")));
  EXPECT_THAT(opal_info("", "OPAL_CONFIG_FILE=/dev/null").output, HasSubstr("\n  /dev/null\n"));
}

TEST(OpalInfo, ShowsOneGroupWholeUnlessALevelIsGiven) {
  const Outcome whole = opal_info("--group am");
  EXPECT_THAT(whole.output,
              AllOf(HasSubstr("am_pending_limit"), Not(HasSubstr("strict")), Not(HasSubstr("Transports,"))));
  EXPECT_THAT(opal_info("--group am --level user").output, Not(HasSubstr("am_pending_limit")));
}

TEST(OpalInfo, TellsWhoSetAValue) {
  EXPECT_THAT(opal_info("-g am", "OPAL_AM_SPIN=70").output, HasSubstr("70us [environment OPAL_AM_SPIN]"));
  EXPECT_THAT(opal_info("-g am --set am_spin=70us", "OPAL_AM_SPIN=60").output, HasSubstr("70us [API]"));
  EXPECT_THAT(opal_info("-g am", "OPAL_SET=am_spin=80").output, HasSubstr("80us [launcher --set]"));
}

TEST(OpalInfo, ABadSettingIsSaidOnStderrAndInTheExitStatus) {
  const Outcome outcome = opal_info("2>&1 >/dev/null", "OPAL_AM_SPIN=2s");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.output,
              StartsWith("opal-info: error: am_spin: value \"2s\" (environment OPAL_AM_SPIN) is too large; allowed: "));
}

TEST(OpalInfo, AnUnknownNameIsAWarningAndAnErrorWhenStrict) {
  const Outcome lenient = opal_info("2>&1 >/dev/null", "OPAL_AM_SPINN=2");
  EXPECT_EQ(lenient.status, 0);
  EXPECT_THAT(lenient.output,
              HasSubstr("warning: am_spinn: unknown variable (environment OPAL_AM_SPINN); did you mean am_spin?"));
  EXPECT_EQ(opal_info("2>&1", "OPAL_AM_SPINN=2 OPAL_STRICT=1").status, 1);
}

TEST(OpalInfo, ATransportThatOpalDoesNotHaveIsAnErrorThatNamesItsHeir) {
  const Outcome removed = opal_info("--set am_transports=self,openib 2>&1 >/dev/null");
  EXPECT_EQ(removed.status, 1);
  EXPECT_THAT(removed.output, HasSubstr("opal-info: error: am_transports: openib is not part of OPAL; its hardware "
                                        "(InfiniBand, RoCE, iWARP) is reached by verbs\n"));
  const Outcome unknown = opal_info("2>&1 >/dev/null", "OPAL_AM_TRANSPORTS=tpc");
  EXPECT_EQ(unknown.status, 1);
  EXPECT_THAT(unknown.output, HasSubstr("no transport is called \"tpc\"; there are: "));
}

TEST(OpalInfo, RefusesWhatItDoesNotUnderstandAndSaysWhatThereIs) {
  const Outcome group = opal_info("--group nonsense 2>&1");
  EXPECT_EQ(group.status, 2);
  EXPECT_THAT(group.output, AllOf(HasSubstr("no group is called nonsense"), HasSubstr(" am")));
  EXPECT_EQ(opal_info("--level wizard 2>&1").status, 2);
  EXPECT_EQ(opal_info("--set spin 2>&1").status, 2);
  EXPECT_EQ(opal_info("--frobnicate 2>&1").status, 2);
  EXPECT_EQ(opal_info("--help").status, 0);
}

TEST(OpalInfo, JsonIsOneObjectWithEverything) {
  const Outcome outcome = opal_info("--json", "OPAL_AM_SPIN=70");
  ASSERT_EQ(outcome.status, 0);
  const json report = json::parse(outcome.output);
  EXPECT_FALSE(report["version"].get<std::string>().empty());
  EXPECT_FALSE(report["build"]["compiler"].get<std::string>().empty());
  const json spin = variable(report, "am_spin");
  ASSERT_FALSE(spin.is_null());
  EXPECT_EQ(spin["value"], "70us");
  EXPECT_EQ(spin["source"], "environment");
  EXPECT_EQ(spin["origin"], "OPAL_AM_SPIN");
  EXPECT_NE(spin["default"], "70us");
  EXPECT_EQ(spin["type"], "time");
  EXPECT_TRUE(report["problems"].empty());
}

TEST(OpalInfo, JsonKeepsABadSettingAndAnyBytesInIt) {
  const json report = json::parse(opal_info("--json 2>/dev/null", "OPAL_AM_SPIN='\xff'").output);
  EXPECT_EQ(report["problems"].size(), 1u);
  EXPECT_THAT(variable(report, "am_spin")["problem"].get<std::string>(), HasSubstr("is not a time"));
}

TEST(OpalInfo, ShowsAndChecksTheVariablesOfLibrariesAboveIt) {
  const std::string environment = "LD_LIBRARY_PATH=" PLANTED_FOLDER;
  EXPECT_THAT(
      opal_info("", environment + " OPAL_RUNTIME_PLANTED_DEPTH=4").output,
      AllOf(HasSubstr("Planted by a test (runtime_planted)"), HasSubstr("4 [environment OPAL_RUNTIME_PLANTED_DEPTH]")));
  const Outcome bad = opal_info("2>&1 >/dev/null", environment + " OPAL_RUNTIME_PLANTED_DEPTH=40");
  EXPECT_EQ(bad.status, 1);
  EXPECT_THAT(bad.output, HasSubstr("runtime_planted_depth: value \"40\""));
}

TEST(OpalInfo, ListsEveryTransportWithAReasonWhenItIsRefused) {
  const json report = json::parse(opal_info("--json").output);
  std::set<std::string> names;
  for (const json& transport : report["transports"]) {
    names.insert(transport["name"]);
    EXPECT_FALSE(transport["summary"].get<std::string>().empty());
    if (!transport["usable"].get<bool>()) {
      EXPECT_FALSE(transport["why"].get<std::string>().empty());
    }
  }
  const btl::Registry registry = btl::Registry::with_builtins();
  EXPECT_EQ(names.size(), registry.components().size());
  for (const btl::Component* component : registry.components()) {
    EXPECT_TRUE(names.contains(std::string{component->name}));
  }
}

}  // namespace
}  // namespace opal
