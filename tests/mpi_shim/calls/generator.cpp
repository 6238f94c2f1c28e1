// SPDX-License-Identifier: Apache-2.0
// Runs while building: writes a layer over the MPI library (the standard's profiling interface) that records for each
// function what its calls returned.  Usage: mpi_calls_generator FUNCTIONS.DEF OUTPUT.C
#include <fstream>
#include <iostream>
#include <string>

#include "mpi_shim/abi/generator/table.hpp"

namespace {

using opal::mpi::abi::Function;
using opal::mpi::abi::Parameter;

/// The parameters as declared, or only their names.
std::string list(const Function& function, bool names_only) {
  std::string text;
  for (const Parameter& parameter : function.parameters) {
    if (names_only && parameter.name.empty()) continue;  // variable arguments: no function of MPI looks at them
    if (!text.empty()) text += ", ";
    text += names_only ? parameter.name : parameter.type + " " + parameter.name + parameter.array;
  }
  return text.empty() && !names_only ? "void" : text;
}

void write(std::ostream& out, const Function& function, int number) {
  const std::string call = "PMPI_" + function.name + "(" + list(function, true) + ")";
  const std::string index = std::to_string(number);
  out << function.result << " MPI_" << function.name << "(" << list(function, false) << ") {\n";
  const bool returns_error = function.result == "int" && function.name.find("_toint") == std::string::npos;
  if (function.name == "Abort") out << "  calls_record(" << index << ", 0);\n  calls_write();\n";  // it does not return
  if (returns_error) {
    out << "  return calls_record(" << index << ", " << call << ");\n}\n";
  } else {
    out << "  calls_record(" << index << ", 0);\n  return " << call << ";\n}\n";
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  std::ifstream definitions(argv[1]);
  std::ofstream out(argv[2]);
  out << "/* Generated from functions.def. */\n#include \"tests/mpi_shim/calls/record.h\"\n";
  std::string names;
  int number = 0;
  for (const auto& group : opal::mpi::abi::parse_table(definitions)) {
    for (const Function& function : group.functions) {
      write(out, function, number++);
      names += "    \"" + function.name + "\",\n";
    }
  }
  out << "const char* const calls_names[] = {\n" << names << "};\nconst int calls_count = " << number << ";\n";
  return out.flush() ? 0 : 1;
}
