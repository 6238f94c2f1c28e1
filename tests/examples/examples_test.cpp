// SPDX-License-Identifier: Apache-2.0
// The examples of docs/examples, run as their first lines say.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "opal/am/context.hpp"
#include "opal/btl/registry.hpp"
#include "tests/harness/program.hpp"

namespace opal::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::string kBin = OPAL_TEST_BIN;

/// What a pair of processes may talk over: everything that is usable here and reaches other processes.
std::vector<std::string> transports_between_processes() {
  std::vector<std::string> names;
  const btl::Registry registry = btl::Registry::with_builtins();
  for (const btl::Component* component : registry.components()) {
    if (component->reach == btl::Reach::others && component->usable(config::Store{}))
      names.emplace_back(component->name);
  }
  return names;
}

class TwoPeers : public ::testing::TestWithParam<std::string> {
 protected:
  /// One program listens, the other connects; both must find everything right, over the transport of the parameter.
  void converse(const std::string& listener_program, const std::string& connector_program) {
    const Environment environment{{"OPAL_AM_TRANSPORTS", GetParam()}};
    const std::string where = scratch_.file("where");
    Program listener{
        {kBin + "/" + listener_program, "listen", "127.0.0.1:0", where}, scratch_.file("listener"), environment};
    const std::string address = wait_for_line(where);
    ASSERT_FALSE(address.empty()) << listener.output();
    Program connector{{kBin + "/" + connector_program, "connect", address}, scratch_.file("connector"), environment};
    EXPECT_EQ(connector.wait(), 0) << connector.output();
    EXPECT_EQ(listener.wait(), 0) << listener.output();
    for (const Program* program : {&listener, &connector}) {
      EXPECT_THAT(program->output(), AllOf(HasSubstr(GetParam() + ": taken"), HasSubstr("region: right")));
    }
  }
  Scratch scratch_;
};

TEST_P(TwoPeers, TwoCxxProgramsReachIntoEachOthersMemory) { converse("two_peers", "two_peers"); }

TEST_P(TwoPeers, TwoCProgramsReachIntoEachOthersMemory) { converse("two_peers_c", "two_peers_c"); }

INSTANTIATE_TEST_SUITE_P(Over, TwoPeers, ::testing::ValuesIn(transports_between_processes()),
                         [](const auto& info) { return info.param; });
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(TwoPeers);

TEST(WholeAddressSpace, APeerWritesIntoMemoryThatWasAllocatedAfterItGotTheKey) {
  const Scratch scratch;
  Program program{{kBin + "/whole_address_space"}, scratch.file("log")};
  EXPECT_EQ(program.wait(), 0) << program.output();
  EXPECT_THAT(program.output(), ::testing::AnyOf(AllOf(HasSubstr("new memory: right"), HasSubstr("secret: refused")),
                                                 HasSubstr("not possible here")));
}

TEST(WholeAddressSpace, WithoutATransportBetweenTheProcessesItEndsWithAnError) {
  const Scratch scratch;
  Program program{{kBin + "/whole_address_space"}, scratch.file("log"), {{"OPAL_AM_TRANSPORTS", "self"}}};
  const int status = program.wait();
  if (status == 0) {
    EXPECT_THAT(program.output(), HasSubstr("not possible here"));
  } else {
    EXPECT_EQ(status, 1);
    EXPECT_THAT(program.output(), HasSubstr("whole_address_space: 127.0.0.1"));
  }
}

TEST(TwoPeers, WithoutArgumentsSaysHowToUseIt) {
  const Scratch scratch;
  for (const std::string name : {"two_peers", "two_peers_c"}) {
    Program program{{kBin + "/" + name}, scratch.file(name)};
    EXPECT_EQ(program.wait(), 2);
    EXPECT_THAT(program.output(), HasSubstr("usage: " + name));
  }
}

TEST(TwoPeers, NobodyAtThatPlaceIsAnErrorThatSaysSo) {
  const Scratch scratch;
  Program program{{kBin + "/two_peers", "connect", "no-such-host.invalid:1"}, scratch.file("log")};
  EXPECT_EQ(program.wait(), 1);
  EXPECT_THAT(program.output(), HasSubstr("no process at no-such-host.invalid:1"));
}

TEST(TwoPeers, WithAPeerThatEndsEarlyEndsWithAnErrorThatSaysSo) {
  const Scratch scratch;
  for (const std::string name : {"two_peers", "two_peers_c"}) {
    const std::string where = scratch.file("where_" + name);
    Program listener{{kBin + "/" + name, "listen", "127.0.0.1:0", where}, scratch.file(name)};
    const std::string address = wait_for_line(where);
    ASSERT_FALSE(address.empty()) << listener.output();
    {
      const auto context = am::Context::open(config::Store::from_environment());
      ASSERT_TRUE(context);
      const auto peer = (*context)->connect_to(address, std::chrono::seconds{10});
      ASSERT_TRUE(peer) << to_string(peer.error());
      ASSERT_NE((*peer)->send_or_queue(kUserTags.last, {}, {}), Post::failed);  // connects
    }
    EXPECT_EQ(listener.wait(), 1);
    EXPECT_THAT(listener.output(), HasSubstr(name + ": the peer has ended"));
  }
}

class Ring : public ::testing::TestWithParam<int> {};

TEST_P(Ring, TokenCollectsWhatEveryRankFound) {
  const Scratch scratch;
  Program job{{kBin + "/opalrun", "-n", std::to_string(GetParam()), kBin + "/ring"}, scratch.file("log")};
  EXPECT_EQ(job.wait(), 0) << job.output();
}

INSTANTIATE_TEST_SUITE_P(Ranks, Ring, ::testing::Values(1, 2, 4), ::testing::PrintToStringParamName());

}  // namespace
}  // namespace opal::test
