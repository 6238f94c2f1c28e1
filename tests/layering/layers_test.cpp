// SPDX-License-Identifier: Apache-2.0
#include "tests/layering/layers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

namespace opal::layering {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

bool allowed(const std::string& file, const std::string& target) {
  return !objection({.file = file, .line = 1, .target = target, .quoted = true});
}

TEST(Layers, TheTreeHasNoForbiddenInclude) { EXPECT_THAT(check_tree(OPAL_SOURCE_DIR), IsEmpty()); }

TEST(Layers, TheTreeIsReallyLookedAt) {
  EXPECT_TRUE(fs::exists(fs::path{OPAL_SOURCE_DIR} / "opal/core/result.hpp"));
  EXPECT_TRUE(fs::exists(fs::path{OPAL_SOURCE_DIR} / "opal/core/log.cpp"));
}

TEST(Layers, EveryFolderBelongsToItsDeepestRow) {
  EXPECT_EQ(layer_of("opal/core/result.hpp"), "opal/core");
  EXPECT_EQ(layer_of("opal/btl/module.hpp"), "opal/btl");
  EXPECT_EQ(layer_of("opal/btl/sm/module.hpp"), "opal/btl/sm");
  EXPECT_EQ(layer_of("runtime/host/session.hpp"), "runtime");
  EXPECT_EQ(layer_of("runtime/client/client.hpp"), "runtime/client");
  EXPECT_EQ(layer_of("mpi_shim/coll/algorithms/bcast.cpp"), "mpi_shim");
  EXPECT_EQ(layer_of("opal/novelty/x.hpp"), "");
  EXPECT_EQ(layer_of("opal/corelike/x.hpp"), "");
}

TEST(Layers, DependenciesPointDownwards) {
  EXPECT_TRUE(allowed("opal/am/context.cpp", "opal/btl/module.hpp"));
  EXPECT_TRUE(allowed("opal/am/context.cpp", "opal/core/result.hpp"));
  EXPECT_TRUE(allowed("opal/mpool/pool.hpp", "opal/allocator/best_fit.hpp"));
  EXPECT_TRUE(allowed("opal/btl/sm/module.cpp", "opal/mpool/shared_pool.hpp"));
  EXPECT_TRUE(allowed("opal/btl/sm/module.cpp", "opal/btl/shared/rdma_emulation.hpp"));
  EXPECT_TRUE(allowed("opal/btl/shared/quiescence.cpp", "opal/btl/module.hpp"));
  EXPECT_TRUE(allowed("opal/am/context.cpp", "opal/btl/shared/rdma_emulation.hpp"));
  EXPECT_TRUE(allowed("opal/tools/opal_info.cpp", "opal/btl/registry.hpp"));
  EXPECT_TRUE(allowed("runtime/host/session.cpp", "opal/am/context.hpp"));
  EXPECT_TRUE(allowed("runtime/tools/perf/main.cpp", "runtime/client/client.hpp"));
  EXPECT_TRUE(allowed("mpi_shim/init.cpp", "runtime/client/client.hpp"));
  EXPECT_TRUE(allowed("opal/btl/smcuda/module.cpp", "opal/btl/sm/module.hpp"));
  EXPECT_TRUE(allowed("opal/btl/verbs/module.cpp", "opal/btl/rails/module.hpp"));
}

TEST(Layers, EveryForbiddenDirectionIsRefused) {
  const std::pair<const char*, const char*> edges[] = {
      {"opal/core/log.cpp", "opal/allocator/best_fit.hpp"},
      {"opal/core/log.cpp", "opal/topology/topology.hpp"},
      {"opal/topology/topology.cpp", "opal/memory/events/monitor.hpp"},
      {"opal/allocator/best_fit.cpp", "opal/mpool/pool.hpp"},
      {"opal/mpool/pool.cpp", "opal/rcache/cache.hpp"},
      {"opal/rcache/cache.cpp", "opal/mpool/pool.hpp"},
      {"opal/rcache/cache.cpp", "opal/btl/module.hpp"},
      {"opal/btl/registry.cpp", "opal/btl/sm/module.hpp"},
      {"opal/btl/module.hpp", "opal/am/context.hpp"},
      {"opal/btl/module.hpp", "opal/btl/shared/rdma_emulation.hpp"},
      {"opal/btl/shared/quiescence.cpp", "opal/btl/sm/module.hpp"},
      {"opal/btl/sm/module.cpp", "opal/btl/tcp/module.hpp"},
      {"opal/btl/rails/module.cpp", "opal/btl/verbs/module.hpp"},
      {"opal/btl/sm/module.cpp", "opal/btl/smcuda/module.hpp"},
      {"opal/btl/sm/module.cpp", "opal/am/context.hpp"},
      {"opal/am/context.cpp", "opal/btl/sm/module.hpp"},
      {"opal/am/context.cpp", "opal/capi/opal.h"},
      {"opal/capi/opal_c.cpp", "opal/tools/table.hpp"},
      {"opal/am/context.cpp", "runtime/client/client.hpp"},
      {"opal/tools/opal_info.cpp", "mpi_shim/abi/function.hpp"},
      {"runtime/host/session.cpp", "mpi_shim/abi/function.hpp"},
      {"runtime/host/session.cpp", "opal/btl/tcp/module.hpp"},
      {"runtime/host/session.cpp", "runtime/client/client.hpp"},
      {"mpi_shim/init.cpp", "runtime/host/session.hpp"},
      {"mpi_shim/init.cpp", "opal/btl/sm/module.hpp"},
      {"opal/novelty/x.cpp", "opal/core/log.hpp"},
      {"opal/core/log.cpp", "opal/novelty/x.hpp"},
  };
  for (const auto& [file, target] : edges) EXPECT_FALSE(allowed(file, target)) << file << " -> " << target;
}

TEST(Layers, HeadersOfPmixAndMpiStayInTheirLayer) {
  const auto system = [](const char* file, const char* target) {
    return !objection({.file = file, .line = 1, .target = target, .quoted = false});
  };
  EXPECT_TRUE(system("runtime/pmix/server.cpp", "pmix_server.h"));
  EXPECT_TRUE(system("mpi_shim/init.cpp", "mpi.h"));
  EXPECT_TRUE(system("opal/core/log.cpp", "vector"));
  EXPECT_FALSE(system("opal/am/context.cpp", "pmix.h"));
  EXPECT_FALSE(system("mpi_shim/init.cpp", "pmix.h"));
  EXPECT_FALSE(system("runtime/host/session.cpp", "mpi.h"));
  EXPECT_FALSE(system("opal/core/log.cpp", "runtime/client/client.hpp")) << "angle brackets are no way around";
}

TEST(Layers, IncludesAreFoundHoweverTheyAreSpaced) {
  const auto found =
      includes_of("f.cpp", "  #  include \"a/b.hpp\" // why\n#include<vector>\n// #include \"c\"\n#define X\n");
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].target, "a/b.hpp");
  EXPECT_EQ(found[0].line, 1u);
  EXPECT_TRUE(found[0].quoted);
  EXPECT_EQ(found[1].target, "vector");
  EXPECT_FALSE(found[1].quoted);
}

