// SPDX-License-Identifier: Apache-2.0
// Reads the dynamic sections and symbols of the built libraries with binutils: no library may depend on a layer above
// it.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/harness/in_child.hpp"

namespace opal::layering {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::vector<std::string> lines_of(const std::string& command) {
  struct Close {
    void operator()(FILE* file) const noexcept { status = ::pclose(file); }
    mutable int status = -1;
  };
  std::unique_ptr<FILE, Close> pipe{::popen(command.c_str(), "r")};
  EXPECT_NE(pipe, nullptr) << command;
  std::vector<std::string> lines;
  std::array<char, 65536> buffer{};
  while (pipe != nullptr && std::fgets(buffer.data(), buffer.size(), pipe.get()) != nullptr) {
    lines.emplace_back(buffer.data());
    if (!lines.back().empty() && lines.back().back() == '\n') lines.back().pop_back();
  }
  return lines;
}

/// The libraries that `library` names as needed.
std::vector<std::string> needed_by(const std::string& library) {
  std::vector<std::string> names;
  for (const std::string& line : lines_of("readelf -d '" + library + "'")) {
    const std::size_t open = line.find("Shared library: [");
    if (open == std::string::npos) continue;
    const std::size_t begin = line.find('[', open) + 1;
    names.push_back(line.substr(begin, line.find(']', begin) - begin));
  }
  return names;
}

struct Above {
  std::vector<std::string> libraries;  ///< beginnings of sonames
  std::vector<std::string> symbols;    ///< beginnings of demangled names
};

/// Whatever `library` needs or mentions, defined or not, of the layers above it.
std::vector<std::string> mentions(const std::string& library, const Above& above) {
  std::vector<std::string> found;
  for (const std::string& name : needed_by(library)) {
    for (const std::string& prefix : above.libraries) {
      if (name.starts_with(prefix)) found.push_back("needs " + name);
    }
  }
  for (const std::string& line : lines_of("nm -D -C '" + library + "'")) {
    // "address type name": the address is blank for an undefined symbol.
    std::istringstream words{line};
    std::string type;
    while (words >> type && type.size() != 1) {
    }
    std::string symbol;
    std::getline(words >> std::ws, symbol);
    for (const std::string& prefix : above.symbols) {
      if (symbol.starts_with(prefix)) found.push_back("mentions " + symbol);
    }
  }
  return found;
}

const Above kAboveOpal{{"libpmix", "libmpi", "libopal_runtime", "libopen-", "libevent"},
                       {"PMIx_", "pmix_", "MPI_", "PMPI_", "opal::runtime", "runtime::", "mpi_shim::"}};

TEST(Link, LibopalNeedsAndMentionsNothingOfPmixMpiOrTheRuntime) {
  EXPECT_THAT(mentions(OPAL_LIBRARY, kAboveOpal), IsEmpty());
}

TEST(Link, LibopalIsReallyLookedAt) {
  EXPECT_THAT(needed_by(OPAL_LIBRARY), Contains(HasSubstr("libhwloc")));
  EXPECT_THAT(mentions(OPAL_LIBRARY, {{"libc.so"}, {"opal::to_string"}}),
              ::testing::AllOf(Contains(HasSubstr("needs libc.so")), Contains(HasSubstr("mentions opal::to_string"))));
}

TEST(Link, LibopalResolvesEverySymbolItUses) {
  EXPECT_THAT(lines_of("ldd -r '" OPAL_LIBRARY "' 2>&1"), Not(Contains(HasSubstr("undefined symbol"))));
}

TEST(Link, APlantedDependencyOnPmixIsFound) {
  EXPECT_THAT(mentions(PLANTED_LIBRARY, kAboveOpal), Contains("mentions PMIx_Get"));
}

/// Open MPI's libraries export names that begin with opal_, too: one of ours that is one of theirs would be called in
/// its place.
TEST(Link, OpenMpiStartsInAProgramThatHasLibopal) {
  constexpr int kNone = 77;
  const int step = test::in_child([] {
    if (::dlopen(OPAL_LIBRARY, RTLD_NOW | RTLD_GLOBAL) == nullptr) return 1;
    void* const open_mpi = ::dlopen("libmpi.so.40", RTLD_NOW | RTLD_GLOBAL);  // its plug-ins look for their symbols
    if (open_mpi == nullptr) return kNone;
    ::setenv("OMPI_MCA_pml", "ob1", 1);  // nothing that looks for devices
    ::setenv("OMPI_MCA_btl", "self", 1);
    auto* const init = reinterpret_cast<int (*)(int*, char***)>(::dlsym(open_mpi, "MPI_Init"));
    auto* const finalize = reinterpret_cast<int (*)()>(::dlsym(open_mpi, "MPI_Finalize"));
    if (init == nullptr || init(nullptr, nullptr) != 0) return 2;
    return finalize == nullptr || finalize() != 0 ? 3 : 0;
  });
  if (step == kNone) GTEST_SKIP() << "needs libmpi.so.40: apt-get install libopenmpi3";
  EXPECT_EQ(step, 0) << "the step that failed";
}

#ifdef OPAL_RUNTIME_LIBRARY
TEST(Link, TheRuntimeNeedsAndMentionsNothingOfMpi) {
  EXPECT_THAT(mentions(OPAL_RUNTIME_LIBRARY, {{"libmpi"}, {"MPI_", "PMPI_", "mpi_shim::"}}), IsEmpty());
}
#endif

}  // namespace
}  // namespace opal::layering
