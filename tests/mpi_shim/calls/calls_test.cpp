// SPDX-License-Identifier: Apache-2.0
// What the MPI programs of this suite called, as they recorded it when they ran, against what the library implements.
#include <gtest/gtest.h>
#include <mpi.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>

#include "mpi_shim/abi/generator/table.hpp"

namespace {

/// Function -> the error classes that its calls returned; MPI_SUCCESS among them.
std::map<std::string, std::set<int>> recorded() {
  std::map<std::string, std::set<int>> calls;
  for (const auto& entry : std::filesystem::directory_iterator(MPI_CALLS_DIRECTORY)) {
    std::ifstream lines(entry.path());
    std::string name;
    int error_class = 0;
    while (lines >> name >> error_class) calls[name].insert(error_class);
  }
  return calls;
}

TEST(MpiCalls, EveryImplementedFunctionHasSucceededInAProgram) {
  std::ifstream definitions(OPAL_TEST_FUNCTIONS_DEF);
  opal::mpi::abi::Table table = opal::mpi::abi::parse_table(definitions);
  std::ifstream symbols(OPAL_TEST_SYMBOLS);
  opal::mpi::abi::mark_implemented(table, symbols);
  const auto calls = recorded();
  int implemented = 0;
  for (const auto& group : table) {
    for (const auto& function : group.functions) {
      if (!function.implemented) continue;
      ++implemented;
      const auto found = calls.find(function.name);
      EXPECT_TRUE(found != calls.end() && found->second.count(MPI_SUCCESS) != 0)
          << "no program calls MPI_" << function.name
          << (found != calls.end() ? " with success" : "; if one does now, let its test record (CMakeLists.txt)");
    }
  }
  EXPECT_GT(implemented, 400);
}

/// Classes that nothing here can return: of files, of spawning and name services, of a library's own faults.
bool is_out_of_reach(int error_class) {
  static const std::set<int> classes = {
      MPI_ERR_UNKNOWN,
      MPI_ERR_INTERN,
      MPI_ERR_ACCESS,
      MPI_ERR_AMODE,
      MPI_ERR_BAD_FILE,
      MPI_ERR_CONVERSION,
      MPI_ERR_DUP_DATAREP,
      MPI_ERR_FILE_EXISTS,
      MPI_ERR_FILE_IN_USE,
      MPI_ERR_FILE,
      MPI_ERR_IO,
      MPI_ERR_NAME,
      MPI_ERR_NOT_SAME,
      MPI_ERR_NO_SPACE,
      MPI_ERR_NO_SUCH_FILE,
      MPI_ERR_PORT,
      MPI_ERR_QUOTA,
      MPI_ERR_READ_ONLY,
      MPI_ERR_SERVICE,
      MPI_ERR_SPAWN,
      MPI_ERR_RMA_CONFLICT,
      MPI_ERR_SESSION,
      MPI_ERR_ABI,
      MPI_ERR_PENDING,  // in a status only, never returned
      MPI_ERR_UNSUPPORTED_DATAREP,
      MPI_ERR_VALUE_TOO_LARGE,  // results that do not fit are MPI_UNDEFINED, as the standard says of each
  };
  return classes.count(error_class) != 0;
}

TEST(MpiCalls, EveryErrorClassOfWhatIsImplementedHasBeenReturned) {
  std::set<int> returned;
  for (const auto& [name, classes] : recorded()) returned.insert(classes.begin(), classes.end());
  for (int error_class = MPI_ERR_BUFFER; error_class <= MPI_ERR_ABI; ++error_class) {
    EXPECT_EQ(returned.count(error_class), is_out_of_reach(error_class) ? 0U : 1U) << "class " << error_class;
  }
}

}  // namespace
