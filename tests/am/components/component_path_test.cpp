// SPDX-License-Identifier: Apache-2.0
// Components that are loaded from the directories of am_component_path, and the files that are refused.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "opal/am/components.hpp"
#include "opal/am/config.hpp"
#include "opal/am/context.hpp"
#include "opal/btl/component_record.hpp"
#include "tests/harness/program.hpp"

namespace {
bool secure = false;  // the process has more rights than its user
}

/// In place of the C library's, which gives the other entries: LeakSanitizer finds the loader, whose memory is no leak,
/// by one.
extern "C" OPAL_EXPORT unsigned long getauxval(unsigned long type) noexcept {
  if (type == AT_SECURE) return secure ? 1 : 0;
  return reinterpret_cast<decltype(&getauxval)>(::dlsym(RTLD_NEXT, "getauxval"))(type);
}

namespace opal::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

std::string directory(const std::string& name) { return COMPONENTS "/" + name; }
std::string file(const std::string& name) { return directory(name) + "/" + name + ".so"; }

config::Store with_path(const std::string& path) {
  config::Store store;
  store.set("am_component_path", path);
  return store;
}

am::Components find(const std::string& path) { return am::find_components(with_path(path)); }

/// Why the only file of `path` is refused; fails if it is not refused.
std::string refusal(const std::string& path, const std::string& of) {
  const am::Components found = find(path);
  EXPECT_EQ(found.registry.components().size(), btl::Registry::with_builtins().components().size());
  if (found.files.size() != 1) return "there is not one file";
  EXPECT_EQ(found.files[0].path, of);
  EXPECT_EQ(found.files[0].component, nullptr);
  return found.files[0].refusal;
}
std::string refusal(const std::string& name) { return refusal(directory(name), file(name)); }

/// Why the transport was not opened; fails if the Context does not know it.
std::string refusal_in(const am::Context& context, std::string_view name) {
  for (const am::TransportState& state : context.transports()) {
    if (state.name == name) return state.reason;
  }
  ADD_FAILURE() << "no transport " << name;
  return {};
}

std::string opal_info(const std::string& arguments, int& status) {
  FILE* const pipe = ::popen(("env -i HOME=/nonexistent '" OPAL_INFO "' " + arguments + " 2>&1").c_str(), "r");
  std::string output;
  std::array<char, 4096> buffer{};
  for (std::size_t size = 0; (size = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
    output.append(buffer.data(), size);
  }
  status = ::pclose(pipe);
  return output;
}

TEST(ComponentPath, EmptyLoadsNothing) {
  const am::Components found = am::find_components({});
  EXPECT_TRUE(found.files.empty());
  EXPECT_EQ(found.registry.components().size(), btl::Registry::with_builtins().components().size());
}

TEST(ComponentPath, AComponentIsRegisteredBesideTheBuiltInOnes) {
  const am::Components found = find(directory("good"));
  ASSERT_EQ(found.files.size(), 1U);
  EXPECT_EQ(found.files[0].path, file("good"));
  EXPECT_EQ(found.files[0].refusal, "");
  ASSERT_NE(found.files[0].component, nullptr);
  EXPECT_EQ(found.registry.find("outside"), found.files[0].component);
  EXPECT_NE(found.registry.find("tcp"), nullptr);
}

TEST(ComponentPath, AContextOpensItByNameWithItsVariables) {
  config::Store store = with_path(directory("good"));
  store.set("am_transports", "self,outside");
  store.set("btl_outside_depth", "7");
  const auto context = am::Context::open(store);
  ASSERT_TRUE(context) << to_string(context.error());
  EXPECT_THAT(refusal_in(**context, "outside"), HasSubstr("a depth opens nothing: not_supported [7]"));
  store.set("btl_outside_depth", "10");
  const auto refused = am::Context::open(store);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().where, HasSubstr("btl_outside_depth"));
}

TEST(ComponentPath, AComponentThatLeavesFieldsUnsetHasTheirDefaults) {
  const am::Components found = find(directory("minimal"));
  const btl::Component* const component = found.registry.find("minimal");
  ASSERT_NE(component, nullptr);
  EXPECT_TRUE(component->usable({}));
  EXPECT_EQ(component->vars, nullptr);
  config::Store store = with_path(directory("minimal"));
  store.set("am_transports", "self,minimal");
  const auto context = am::Context::open(store);
  ASSERT_TRUE(context);
  EXPECT_THAT(refusal_in(**context, "minimal"), HasSubstr("the component has no open function"));
}

TEST(ComponentPath, SeveralDirectoriesAreReadInTheirOrder) {
  const am::Components found = find(directory("minimal") + ":" + directory("good"));
  ASSERT_EQ(found.files.size(), 2U);
  EXPECT_EQ(found.files[0].path, file("minimal"));
  EXPECT_EQ(found.files[1].path, file("good"));
  EXPECT_NE(found.registry.find("minimal"), nullptr);
  EXPECT_NE(found.registry.find("outside"), nullptr);
}

