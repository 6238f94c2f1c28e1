// SPDX-License-Identifier: Apache-2.0
// mpi_shim/abi/generator/table.hpp — functions.def as data, and which of its functions the library implements.
// Part of a program that runs while building; errors are exceptions, those of parse_table name the line.
// Threads: values, no shared state.
#pragma once
#include <istream>
#include <string>
#include <vector>

namespace opal::mpi::abi {

/// One parameter, split so that it can be written with or without its name: `const int recvcounts[]`.
struct Parameter {
  std::string type;   ///< "const int"; "..." for variable arguments
  std::string name;   ///< "recvcounts"; empty for variable arguments
  std::string array;  ///< "[]", "[][3]" or empty
};

/// One function of the table.  A line can stand for several: nonblocking, persistent and large-count forms.
struct Function {
  std::string result;  ///< return type
  std::string name;    ///< without MPI_
  std::vector<Parameter> parameters;
  bool implemented = false;  ///< some object of the library defines it
};

/// Functions under one heading, in the order of the table.
struct Group {
  std::string title;
  std::vector<Function> functions;
};

using Table = std::vector<Group>;

/// Reads functions.def.  Throws std::runtime_error with the line's number for anything it does not understand, for a
/// name given twice and for a function outside of a group.
Table parse_table(std::istream& in);

/// Marks what is implemented from `nm -P -g --defined-only` of the library's objects.  Throws std::runtime_error for a
/// name that is not in the table, and for a function unless PMPI_ is strong and MPI_ is weak.
void mark_implemented(Table& table, std::istream& symbols);

}  // namespace opal::mpi::abi