/// A small tree of sources that a test plants mistakes in.
class PlantedTree : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::temp_directory_path() / ("opal-layering-" + std::to_string(::getpid()));
    plant("opal/core/log.hpp", "#pragma once\n#include <string>\n");
    plant("opal/core/log.cpp", "#include \"opal/core/log.hpp\"\n");
    plant("opal/mpool/pool.hpp", "#pragma once\n#include \"opal/core/log.hpp\"\n");
  }
  void TearDown() override { fs::remove_all(root_); }
  void plant(const std::string& file, const std::string& text) {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream{root_ / file} << text;
  }
  fs::path root_;
};

TEST_F(PlantedTree, IsCleanBeforeAnythingIsPlanted) { EXPECT_THAT(check_tree(root_), IsEmpty()); }

TEST_F(PlantedTree, AForbiddenIncludeIsFoundWithFileAndLine) {
  plant("opal/rcache/cache.cpp", "// cache\n#include \"opal/mpool/pool.hpp\"\n");
  EXPECT_THAT(check_tree(root_),
              ElementsAre("opal/rcache/cache.cpp:2: opal/rcache may not include opal/mpool (\"opal/mpool/pool.hpp\")"));
}

TEST_F(PlantedTree, AnIncludeThatIsNoPathFromTheRootIsFound) {
  plant("opal/core/fd.cpp", "#include \"log.hpp\"\n");
  plant("opal/mpool/page.cpp", "#include \"../core/log.hpp\"\n");
  EXPECT_THAT(check_tree(root_), ElementsAre(HasSubstr("opal/core/fd.cpp:1: \"log.hpp\" is not a path"),
                                             HasSubstr("opal/mpool/page.cpp:1: \"../core/log.hpp\" is not a path")));
}

