// SPDX-License-Identifier: Apache-2.0
// Rules that every declared variable keeps.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "opal/am/components.hpp"
#include "opal/core/config/store.hpp"

namespace opal {
namespace {

std::vector<const config::GroupInfo*> all_groups() { return am::config_groups(btl::Registry::with_builtins()); }

template <class Check>
void for_each_variable(Check check) {
  for (const config::GroupInfo* group : all_groups()) {
    for (std::size_t i = 0; i < group->size(); ++i) {
      const std::string name = group->full_name(i);
      SCOPED_TRACE(name);
      check(name, group->var(i), group->default_value(i));
    }
  }
}

TEST(ConfigGroups, EveryDefaultIsAllowedAndReadBackFromWhatListingsShow) {
  for_each_variable([](const std::string&, const config::VarInfo& var, const config::Value& value) {
    const config::Parsed again = config::parse(config::to_string(value), var.type, var.range);
    EXPECT_EQ(again.problem, "");
    EXPECT_EQ(again.value, value);
  });
}

TEST(ConfigGroups, NamesAreProperAndUnique) {
  std::set<std::string> seen;
  for_each_variable([&](const std::string& name, const config::VarInfo&, const config::Value&) {
    const auto assignment = config::parse_assignment(name + "=value");
    ASSERT_TRUE(assignment);
    EXPECT_EQ(assignment->first, name);
    EXPECT_TRUE(seen.insert(name).second) << "declared twice";
  });
  EXPECT_TRUE(seen.contains("log"));
  EXPECT_TRUE(seen.contains("am_transports"));
}

TEST(ConfigGroups, EveryVariableIsExplainedInASentence) {
  for_each_variable([](const std::string&, const config::VarInfo& var, const config::Value&) {
    const std::string doc = var.doc;
    EXPECT_GE(doc.size(), 10u);
    EXPECT_EQ(doc.back(), '.');
    EXPECT_EQ(doc.find('\n'), std::string::npos);
  });
}

TEST(ConfigGroups, EveryTransportWithVariablesIsListed) {
  const btl::Registry registry = btl::Registry::with_builtins();
  std::set<std::string> groups;
  for (const config::GroupInfo* group : am::config_groups(registry)) groups.insert(group->name());
  for (const btl::Component* component : registry.components()) {
    if (component->vars != nullptr) {
      EXPECT_EQ(component->vars->name(), "btl_" + std::string{component->name});
      EXPECT_TRUE(groups.contains(component->vars->name()));
    }
  }
}

}  // namespace
}  // namespace opal
