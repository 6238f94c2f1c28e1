// SPDX-License-Identifier: Apache-2.0
// The generator behind mpi.h's prototypes: what it accepts, refuses and writes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <stdexcept>
#include <string>

#include "mpi_shim/abi/generator/emit.hpp"
#include "mpi_shim/abi/generator/table.hpp"
#include "mpi_shim/process/raise.hpp"

namespace {

using opal::mpi::abi::mark_implemented;
using opal::mpi::abi::parse_table;
using opal::mpi::abi::Table;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kSmallTable = R"(# a comment
[First group]
int Send(const void* buf, int count, MPI_Comm comm)
int Waitall(int count, MPI_Request array_of_requests[], int ranges[][3])

[Second group]
double Wtime(void)
int Pcontrol(const int level, ...)
int T_finalize(void)
int File_open(MPI_Comm comm, const char* filename, MPI_File* fh)
)";

Table parsed(const std::string& text) {
  std::istringstream in(text);
  return parse_table(in);
}

Table marked(const std::string& symbols) {
  Table table = parsed(kSmallTable);
  std::istringstream in(symbols);
  mark_implemented(table, in);
  return table;
}

std::string complaint(const std::string& text) {
  try {
    parsed(text);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "no complaint";
}

TEST(AbiGenerator, ReadsGroupsTypesAndArrays) {
  const Table table = parsed(kSmallTable);
  ASSERT_EQ(table.size(), 2U);
  EXPECT_EQ(table[0].title, "First group");
  const auto& waitall = table[0].functions.at(1);
  EXPECT_EQ(waitall.parameters.at(2).type, "int");
  EXPECT_EQ(waitall.parameters.at(2).name, "ranges");
  EXPECT_EQ(waitall.parameters.at(2).array, "[][3]");
  EXPECT_TRUE(table[1].functions.at(0).parameters.empty());
  EXPECT_EQ(table[1].functions.at(1).parameters.at(1).type, "...");
}

TEST(AbiGenerator, ReadsAllFormsOfAFunction) {
  const Table table = parsed("[g]\n* int Gather(const void* buf, const Count counts[], Displ* d, MPI_Comm comm)\n");
  const auto& forms = table[0].functions;
  ASSERT_EQ(forms.size(), 6U);
  const char* const names[] = {"Gather", "Gather_c", "Igather", "Igather_c", "Gather_init", "Gather_init_c"};
  for (std::size_t i = 0; i < forms.size(); ++i) {
    EXPECT_EQ(forms[i].name, names[i]);
    EXPECT_EQ(forms[i].parameters.at(1).type, i % 2 == 0 ? "const int" : "const MPI_Count");
    EXPECT_EQ(forms[i].parameters.at(2).type, i % 2 == 0 ? "int*" : "MPI_Aint*");
    EXPECT_EQ(forms[i].parameters.size(), i < 2 ? 4U : i < 4 ? 5U : 6U);
  }
  EXPECT_EQ(forms[5].parameters.at(4).type, "MPI_Info");
  EXPECT_EQ(forms[5].parameters.at(5).name, "request");
}

TEST(AbiGenerator, NamesTheLineItCannotRead) {
  EXPECT_THAT(complaint("[g]\nint Send(int count\n"), HasSubstr("functions.def:2"));
  EXPECT_THAT(complaint("[g]\nint Send(int)\n"), HasSubstr("expected <type> <name>"));
  EXPECT_THAT(complaint("int Send(int count)\n"), HasSubstr("before the first"));
  EXPECT_THAT(complaint("[g]\n1 int Send(int count)\n"), HasSubstr("expected <type"));
  EXPECT_THAT(complaint("[g]\nint Send(void *buf)\n"), HasSubstr("with the type"));
  EXPECT_THAT(complaint("[g]\n[unclosed\n"), HasSubstr("functions.def:2: expected [group]"));
  EXPECT_THAT(complaint("[g] text\n"), HasSubstr("expected [group]"));
  EXPECT_THAT(complaint("[g]\nint Send(int a)\nint Send(int b)\n"), HasSubstr("twice"));
}

TEST(AbiGenerator, BelievesOnlyAStrongPmpiNameWithAWeakMpiAlias) {
  const Table table = marked("libx.a[o]:\nPMPI_Send T 0 1\nMPI_Send W 0 1\nother T 0 1\n");
  EXPECT_TRUE(table[0].functions.at(0).implemented);
  EXPECT_FALSE(table[0].functions.at(1).implemented);
  EXPECT_THROW(marked("PMPI_Send T 0 1\n"), std::runtime_error);
  EXPECT_THROW(marked("PMPI_Send T 0 1\nMPI_Send T 0 1\n"), std::runtime_error);
  EXPECT_THROW(marked("MPI_Send W 0 1\n"), std::runtime_error);
  EXPECT_THROW(marked("PMPI_Sendd T 0 1\nMPI_Sendd W 0 1\n"), std::runtime_error);
}

TEST(AbiGenerator, WritesBothPrototypes) {
  const Table table = parsed(kSmallTable);
  const std::string prototypes = opal::mpi::abi::emit_prototypes(table);
  EXPECT_THAT(prototypes, HasSubstr("\nint MPI_Waitall(int count, MPI_Request array_of_requests[], int ranges[][3]);\n"
                                    "int PMPI_Waitall("));
  EXPECT_THAT(prototypes, HasSubstr("double PMPI_Wtime(void);"));
  EXPECT_THAT(prototypes, HasSubstr("int MPI_Pcontrol(const int level, ...);"));
}

TEST(AbiGenerator, WritesParametersAndArguments) {
  const std::string macros = opal::mpi::abi::emit_parameters(parsed(kSmallTable));
  EXPECT_THAT(macros, HasSubstr("#define OPAL_MPI_PARAMETERS_Send (const void* buf, int count, MPI_Comm comm)\n"
                                "#define OPAL_MPI_ARGUMENTS_Send , buf , count , comm\n"
                                "#define OPAL_MPI_CHECKS_Send\n"));
  EXPECT_THAT(macros, HasSubstr("#define OPAL_MPI_PARAMETERS_Wtime (void)\n#define OPAL_MPI_ARGUMENTS_Wtime\n"));
}

TEST(AbiGenerator, ChecksPointersToResultsAndNoOthers) {
  const std::string macros = opal::mpi::abi::emit_parameters(
      parsed("[g]\nint Group_size(MPI_Group group, int* size)\n"
             "int Dist(MPI_Comm comm, int* weights, const int* ranks, void* buf, int dims[], MPI_Comm* newcomm)\n"
             "int Test(MPI_Request* request, MPI_User_function_c* copy, MPI_Status* status)\n"));
  EXPECT_THAT(macros, HasSubstr("#define OPAL_MPI_CHECKS_Group_size call.result(size, \"size\", {});\n"));
  EXPECT_THAT(macros, HasSubstr("#define OPAL_MPI_CHECKS_Dist call.result(newcomm, \"newcomm\", comm);\n"));
  EXPECT_THAT(macros, HasSubstr("#define OPAL_MPI_CHECKS_Test call.result(request, \"request\", {});\n"));
}

TEST(AbiGenerator, RefusesOnTheHandlerOfTheObjectTheFunctionNames) {
  const std::string refusals = opal::mpi::abi::emit_refusals(marked("PMPI_Waitall T 0 1\nMPI_Waitall W 0 1\n"));
  EXPECT_THAT(refusals, Not(HasSubstr("Waitall")));
  EXPECT_THAT(refusals,
              HasSubstr("(const void*, int, MPI_Comm comm)) { return mpi_shim::unsupported(\"MPI_Send\", comm);"));
  EXPECT_THAT(refusals, HasSubstr("mpi_shim::unsupported(\"MPI_File_open\", MPI_FILE_NULL)"));
  EXPECT_THAT(refusals, HasSubstr("mpi_shim::unsupported_tool(\"MPI_T_finalize\")"));
  EXPECT_THAT(refusals, HasSubstr("(double, Wtime, (void)) { mpi_shim::unsupported_value(\"MPI_Wtime\");"));
}

TEST(AbiGenerator, CountsWhatIsThereAndWhatIsNot) {
  const std::string coverage =
      opal::mpi::abi::emit_coverage(marked("PMPI_Waitall T 0 1\nMPI_Waitall W 0 1\nPMPI_Send T 0 1\nMPI_Send W 0 1\n"));
  EXPECT_THAT(coverage, HasSubstr("| **all** | 2 | 4 | 6 |"));
  EXPECT_THAT(coverage, HasSubstr("| MPI_Waitall | yes |"));
  EXPECT_THAT(coverage, HasSubstr("| MPI_Send | yes |"));
  EXPECT_THAT(coverage, HasSubstr("| MPI_Wtime | not yet |"));
}

TEST(AbiGenerator, WritesFortranEntriesThatConvertHandlesStringsAndIndices) {
  const std::string entries = opal::mpi::abi::emit_fortran_entries(parsed(kSmallTable));
  EXPECT_THAT(entries,
              HasSubstr("void mpi_send_(void* buf, const MPI_Fint* count, const MPI_Fint* comm, MPI_Fint* ierror) "
                        "{ *ierror = MPI_Send(choice(buf), *count, handle<MPI_Comm>(*comm)); }"));
  EXPECT_THAT(entries, HasSubstr("MPI_Waitall(*count, Requests{array_of_requests, *count}, ranges)"));
  EXPECT_THAT(entries, HasSubstr("double mpi_wtime_() { return MPI_Wtime(); }"));
  EXPECT_THAT(entries, Not(HasSubstr("pcontrol")));
  EXPECT_THAT(entries, Not(HasSubstr("file_open")));
  const std::string others = opal::mpi::abi::emit_fortran_entries(parsed(R"([Others]
int Info_set(MPI_Info info, const char* key, const char* value)
int Waitany(int count, MPI_Request array_of_requests[], int* indx, MPI_Status* status)
int Comm_dup(MPI_Comm comm, MPI_Comm* newcomm)
int Comm_free(MPI_Comm* comm)
)"));
  EXPECT_THAT(others, HasSubstr("(const MPI_Fint* info, char* key, char* value, MPI_Fint* ierror, "
                                "std::size_t key_length, std::size_t value_length)"));
  EXPECT_THAT(others, HasSubstr("InfoIn{key, key_length}, InfoIn{value, value_length}"));
  EXPECT_THAT(others, HasSubstr("Requests{array_of_requests, *count}, Index{indx}, statuses(status)"));
  EXPECT_THAT(others, HasSubstr("MPI_Comm_dup(handle<MPI_Comm>(*comm), Out<MPI_Comm>{newcomm})"));
  EXPECT_THAT(others, HasSubstr("MPI_Comm_free(InOut<MPI_Comm>{comm})"));
}

TEST(AbiGenerator, WritesTheConstantsOfMpifFromThoseOfMpi) {
  std::istringstream header(
      "#define MPI_COMM_WORLD MPI_ABI_ADDRESS_(MPI_Comm, 0x101)\n"
      "#define MPI_ANY_SOURCE (-1) /* from any rank */\n"
      "#define MPI_MAX_INFO_KEY 256\n"
      "#define MPI_OTHER MPI_COMM_WORLD\n"
      "#define MPI_IN_PLACE MPI_ABI_ADDRESS_(void*, 1)\n"
      "#define MPI_T_ERR_MEMORY 1000\n");
  const std::string constants = opal::mpi::abi::emit_fortran_constants(header);
  EXPECT_THAT(constants, HasSubstr("      PARAMETER (MPI_COMM_WORLD=257)\n"));
  EXPECT_THAT(constants, HasSubstr("      PARAMETER (MPI_ANY_SOURCE=-1)\n"));
  EXPECT_THAT(constants, HasSubstr("      PARAMETER (MPI_MAX_INFO_KEY=255)\n"));  // no terminating zero
  EXPECT_THAT(constants, HasSubstr("      PARAMETER (MPI_OTHER=257)\n"));
  EXPECT_THAT(constants, Not(HasSubstr("MPI_IN_PLACE=")));
  EXPECT_THAT(constants, Not(HasSubstr("MPI_T_")));
  std::istringstream lines(constants);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 72U) << line;  // fixed form
}

// ---- the refusal itself ----

TEST(AbiRefusalDeathTest, EndsTheProcessWithTheNameWhileMpiDoesNotRun) {
  EXPECT_EXIT(mpi_shim::unsupported("MPI_Fancy", MPI_COMM_WORLD),
              ::testing::ExitedWithCode(MPI_ERR_UNSUPPORTED_OPERATION), "MPI_Fancy: is not supported yet");
  EXPECT_EXIT(mpi_shim::unsupported_value("MPI_Fancy_toint"), ::testing::ExitedWithCode(MPI_ERR_UNSUPPORTED_OPERATION),
              "MPI_Fancy_toint: is not supported yet");
}

TEST(AbiRefusal, ReturnsTheErrorForFilesAndForTools) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(mpi_shim::unsupported("MPI_File_open", MPI_FILE_NULL), MPI_ERR_UNSUPPORTED_OPERATION);
  EXPECT_EQ(mpi_shim::unsupported("MPI_File_sync", MPI_FILE_NULL), MPI_ERR_UNSUPPORTED_OPERATION);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("MPI_File_open is not supported yet"));
  EXPECT_THAT(said, ::testing::Not(HasSubstr("MPI_File_sync"))) << "once";
  EXPECT_EQ(mpi_shim::unsupported_tool("MPI_T_init_thread"), MPI_T_ERR_NOT_SUPPORTED);
}

}  // namespace
