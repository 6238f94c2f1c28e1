// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/abi/generator/table.hpp"

#include <array>
#include <cctype>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string_view>

namespace opal::mpi::abi {
namespace {

/// The types that differ between the two forms of a function.
struct Word {
  std::string_view word;
  std::string_view plain;
  std::string_view large;  // with large counts
};
constexpr std::array<Word, 3> kWords = {
    {{"Count", "int", "MPI_Count"}, {"Displ", "int", "MPI_Aint"}, {"Bytes", "MPI_Aint", "MPI_Count"}}};

Parameter parse_parameter(const std::string& text) {
  if (text == "...") return {.type = text, .name = {}, .array = {}};  // variable arguments have no name
  static const std::regex form(R"((.*\S) ([A-Za-z_]\w*)((?:\[\d*\])*))");
  std::smatch found;
  if (!std::regex_match(text, found, form))
    throw std::runtime_error("expected <type> <name>, '*' written with the type: '" + text + "'");
  return {.type = found[1], .name = found[2], .array = found[3]};
}

/// Replaces Count, Displ or Bytes in `type` by the C type; false: it contains none of them.
bool replace_word(std::string& type, bool large) {
  const std::size_t at = type.starts_with("const ") ? 6 : 0;
  for (const Word& one : kWords) {
    const std::size_t end = at + one.word.size();
    if (type.compare(at, one.word.size(), one.word) != 0 || (end != type.size() && type[end] != '*')) continue;
    type.replace(at, one.word.size(), large ? one.large : one.plain);
    return true;
  }
  return false;
}

/// The function and, if some of its types differ there, its form with large counts.
void add_both(Function function, std::vector<Function>& functions) {
  Function large = function;
  large.name += "_c";
  bool differs = false;
  for (std::size_t i = 0; i < function.parameters.size(); ++i) {
    differs |= replace_word(function.parameters[i].type, false);
    (void)replace_word(large.parameters[i].type, true);
  }
  functions.push_back(std::move(function));
  if (differs) functions.push_back(std::move(large));
}

/// The functions that one line stands for.
std::vector<Function> parse_functions(const std::string& line) {
  static const std::regex form(R"((\* )?(\S+) ([A-Za-z_]\w*)\((.*)\))");
  std::smatch found;
  if (!std::regex_match(line, found, form))
    throw std::runtime_error("expected <type, one word> <name>(...), perhaps after *");
  const bool is_collective = found[1].matched;
  Function function{.result = found[2], .name = found[3], .parameters = {}};
  std::istringstream parameters(found[4] == "void" ? "" : found[4].str());
  for (std::string one; std::getline(parameters >> std::ws, one, ',');) {
    function.parameters.push_back(parse_parameter(one));
  }
  std::vector<Function> functions;
  add_both(function, functions);
  if (!is_collective) return functions;
  Function nonblocking = function;
  nonblocking.name = 'I' + function.name;
  nonblocking.name[1] = static_cast<char>(std::tolower(static_cast<unsigned char>(function.name.front())));
  nonblocking.parameters.push_back({"MPI_Request*", "request", ""});
  add_both(nonblocking, functions);
  function.name += "_init";
  function.parameters.push_back({"MPI_Info", "info", ""});
  function.parameters.push_back({"MPI_Request*", "request", ""});
  add_both(std::move(function), functions);
  return functions;
}

}  // namespace

Table parse_table(std::istream& in) {
  Table table;
  std::set<std::string> names;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    try {
      if (line.empty() || line.front() == '#') continue;
      if (line.front() == '[') {
        if (line.find(']') != line.size() - 1) throw std::runtime_error("expected [group]");
        table.push_back({line.substr(1, line.size() - 2), {}});
        continue;
      }
      if (table.empty()) throw std::runtime_error("a function before the first [group]");
      auto& functions = table.back().functions;
      for (Function& function : parse_functions(line)) {
        if (!names.insert(function.name).second) throw std::runtime_error("name given twice");
        functions.push_back(std::move(function));
      }
    } catch (const std::runtime_error& error) {
      throw std::runtime_error("functions.def:" + std::to_string(number) + ": " + error.what() + "\n  " + line);
    }
  }
  return table;
}

void mark_implemented(Table& table, std::istream& symbols) {
  std::map<std::string, char> kinds;  // symbol name -> nm's type letter: T global, W weak
  for (std::string line; std::getline(symbols, line);) {
    std::istringstream fields(line);
    std::string name;
    std::string kind;
    if (fields >> name >> kind && kind.size() == 1 && (name.starts_with("MPI_") || name.starts_with("PMPI_"))) {
      kinds.emplace(name, kind.front());
    }
  }
  for (Group& group : table) {
    for (Function& function : group.functions) {
      const auto pmpi = kinds.find("PMPI_" + function.name);
      const auto mpi = kinds.find("MPI_" + function.name);
      if (pmpi == kinds.end() && mpi == kinds.end()) continue;
      if (pmpi == kinds.end() || pmpi->second != 'T' || mpi == kinds.end() || mpi->second != 'W') {
        throw std::runtime_error("MPI_" + function.name + ": define it with OPAL_MPI_FUNCTION, which makes PMPI_" +
                                 function.name + " strong and MPI_" + function.name + " its weak alias");
      }
      function.implemented = true;
      kinds.erase(pmpi);
      kinds.erase(mpi);
    }
  }
  if (!kinds.empty()) throw std::runtime_error(kinds.begin()->first + " is defined but not in functions.def");
}

}  // namespace opal::mpi::abi
