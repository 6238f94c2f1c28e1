// SPDX-License-Identifier: Apache-2.0
// A build tool: generates one of the files that are made from functions.def, or mpif.h from mpi.h.
#include <exception>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

#include "mpi_shim/abi/generator/emit.hpp"
#include "mpi_shim/abi/generator/table.hpp"

namespace {

namespace abi = opal::mpi::abi;

constexpr const char* kUsage =
    "usage: mpi_abi_generator prototypes|parameters|fortran|interfaces FUNCTIONS.DEF OUTPUT\n"
    "       mpi_abi_generator refusals|coverage FUNCTIONS.DEF OUTPUT SYMBOLS\n"
    "       mpi_abi_generator mpif MPI.H OUTPUT\n"
    "SYMBOLS is the output of `nm -P -g --defined-only` over the library's objects: what they implement.\n";

std::ifstream open_for_reading(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw std::runtime_error("cannot read " + path);
  return in;
}

/// Writes the file only if its text changes, so that its modification time does not cause a rebuild.
void write_if_different(const std::string& path, const std::string& text) {
  if (std::ifstream in(path); in) {
    std::ostringstream old;
    old << in.rdbuf();
    if (old.str() == text) return;
  }
  std::ofstream out(path);
  out << text;
  if (!out.flush()) throw std::runtime_error("cannot write " + path);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const std::map<std::string, std::string (*)(const abi::Table&)> kinds = {
        {"prototypes", abi::emit_prototypes},
        {"parameters", abi::emit_parameters},
        {"refusals", abi::emit_refusals},
        {"fortran", abi::emit_fortran_entries},
        {"interfaces", abi::emit_fortran_interfaces},
        {"coverage", abi::emit_coverage},
    };
    if (argc == 4 && std::string_view(argv[1]) == "mpif") {
      auto header = open_for_reading(argv[2]);
      write_if_different(argv[3], abi::emit_fortran_constants(header));
      return 0;
    }
    const auto kind = argc > 1 ? kinds.find(argv[1]) : kinds.end();
    const bool needs_symbols = kind != kinds.end() && (kind->first == "refusals" || kind->first == "coverage");
    if (kind == kinds.end() || argc != (needs_symbols ? 5 : 4)) {
      std::cerr << kUsage;
      return 2;
    }
    auto definitions = open_for_reading(argv[2]);
    abi::Table table = abi::parse_table(definitions);
    if (argc == 5) {
      auto symbols = open_for_reading(argv[4]);
      abi::mark_implemented(table, symbols);
    }
    write_if_different(argv[3], kind->second(table));
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "mpi_abi_generator: " << error.what() << '\n';
    return 1;
  }
}
