// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/abi/generator/emit.hpp"

#include <algorithm>
#include <functional>
#include <sstream>
#include <string_view>

namespace opal::mpi::abi {
namespace {

/// The parameter list as text.  Without `all_names`, only the parameter `named` keeps its name.
std::string parameters(const Function& function, bool all_names, std::string_view named = {}) {
  if (function.parameters.empty()) return "void";
  std::string list;
  for (const Parameter& parameter : function.parameters) {
    if (!list.empty()) list += ", ";
    list += parameter.type;
    const bool with_name = !parameter.name.empty() && (all_names || parameter.name == named);
    if (with_name) list += ' ' + parameter.name;
    list += parameter.array;
  }
  return list;
}

/// The name of the first parameter that is an object with an error handler; empty if the function has none, or only a
/// session: none exists.
std::string scope_parameter(const Function& function) {
  for (const Parameter& parameter : function.parameters) {
    for (const std::string_view type : {"MPI_Comm", "MPI_Win", "MPI_File"}) {
      if (parameter.type == type && parameter.array.empty()) return parameter.name;
    }
  }
  return {};
}

/// Whether the function stores a result through the parameter, which must not be null then.  Weights may be
/// MPI_UNWEIGHTED, and statuses be ignored; for void* and char* the function decides.
bool is_result(const Parameter& parameter) {
  const std::string_view type = parameter.type;
  if (!parameter.array.empty() || !type.ends_with('*') || parameter.name.ends_with("weights")) return false;
  const bool is_handle = type.starts_with("MPI_") && type.find("_function") == std::string_view::npos;
  return type == "int*" || (is_handle && type != "MPI_Status*");
}

/// The definition of an entry point that raises an "unsupported" error.
std::string refusal(const Function& function) {
  const std::string quoted = "\"MPI_" + function.name + '"';
  std::string named;
  std::string body;
  if (function.result != "int" || function.name.ends_with("_toint")) {
    body = "mpi_shim::unsupported_value(" + quoted + ");";
  } else if (function.name.starts_with("T_")) {
    body = "return mpi_shim::unsupported_tool(" + quoted + ");";
  } else {
    named = scope_parameter(function);
    // MPI_File_open takes a communicator, but errors of opening go to the handler of MPI_FILE_NULL.
    if (function.name.starts_with("File_") && (named.empty() || named == "comm")) named = "MPI_FILE_NULL";
    body = "return mpi_shim::unsupported(" + quoted + (named.empty() ? "" : ", " + named) + ");";
  }
  return "OPAL_MPI_FUNCTION(" + function.result + ", " + function.name + ", (" + parameters(function, false, named) +
         ")) { " + body + " }\n";
}

/// A row of the table of counts.
std::string row(std::string_view title, std::ptrdiff_t implemented, std::ptrdiff_t all) {
  std::ostringstream out;
  out << "| " << title << " | " << implemented << " | " << all - implemented << " | " << all << " |\n";
  return out.str();
}

constexpr std::string_view kCountHead = " | implemented | not yet | all |\n|---|---:|---:|---:|\n";

}  // namespace

std::string emit_prototypes(const Table& table) {
  std::ostringstream out;
  out << "/* SPDX-License-Identifier: Apache-2.0\n"
         " * mpi_functions.h: the functions of mpi.h, which includes it.  Generated from functions.def: do not edit. "
         "*/\n"
         "#ifndef OPAL_MPI_FUNCTIONS_H\n#define OPAL_MPI_FUNCTIONS_H\n";
  for (const Group& group : table) {
    out << "\n/* " << group.title << " */\n";
    for (const Function& function : group.functions) {
      for (const char* prefix : {"MPI_", "PMPI_"}) {
        out << function.result << ' ' << prefix << function.name << '(' << parameters(function, true) << ");\n";
      }
    }
  }
  out << "\n#endif /* OPAL_MPI_FUNCTIONS_H */\n";
  return out.str();
}

std::string emit_parameters(const Table& table) {
  std::ostringstream out;
  out << "// Generated from functions.def: do not edit.\n#pragma once\n";
  for (const Group& group : table) {
    for (const Function& function : group.functions) {
      out << "#define OPAL_MPI_PARAMETERS_" << function.name << " (" << parameters(function, true) << ")\n"
          << "#define OPAL_MPI_ARGUMENTS_" << function.name;
      for (const Parameter& parameter : function.parameters) out << " , " << parameter.name;
      const std::string scope = scope_parameter(function);
      out << "\n#define OPAL_MPI_CHECKS_" << function.name;
      for (const Parameter& parameter : function.parameters) {
        if (!is_result(parameter)) continue;
        out << " call.result(" << parameter.name << ", \"" << parameter.name << "\", " << (scope.empty() ? "{}" : scope)
            << ");";
      }
      out << '\n';
    }
  }
  return out.str();
}

std::string emit_refusals(const Table& table) {
  std::ostringstream out;
  out << "// Generated from functions.def: the functions that no object of the library defines.\n"
         "#include \"mpi_shim/abi/function.hpp\"\n"
         "#include \"mpi_shim/process/raise.hpp\"\n\n";
  for (const Group& group : table) {
    for (const Function& function : group.functions) {
      if (!function.implemented) out << refusal(function);
    }
  }
  return out.str();
}

std::string emit_coverage(const Table& table) {
  std::ptrdiff_t implemented = 0;
  std::ptrdiff_t all = 0;
  std::ostringstream groups;
  std::ostringstream rows;
  for (const Group& group : table) {
    rows << "\n## " << group.title << "\n\n| function | state |\n|---|---|\n";
    for (const Function& function : group.functions) {
      rows << "| MPI_" << function.name << (function.implemented ? " | yes |\n" : " | not yet |\n");
    }
    const auto of_group = std::ranges::count_if(group.functions, std::mem_fn(&Function::implemented));
    groups << row(group.title, of_group, std::ssize(group.functions));
    implemented += of_group;
    all += std::ssize(group.functions);
  }
  std::ostringstream out;
  out << "# What of MPI 5.0 is implemented\n\n"
         "Generated from `mpi_shim/abi/functions.def` and the symbols of the library; do not edit, run\n"
         "`cmake --build build --target mpi_coverage`. Every function is exported. A function that is not\n"
         "implemented yet raises MPI_ERR_UNSUPPORTED_OPERATION and names itself. For each implemented function\n"
         "a test makes a successful call and calls with each wrong argument that the declaration excludes.\n\n"
      << "| group" << kCountHead << groups.str() << row("**all**", implemented, all) << rows.str();
  return out.str();
}

}  // namespace opal::mpi::abi
