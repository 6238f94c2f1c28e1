// SPDX-License-Identifier: Apache-2.0
// mpicc and mpicxx as users call them: by plain name through PATH, from a moved tree, asked for their flags.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "opal/core/sanitizer.hpp"

namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr const char* kProgram = R"(
#include <mpi.h>
#include <stdio.h>
#ifndef TEXT
#define TEXT "none"
#endif
int main(void) {
  int version = 0, subversion = -1;
  MPI_Aint address = 0;
  MPI_Get_version(&version, &subversion);
  if (MPI_Address(&version, &address) != MPI_SUCCESS || address != (MPI_Aint)&version) return 1;
  printf("MPI %d.%d %s\n", version, subversion, TEXT);
  return 0;
}
)";

struct Ran {
  int status = -1;
  std::string output;  ///< stdout and stderr
};

class AbiWrappers : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "opal-wrappers-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
    std::ofstream(dir_ / "program.c") << kProgram;
    std::ofstream(dir_ / "program.cc") << kProgram;
  }
  void TearDown() override { fs::remove_all(dir_); }

  /// Runs a shell command in the test's folder with our programs first in PATH and nothing else said to the loader.
  Ran run(const std::string& command, const std::string& bin = OPAL_TEST_BIN) const {
    const std::string line = "cd '" + dir_.string() +
                             "' && unset LD_LIBRARY_PATH OPAL_CC OMPI_CC MPICH_CC OPAL_CXX OMPI_CXX MPICH_CXX; PATH='" +
                             bin + "':\"$PATH\"; exec 2>&1; " + command;
    FILE* pipe = popen(line.c_str(), "r");
    if (pipe == nullptr) return {};
    Ran ran;
    std::array<char, 4096> bytes{};
    for (std::size_t n = 0; (n = std::fread(bytes.data(), 1, bytes.size(), pipe)) > 0;)
      ran.output.append(bytes.data(), n);
    const int status = pclose(pipe);
    ran.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    while (!ran.output.empty() && ran.output.back() == '\n') ran.output.pop_back();
    return ran;
  }

  fs::path dir_;
};

TEST_F(AbiWrappers, ACProgramBuiltByPlainNameRunsWithoutALibraryPath) {
  const Ran built = run("mpicc -Wall -Werror program.c -o program");
  ASSERT_EQ(built.status, 0) << built.output;
  EXPECT_EQ(run("./program").output, "MPI 5.0 none");
}

TEST_F(AbiWrappers, ACxxProgramBuildsUnderEveryNameOfTheWrapper) {
  for (const std::string name : {"mpicxx", "mpic++", "mpiCC"}) {
    const Ran built = run(name + " -std=c++11 -Wall -Wextra -Werror program.cc -o program");
    ASSERT_EQ(built.status, 0) << name << ": " << built.output;
    EXPECT_EQ(run("./program").output, "MPI 5.0 none") << name;
  }
}

TEST_F(AbiWrappers, CompilesAndLinksInTwoStepsAndKeepsSpacesInArguments) {
  ASSERT_EQ(run("mpicc '-DTEXT=\"two words\"' -c program.c -o 'an object.o'").status, 0);
  const Ran linked = run("mpicc -o program 'an object.o'");
  ASSERT_EQ(linked.status, 0) << linked.output;
  EXPECT_EQ(run("./program").output, "MPI 5.0 two words");
}

TEST_F(AbiWrappers, ShowPrintsACommandThatAShellRuns) {
  EXPECT_THAT(run("mpicc -show").output, HasSubstr("-lmpi_abi"));
  EXPECT_THAT(run("mpicc -show -c program.c").output, Not(HasSubstr("-lmpi_abi")));
  EXPECT_THAT(run("mpicc -showme program.c").output, EndsWith("-lmpi_abi"));
  const Ran shown = run("eval \"$(mpicc -show '-DTEXT=\"it'\\''s $HOME\"' program.c -o program)\" && ./program");
  EXPECT_EQ(shown.output, "MPI 5.0 it's $HOME");
}

TEST_F(AbiWrappers, AnswersTheQuestionsOfBuildSystems) {
  const std::string tree = fs::canonical(fs::path(OPAL_TEST_BIN) / "..").string();
  EXPECT_THAT(run("mpicc -showme:compile").output, AllOf(StartsWith("-I" + tree + "/include"), Not(HasSubstr("-D"))));
  EXPECT_THAT(run("mpicxx -showme:link").output, StartsWith("-L" + tree + "/lib -Wl,-rpath," + tree + "/lib"));
  EXPECT_EQ(run("mpicc -showme:incdirs").output, tree + "/include");
  EXPECT_EQ(run("mpicc -showme:libdirs").output, tree + "/lib");
  EXPECT_EQ(run("mpicc -showme:libs").output, "mpi_abi");
  EXPECT_THAT(run("mpicc -compile_info").output, HasSubstr(" -I" + tree + "/include"));
  EXPECT_THAT(run("mpicc -link-info").output, HasSubstr("-lmpi_abi"));
  EXPECT_THAT(run("mpicc -showme:version").output, HasSubstr("MPI 5.0"));
  const Ran unknown = run("mpicc -showme:nonsense");
  EXPECT_NE(unknown.status, 0);
  EXPECT_THAT(unknown.output, HasSubstr("nonsense"));
}