TEST_F(PlantedTree, ASourceThatDoesNotBeginWithItsOwnHeaderIsFound) {
  plant("opal/core/log.cpp", "#include <string>\n#include \"opal/core/log.hpp\"\n");
  EXPECT_THAT(check_tree(root_), ElementsAre(HasSubstr("opal/core/log.cpp: the first include is not its own header")));
}

TEST_F(PlantedTree, TwoFoldersOfOneLayerMustNotIncludeEachOther) {
  plant("opal/core/sync/turn.hpp", "#include \"opal/core/system/fd.hpp\"\n");
  plant("opal/core/system/fd.hpp", "#include <string>\n");
  plant("opal/core/system/fork.cpp", "#include <string>\n#include \"opal/core/sync/turn.hpp\"\n");
  EXPECT_THAT(check_tree(root_),
              ElementsAre("folders include each other: opal/core/sync/turn.hpp:1 (opal/core/system/fd.hpp) "
                          "opal/core/system/fork.cpp:2 (opal/core/sync/turn.hpp)"));
}

TEST_F(PlantedTree, ACycleOfThreeFoldersIsFound) {
  plant("runtime/a/a.hpp", "#include \"runtime/b/b.hpp\"\n");
  plant("runtime/b/b.hpp", "#include \"runtime/c/c.hpp\"\n");
  plant("runtime/c/c.hpp", "#pragma once\n");
  plant("runtime/c/more.hpp", "#include \"runtime/a/a.hpp\"\n");
  EXPECT_THAT(check_tree(root_), ElementsAre(HasSubstr("folders include each other")));
}

TEST_F(PlantedTree, ASubFolderIncludesOnlyTheValuesOfItsParent) {
  plant("opal/btl/tcp/config.hpp", "#pragma once\n");
  plant("opal/btl/tcp/endpoint.hpp", "#include \"opal/btl/tcp/connections/dialer.hpp\"\n");
  plant("opal/btl/tcp/connections/dialer.hpp", "#include \"opal/btl/tcp/config.hpp\"\n");
  EXPECT_THAT(check_tree(root_), IsEmpty());
  plant("opal/btl/tcp/connections/acceptor.hpp", "#include \"opal/btl/tcp/endpoint.hpp\"\n");
  EXPECT_THAT(check_tree(root_), ElementsAre(HasSubstr("folders include each other")));
}

TEST_F(PlantedTree, AFolderOfMoreThanTwentyFilesNeedsSubFolders) {
  for (int i = 0; i < 19; ++i) plant("opal/mpool/part" + std::to_string(i) + ".hpp", "#pragma once\n");
  EXPECT_THAT(check_tree(root_), IsEmpty());
  plant("opal/mpool/last.hpp", "#pragma once\n");
  EXPECT_THAT(check_tree(root_), ElementsAre(HasSubstr("opal/mpool: 21 files")));
  plant("opal/mpool/shared/part.hpp", "#pragma once\n");
  EXPECT_THAT(check_tree(root_), IsEmpty());
}

TEST_F(PlantedTree, ANewFolderMustBeInTheTable) {
  plant("opal/novelty/thing.hpp", "#include <string>\n");
  EXPECT_THAT(check_tree(root_), ElementsAre(HasSubstr("opal/novelty/thing.hpp:1: this folder is not in the table")));
}

}  // namespace
}  // namespace opal::layering
