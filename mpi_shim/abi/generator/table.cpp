// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/abi/generator/table.hpp"

#include <cctype>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string_view>

namespace opal::mpi::abi {
namespace {

constexpr std::string_view kMissing = "missing:";

std::string trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return std::string(text.substr(first, text.find_last_not_of(" \t") - first + 1));
}

bool is_identifier(std::string_view text) {
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_') return false;
  }
  return !text.empty() && std::isdigit(static_cast<unsigned char>(text.front())) == 0;
}

Parameter parse_parameter(const std::string& text) {
  if (text == "...") return {text, "", ""};
  Parameter parameter;
  const std::string declarator = text.substr(0, text.find('['));
  parameter.array = text.substr(declarator.size());
  const auto space = declarator.rfind(' ');
  if (space == std::string::npos) throw std::runtime_error("parameter without a name: '" + text + "'");
  parameter.type = trimmed(declarator.substr(0, space));
  parameter.name = declarator.substr(space + 1);
  if (!is_identifier(parameter.name)) throw std::runtime_error("bad parameter: '" + text + "'");
  return parameter;
}

Function parse_function(const std::string& line) {
  const auto open = line.find('(');
  if (open == std::string::npos || line.back() != ')') throw std::runtime_error("expected <tier> <type> <name>(...)");
  std::istringstream head(line.substr(0, open));
  Function function;
  std::string rest;
  if (!(head >> function.tier >> function.result >> function.name) || (head >> rest) || function.tier < 1 ||
      function.tier > 5 || !is_identifier(function.name)) {
    throw std::runtime_error("expected <tier 1..5> <type> <name>(...)");
  }
  const std::string list = line.substr(open + 1, line.size() - open - 2);
  if (list == "void") return function;
  std::istringstream parameters(list);
  for (std::string one; std::getline(parameters, one, ',');) {
    function.parameters.push_back(parse_parameter(trimmed(one)));
  }
  return function;
}

}  // namespace

Table parse_table(std::istream& in) {
  Table table;
  std::set<std::string> names;
  int number = 0;
  for (std::string raw; std::getline(in, raw);) {
    ++number;
    const std::string line = trimmed(raw);
    try {
      if (line.empty() || line.front() == '#') continue;
      if (line.front() == '[') {
        table.push_back({line.substr(1, line.find(']') - 1), {}});
        continue;
      }
      if (table.empty()) throw std::runtime_error("a function before the first [group]");
      auto& functions = table.back().functions;
      if (line.rfind(kMissing, 0) == 0) {
        if (functions.empty()) throw std::runtime_error("'missing:' without a function");
        functions.back().missing = trimmed(std::string_view(line).substr(kMissing.size()));
        continue;
      }
      functions.push_back(parse_function(line));
      if (!names.insert(functions.back().name).second) throw std::runtime_error("name given twice");
    } catch (const std::runtime_error& error) {
      throw std::runtime_error("functions.def:" + std::to_string(number) + ": " + error.what() + "\n  " + line);
    }
  }
  return table;
}

void mark_implemented(Table& table, std::istream& symbols) {
  std::map<std::string, char> kinds;  // symbol name -> nm's letter
  for (std::string line; std::getline(symbols, line);) {
    std::istringstream fields(line);
    std::string name;
    std::string kind;
    if (fields >> name >> kind && kind.size() == 1 && (name.rfind("MPI_", 0) == 0 || name.rfind("PMPI_", 0) == 0)) {
      kinds.emplace(name, kind.front());
    }
  }
  for (Group& group : table) {
    for (Function& function : group.functions) {
      const auto strong = kinds.find("PMPI_" + function.name);
      const auto weak = kinds.find("MPI_" + function.name);
      if (strong == kinds.end() && weak == kinds.end()) continue;
      if (strong == kinds.end() || strong->second != 'T' || weak == kinds.end() || weak->second != 'W') {
        throw std::runtime_error("MPI_" + function.name + ": define it with OPAL_MPI_FUNCTION, which makes PMPI_" +
                                 function.name + " strong and MPI_" + function.name + " its weak alias");
      }
      function.implemented = true;
      kinds.erase(strong);
      kinds.erase(weak);
    }
  }
  if (!kinds.empty()) throw std::runtime_error(kinds.begin()->first + " is defined but not in functions.def");
}

}  // namespace opal::mpi::abi
