// SPDX-License-Identifier: Apache-2.0
// What libmpi_abi exports, and that every function which is not there yet refuses by its name.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <mpi.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>

#include "mpi_shim/abi/generator/table.hpp"

namespace {

using opal::mpi::abi::Function;
using opal::mpi::abi::Group;
using opal::mpi::abi::Table;

Table read_table() {
  std::ifstream definitions(OPAL_TEST_FUNCTIONS_DEF);
  Table table = opal::mpi::abi::parse_table(definitions);
  std::ifstream symbols(OPAL_TEST_SYMBOLS);
  opal::mpi::abi::mark_implemented(table, symbols);
  return table;
}

/// The dynamic symbols of the library: name -> nm's letter.
std::map<std::string, char> exported() {
  const std::unique_ptr<FILE, int (*)(FILE*)> nm(popen(OPAL_TEST_NM " -D -P --defined-only " OPAL_TEST_LIBRARY, "r"),
                                                 pclose);
  std::map<std::string, char> symbols;
  std::array<char, 512> line{};
  while (nm && std::fgets(line.data(), line.size(), nm.get()) != nullptr) {
    std::istringstream fields(line.data());
    std::string name;
    char kind = '?';
    if (fields >> name >> kind) symbols.emplace(name, kind);
  }
  return symbols;
}

/// An address in the library, null when it has no such symbol.
void* lookup(const std::string& name) {
  static void* const library = dlopen(OPAL_TEST_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  return library != nullptr ? dlsym(library, name.c_str()) : nullptr;
}

struct Outcome {
  bool exited = false;
  int status = 0;    ///< exit status, one of the two below when the function returned; else the signal
  std::string said;  ///< what it wrote to stderr
};
constexpr int kReturnedSuccess = 200;
constexpr int kReturnedError = 201;

/// Calls a function that is expected to look at nothing but a handle, in a process of its own.
Outcome call_with_zeros(const std::string& name) {
  std::array<int, 2> pipe_fds{};
  if (pipe(pipe_fds.data()) != 0) return {};
  const pid_t child = fork();
  if (child == 0) {
    dup2(pipe_fds[1], STDERR_FILENO);
    using AnyFunction = int (*)(void*, void*, void*, void*, void*, void*, void*, void*, void*, void*, void*, void*);
    auto* const call = reinterpret_cast<AnyFunction>(lookup(name));
    if (call == nullptr) _exit(99);
    void* const zero = nullptr;
    const int result = call(zero, zero, zero, zero, zero, zero, zero, zero, zero, zero, zero, zero);
    _exit(result == MPI_SUCCESS ? kReturnedSuccess : kReturnedError);
  }
  close(pipe_fds[1]);
  Outcome outcome;
  std::array<char, 256> bytes{};
  for (ssize_t n = 0; (n = read(pipe_fds[0], bytes.data(), bytes.size())) > 0;) {
    outcome.said.append(bytes.data(), static_cast<std::size_t>(n));
  }
  close(pipe_fds[0]);
  int status = 0;
  waitpid(child, &status, 0);
  outcome.exited = WIFEXITED(status);
  outcome.status = outcome.exited ? WEXITSTATUS(status) : WTERMSIG(status);
  return outcome;
}

TEST(AbiSymbols, TheTableHasTheFunctionsOfTheStandard) {
  std::size_t functions = 0;
  for (const Group& group : read_table()) functions += group.functions.size();
  EXPECT_EQ(functions, 662U);
}

TEST(AbiSymbols, ExactlyTheFunctionsOfTheTableAreExportedWeakAsMpiAndStrongAsPmpi) {
  auto symbols = exported();
  for (const Group& group : read_table()) {
    for (const Function& function : group.functions) {
      EXPECT_EQ(symbols["MPI_" + function.name], 'W') << function.name;
      EXPECT_EQ(symbols["PMPI_" + function.name], 'T') << function.name;
      symbols.erase("MPI_" + function.name);
      symbols.erase("PMPI_" + function.name);
    }
  }
  EXPECT_EQ(symbols.erase("MPIX_Query_cuda_support"), 1U);  // mpi-ext.h
  EXPECT_EQ(symbols.erase("opal_config_groups"), 1U);       // the variables, for opal-info
  EXPECT_TRUE(symbols.empty()) << symbols.begin()->first << " should not be exported";
}

TEST(AbiSymbols, BothNamesOfAFunctionAreOneAddress) {
  for (const Group& group : read_table()) {
    for (const Function& function : group.functions) {
      ASSERT_NE(lookup("PMPI_" + function.name), nullptr) << function.name;
      EXPECT_EQ(lookup("MPI_" + function.name), lookup("PMPI_" + function.name)) << function.name;
    }
  }
}

TEST(AbiRefusal, EveryFunctionThatIsNotThereSaysItsNameAndNeverSucceeds) {
  for (const Group& group : read_table()) {
    for (const Function& function : group.functions) {
      if (function.implemented) continue;
      const std::string name = "MPI_" + function.name;
      const Outcome outcome = call_with_zeros(name);
      ASSERT_TRUE(outcome.exited) << name << " died of signal " << outcome.status << ": " << outcome.said;
      EXPECT_NE(outcome.status, 99) << name << " is not in the library";
      EXPECT_NE(outcome.status, 0) << name;
      EXPECT_NE(outcome.status, kReturnedSuccess) << name;
      // The default handler of files returns the error; every other one speaks.
      if (function.name.rfind("File_", 0) == 0 && outcome.status == kReturnedError) continue;
      const bool names_it = outcome.said.find(name + " is not") != std::string::npos ||
                            outcome.said.find(name + ": is not") != std::string::npos;
      EXPECT_TRUE(names_it) << name << " said: " << outcome.said;
    }
  }
}

}  // namespace
