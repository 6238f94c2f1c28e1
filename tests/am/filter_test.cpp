// SPDX-License-Identifier: Apache-2.0
// am_transports, the choice among transports, and what explain() says of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "opal/am/transports/transports.hpp"
#include "tests/am/scripted_transport.hpp"

namespace opal::test {
namespace {

using ::testing::HasSubstr;

am::TransportFilter parse(std::string_view list) {
  btl::Registry registry;
  registry.add(kFast);
  registry.add(kSlow);
  auto filter = am::TransportFilter::parse(list, registry);
  EXPECT_TRUE(filter);
  return *filter;
}

TEST(TransportFilter, EmptyAllowsAll) { EXPECT_TRUE(parse("").allows(kFast) && parse("").allows(kSlow)); }

TEST(TransportFilter, AListAllowsWhatItNames) {
  EXPECT_TRUE(parse("slow").allows(kSlow));
  EXPECT_FALSE(parse("slow").allows(kFast));
  EXPECT_TRUE(parse("slow,fast").allows(kFast));
}

TEST(TransportFilter, ACaretAllowsAllOthers) {
  EXPECT_FALSE(parse("^slow").allows(kSlow));
  EXPECT_TRUE(parse("^slow").allows(kFast));
  EXPECT_FALSE(parse("^slow,fast").allows(kFast));
}

TEST(TransportFilter, UnknownNamesAreErrors) {
  btl::Registry registry;
  registry.add(kFast);
  for (const char* list : {"fats", ",", "^fats", "fast,,fast", " fast"}) {
    const auto filter = am::TransportFilter::parse(list, registry);
    ASSERT_FALSE(filter) << list;
    EXPECT_EQ(filter.error().code, Errc::invalid_argument);
  }
}

TEST(TransportFilter, AnUnknownNameIsSaidWithTheKnownOnes) {
  btl::Registry registry;
  registry.add(kFast);
  registry.add(kSlow);
  EXPECT_STREQ(am::TransportFilter::parse("fast,fats", registry).error().where,
               "am_transports: no transport is called \"fats\"; there are: fast, slow");
}

/// A transport of Open MPI that OPAL does not have, and the transports that its error has to name.
struct Heir {
  const char* name;
  std::vector<std::string> transports;
};
class RemovedTransport : public ::testing::TestWithParam<Heir> {};

TEST_P(RemovedTransport, IsRefusedWithItsHeir) {
  const auto [name, transports] = GetParam();
  for (const char* before : {"", "^", "self,"}) {
    const auto filter = am::TransportFilter::parse(std::string{before} + name, btl::Registry::with_builtins());
    ASSERT_FALSE(filter) << before;
    EXPECT_EQ(filter.error().code, Errc::invalid_argument);
    EXPECT_THAT(filter.error().where, HasSubstr(std::string{"am_transports: "} + name + " is not part of OPAL; "));
    for (const std::string& transport : transports) {
      EXPECT_THAT(filter.error().where, ::testing::ContainsRegex("(reached by|called) " + transport));
    }
  }
}

TEST_P(RemovedTransport, IsNoTransportOfThisTree) {
  EXPECT_EQ(btl::Registry::with_builtins().find(GetParam().name), nullptr);
}

INSTANTIATE_TEST_SUITE_P(Of, RemovedTransport,
                         ::testing::Values(Heir{"mx", {"tcp"}}, Heir{"openib", {"verbs"}}, Heir{"scif", {"sm"}},
                                           Heir{"udapl", {"verbs"}}, Heir{"ugni", {"tcp"}}, Heir{"usnic", {"tcp"}},
                                           Heir{"vader", {"sm"}}),
                         [](const auto& info) { return std::string{info.param.name}; });

constinit const btl::Component kBare{.name = "bare", .summary = "", .open = &open_scripted<kBare>};
constinit const btl::Component kEmpty{.name = "empty", .summary = ""};

TEST(Choice, AComponentMaySetNothingButItsNameAndOpen) {
  btl::Registry registry;
  registry.add(kBare);
  registry.add(kEmpty);
  const auto context = am::Context::open({}, {.registry = &registry});
  ASSERT_TRUE(context);
  const auto transports = (*context)->transports();
  ASSERT_EQ(transports.size(), 2u);
  EXPECT_EQ(transports[0].name, "bare");
  EXPECT_TRUE(transports[0].usable);
  EXPECT_FALSE(transports[1].usable);
  EXPECT_THAT(transports[1].reason, HasSubstr("no open function"));
}

TEST(Choice, HighestExclusivityThatReachesThePeerIsTaken) {
  ScriptedContext context;
  EXPECT_EQ(context.connect({"fast", "slow"}).attributes().transport, "fast");
  EXPECT_EQ(context.connect({"slow"}).attributes().transport, "slow");
}

TEST(Choice, ExplainNamesEveryCandidateAndWhy) {
  ScriptedContext context;
  const std::string both = context.connect({"fast", "slow"}).explain();
  EXPECT_THAT(both, HasSubstr("fast: taken: imaginary"));
  EXPECT_THAT(both, HasSubstr("slow: not needed, lower exclusivity"));
  EXPECT_THAT(both, HasSubstr("absent: not opened: open(/dev/absent)"));
  EXPECT_THAT(context.connect({"slow"}).explain(), HasSubstr("fast: the peer does not have it"));
  context.module(0).refuses = true;
  EXPECT_THAT(context.connect({"fast", "slow"}).explain(), HasSubstr("fast: refused: scripted: refuses"));
}

TEST(Choice, NoWayToThePeerIsAnError) {
  ScriptedContext context;
  const auto endpoint = context.context->connect(am::encode({PeerId::random(), {{"pigeon", {}}}}));
  ASSERT_FALSE(endpoint);
  EXPECT_EQ(endpoint.error().code, Errc::unreachable);
}

TEST(Choice, TransportsListsUsableAndRefusedOnes) {
  ScriptedContext context;
  std::vector<std::string> usable;
  std::vector<std::string> refused;
  for (const am::TransportState& state : context.context->transports()) {
    (state.usable ? usable : refused).emplace_back(state.name);
  }
  EXPECT_THAT(usable, ::testing::ElementsAre("fast", "slow"));
  EXPECT_THAT(refused, ::testing::ElementsAre("absent"));
}

TEST(Choice, TheVariableLeavesTransportsOut) {
  config::Store store;
  store.set("am_transports", "^fast");
  ScriptedContext context{store};
  EXPECT_THAT(context.connect({"fast", "slow"}).explain(), HasSubstr("fast: not opened: not allowed by am_transports"));
}

}  // namespace
}  // namespace opal::test