TEST_F(AbiWrappers, PassesQuestionsToTheCompilerWithoutLinking) {
  const Ran version = run("mpicc --version");
  EXPECT_EQ(version.status, 0) << version.output;
  EXPECT_EQ(run("mpicc -v").status, 0);
  EXPECT_EQ(run("mpicc -E program.c").status, 0);
}

TEST_F(AbiWrappers, TheEnvironmentAndAnOptionChooseTheCompiler) {
  EXPECT_EQ(run("OPAL_CC=one OMPI_CC=two MPICH_CC=three mpicc -showme:command").output, "one");
  EXPECT_EQ(run("OMPI_CC=two MPICH_CC=three mpicc -showme:command").output, "two");
  EXPECT_EQ(run("MPICH_CXX='three -x' mpicxx -showme:command").output, "three -x");
  EXPECT_THAT(run("mpicc -cc=four -show -c program.c").output, StartsWith("four -I"));
}

TEST_F(AbiWrappers, FindsItsOwnPlaceInAMovedTreeAndThroughLinks) {
  const fs::path bin = dir_ / "a moved tree" / "bin";
  fs::create_directories(bin);
  fs::copy_file(fs::path(OPAL_TEST_BIN) / "mpicc", bin / "mpicc");
  fs::create_directory_symlink(fs::path(OPAL_TEST_BIN) / ".." / "include", bin / ".." / "include");
  fs::create_directory_symlink(fs::path(OPAL_TEST_BIN) / ".." / "lib", bin / ".." / "lib");
  const Ran built = run("mpicc program.c -o program && ./program", bin.string());
  EXPECT_EQ(built.output, "MPI 5.0 none");
  fs::create_symlink(bin / "mpicc", dir_ / "my-mpicc");
  const Ran linked = run("./my-mpicc program.c -o other && ./other", "/nowhere");
  EXPECT_EQ(linked.output, "MPI 5.0 none");
}

TEST_F(AbiWrappers, AProgramBuiltForAnotherStandardLibraryRunsOnOursByLibraryPath) {
  std::ofstream(dir_ / "other.c")
      << "#include <mpi.h>\n"
         "int MPI_Get_version(int* v, int* s) { *v = 9; *s = 9; return MPI_SUCCESS; }\n"
         "int MPI_Get_address(const void* l, MPI_Aint* a) { *a = (MPI_Aint)l; return 0; }\n";
  const Ran built =
      run("cc=$(mpicc -showme:command) && flags=$(mpicc -showme:compile) && mkdir other && "
          "$cc $flags -shared -fPIC -Wl,-soname,libmpi_abi.so.1 other.c -o other/libmpi_abi.so.1 && "
          "$cc $flags program.c other/libmpi_abi.so.1 -Wl,-rpath,\"$PWD/other\" -Wl,--enable-new-dtags -o program && "
          "./program");
  ASSERT_EQ(built.output, "MPI 9.9 none");
  EXPECT_EQ(run("LD_LIBRARY_PATH=$(mpicc -showme:libdirs) ./program").output, "MPI 5.0 none");
}

TEST_F(AbiWrappers, CMakeFindsTheLibraryAndItsDefinitionsCanBeHandedOn) {
#if OPAL_ADDRESS_SANITIZER || OPAL_THREAD_SANITIZER
  GTEST_SKIP() << "needs a build without sanitizers: CMake leaves out the wrapper's -fsanitize";
#endif
  const fs::path project = dir_ / "project";
  fs::create_directories(project);
  std::ofstream(project / "CMakeLists.txt") << R"(
cmake_minimum_required(VERSION 3.18)
project(found C CXX)
find_package(MPI REQUIRED COMPONENTS C CXX)
include(CheckCSourceCompiles)
set(CMAKE_REQUIRED_INCLUDES ${MPI_C_INCLUDE_DIRS})
set(CMAKE_REQUIRED_DEFINITIONS ${MPI_C_COMPILE_DEFINITIONS})
set(CMAKE_REQUIRED_FLAGS ${MPI_C_COMPILE_OPTIONS})
set(CMAKE_REQUIRED_LIBRARIES ${MPI_C_LIBRARIES})
check_c_source_compiles("#include <mpi.h>
int main(void) { MPI_Fint world = MPI_Comm_c2f(MPI_COMM_WORLD); return MPI_Comm_f2c(world) != MPI_COMM_WORLD; }"
  has_conversions)
if(NOT has_conversions)
  message(FATAL_ERROR "MPI_Comm_c2f is missing")
endif()
add_executable(program ../program.c)
target_link_libraries(program MPI::MPI_C)
)";
  const Ran built =
      run("cmake -S project -B project/build -DMPI_C_COMPILER=mpicc -DMPI_CXX_COMPILER=mpicxx && "
          "cmake --build project/build");
  ASSERT_EQ(built.status, 0) << built.output;
  EXPECT_EQ(run("project/build/program").output, "MPI 5.0 none");
}

TEST_F(AbiWrappers, AdditionsToTheStandardCanBeSwitchedOff) {
  EXPECT_NE(run("mpicc -DOPAL_MPI_NO_COMPAT -Werror=implicit-function-declaration -c program.c").status, 0);
  EXPECT_EQ(run("printf '#include <mpi.h>\\nint version = MPI_VERSION;\\n' > old.c && mpicc -ansi -c old.c").status, 0);
}

}  // namespace