TEST(ComponentPath, AnotherAbiVersionIsRefusedWithBothVersions) {
  EXPECT_THAT(refusal("old"),
              AllOf(HasSubstr("version 0;"), HasSubstr("needed is version " + std::to_string(btl::kComponentAbi))));
  EXPECT_THAT(refusal("new"), HasSubstr("version " + std::to_string(btl::kComponentAbi + 1) + ";"));
}

TEST(ComponentPath, AnObjectWithoutRecordIsRefused) {
  EXPECT_THAT(refusal("no_record"), AllOf(HasSubstr("no symbol opal_component"),
                                          HasSubstr("needed is version " + std::to_string(btl::kComponentAbi))));
}

TEST(ComponentPath, ARecordThatTheRegistryCannotTakeIsRefused) {
  EXPECT_THAT(refusal("null"), HasSubstr("names no component"));
  EXPECT_THAT(refusal("badly_named"), HasSubstr("\"Out_side\" is no name of a transport"));
  EXPECT_THAT(refusal("other_variables"), HasSubstr("its variables are called btl_tcp_*, not btl_outside_*"));
}

TEST(ComponentPath, ANameThatIsTakenIsRefused) {
  EXPECT_THAT(refusal("tcp_again"), HasSubstr("the name tcp is taken by a transport of libopal"));
  const am::Components found = find(directory("good") + ":" + directory("twin"));
  ASSERT_EQ(found.files.size(), 2U);
  EXPECT_EQ(found.files[1].component, nullptr);
  EXPECT_THAT(found.files[1].refusal, HasSubstr("the name outside is taken by " + file("good")));
}

TEST(ComponentPath, AnObjectThatTheLoaderRefusesIsRefusedWithItsReason) {
  EXPECT_THAT(refusal("unresolved"), HasSubstr("opal_test_missing_function"));
}

TEST(ComponentPath, WhatIsNoSharedObjectIsRefused) {
  const Scratch folder;
  const std::string path = folder.file("x.so");
  std::ofstream{path} << "";
  EXPECT_THAT(refusal(folder.path(), path), HasSubstr("file too short"));
  std::ofstream{path} << std::string(5000, 'x');
  EXPECT_THAT(refusal(folder.path(), path), HasSubstr("invalid ELF header"));
  fs::remove(path);
  fs::create_directory(path);
  EXPECT_EQ(refusal(folder.path(), path), "not a regular file");
  fs::remove(path);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_EQ(refusal(folder.path(), path), "not a regular file");
  fs::remove(path);
  fs::create_symlink("/nonexistent", path);
  EXPECT_THAT(refusal(folder.path(), path), HasSubstr("No such file"));
}

/// The loader would map it and die of SIGBUS.
TEST(ComponentPath, ATruncatedObjectIsRefused) {
  const Scratch folder;
  const std::string path = folder.file("x.so");
  fs::copy_file(file("good"), path);
  fs::resize_file(path, 4096);
  EXPECT_EQ(refusal(folder.path(), path), "truncated: it has 4096 bytes");
  for (const std::uintmax_t size : {2048, 1024, 512, 256, 64, 8}) {
    fs::resize_file(path, size);
    EXPECT_NE(refusal(folder.path(), path), "") << size;
  }
}

TEST(ComponentPath, OtherFilesAreNotComponents) {
  const Scratch folder;
  std::ofstream{folder.file("README")} << "text";
  EXPECT_TRUE(find(folder.path()).files.empty());
}

TEST(ComponentPath, ADirectoryThatCannotBeReadIsRefused) {
  EXPECT_THAT(refusal("/nonexistent/components", "/nonexistent/components"), HasSubstr("No such file"));
  EXPECT_THAT(refusal("components", "components"), HasSubstr("not the absolute path"));
}

TEST(ComponentPath, AProcessWithMoreRightsThanItsUserLoadsNothing) {
  secure = true;
  const std::string why = refusal(directory("good"), directory("good"));
  secure = false;
  EXPECT_THAT(why, HasSubstr("more rights than its user"));
  EXPECT_EQ(find(directory("good")).files[0].refusal, "");
}

TEST(ComponentPath, OpalInfoShowsFilesVariablesAndRefusals) {
  int status = -1;
  const std::string set = "--set am_component_path=" + directory("good") + ":" + directory("old");
  const std::string text = opal_info(set, status);
  EXPECT_EQ(status, 0);
  EXPECT_THAT(text, AllOf(HasSubstr("A transport of a test [" + file("good") + "]"), HasSubstr("btl_outside_depth"),
                          HasSubstr("  " + file("old") + ": its component ABI is version 0")));
  const json report = json::parse(opal_info("--json " + set, status));
  ASSERT_EQ(report["refused_components"].size(), 1U);
  EXPECT_EQ(report["refused_components"][0]["file"], file("old"));
  bool listed = false;
  for (const json& transport : report["transports"]) {
    EXPECT_EQ(transport.contains("file"), transport["name"] == "outside");
    listed = listed || transport.value("file", "") == file("good");
  }
  EXPECT_TRUE(listed);
  (void)opal_info(set + " --set btl_outside_depth=10", status);
  EXPECT_EQ(WEXITSTATUS(status), 1);
}

}  // namespace
}  // namespace opal::test
