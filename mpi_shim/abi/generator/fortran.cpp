// SPDX-License-Identifier: Apache-2.0
// Fortran entry points: mpi_send_ and so on, as gfortran calls them, from the same table as the prototypes.
#include <algorithm>
#include <array>
#include <sstream>
#include <string_view>

#include "mpi_shim/abi/generator/emit.hpp"

namespace opal::mpi::abi {
namespace {

template <std::size_t N>
bool among(const std::array<std::string_view, N>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

constexpr std::array<std::string_view, 9> kHandles = {"MPI_Comm",  "MPI_Datatype", "MPI_Errhandler",
                                                      "MPI_Group", "MPI_Info",     "MPI_Message",
                                                      "MPI_Op",    "MPI_Request",  "MPI_Win"};

/// They change a handle; every other `MPI_X*` is only made.
constexpr std::array<std::string_view, 9> kChanging = {
    "Wait", "Test", "Start", "Cancel", "Mrecv", "Imrecv", "Type_commit", "Comm_disconnect", "Request_free"};

/// One argument: how it is declared, and what the C function is given.
struct Argument {
  std::string declaration;
  std::string value;
  bool is_string = false;
};

std::string quoted_call(std::string_view what, std::string_view first, std::string_view second = {}) {
  std::string call(what);
  call.append("{").append(first);
  if (!second.empty()) call.append(", ").append(second);
  return call + '}';
}

/// How many handles an array has.
std::string count_of(const Function& function, const Parameter& parameter) {
  if (parameter.name == "sendtypes" || parameter.name == "recvtypes") {
    const std::string comm = "handle<MPI_Comm>(*comm)";
    if (!function.name.starts_with("Neighbor_") && !function.name.starts_with("Ineighbor_"))
      return "peers_of(" + comm + ')';
    return "neighbours_of(" + comm + (parameter.name == "sendtypes" ? ", true)" : ", false)");
  }
  return '*' + function.parameters.front().name;
}

/// No value when Fortran programs cannot be given the function by rule.
Argument argument_of(const Function& function, const Parameter& parameter) {
  const std::string_view type = parameter.type;
  const std::string name = parameter.name == "assert" ? "assertion" : parameter.name;
  const bool is_constant = type.starts_with("const ");
  const std::string_view plain = is_constant ? type.substr(6) : type;
  const bool is_array = !parameter.array.empty();
  if (is_array && among(kHandles, plain)) {
    const std::string declared = "MPI_Fint* " + name;
    if (is_constant) {
      return {declared, quoted_call("InArray<" + std::string(plain) + '>', name, count_of(function, parameter))};
    }
    if (plain != "MPI_Request") return {};
    return {declared, quoted_call("Requests", name, count_of(function, parameter))};
  }
  if (is_array && plain == "int") {
    if (name == "array_of_indices") return {"MPI_Fint* " + name, quoted_call("Indices", name, "outcount")};
    return {"MPI_Fint " + name + parameter.array, name};
  }
  if ((plain == "char*" && !is_array) || (plain == "char" && is_array)) {
    return {"char* " + name, quoted_call(is_constant ? "StringIn" : "StringOut", name, name + "_length"), true};
  }
  if (is_array && plain == "MPI_Aint") return {std::string(plain) + "* " + name, name};
  if (is_array) return {};
  if (plain == "int") return {"const MPI_Fint* " + name, '*' + name};
  if (plain == "int*") {
    if (name == "indx") return {"MPI_Fint* " + name, quoted_call("Index", name)};
    const bool weighs = name.ends_with("weights");
    return {"MPI_Fint* " + name, weighs ? "weights_of(" + name + ')' : name};
  }
  if (plain == "MPI_Aint" || plain == "MPI_Count") return {"const " + std::string(plain) + "* " + name, '*' + name};
  if (plain == "MPI_Aint*" || plain == "MPI_Count*") return {std::string(plain) + ' ' + name, name};
  if (plain == "MPI_Status*") return {"MPI_Fint* " + name, "statuses(" + name + ')'};
  if (plain == "void*") {
    if (name == "buffer_addr") return {"void*", "Ignored{}"};
    return {"void* " + name, name == "baseptr" ? name : "choice(" + name + ')'};
  }
  if (among(kHandles, plain)) {
    return {"const MPI_Fint* " + name, "handle<" + std::string(plain) + ">(*" + name + ')'};
  }
  if (plain.ends_with("*") && among(kHandles, plain.substr(0, plain.size() - 1))) {
    const bool changes = among(kChanging, function.name) || function.name.ends_with("_free");
    const bool request_of_mrecv = function.name == "Imrecv" && plain == "MPI_Request*";
    return {"MPI_Fint* " + name, quoted_call((changes && !request_of_mrecv ? "InOut<" : "Out<") +
                                                 std::string(plain.substr(0, plain.size() - 1)) + '>',
                                             name)};
  }
  return {};
}

/// Written by hand, or not for Fortran: functions of handles as integers, of the tool interface, of files and sessions,
/// and large counts (which have no names of their own in Fortran).  What outlives the call may not be a temporary of
/// it.
bool is_by_rule(const Function& function) {
  static constexpr std::array<std::string_view, 5> kByHand = {"Init", "Init_thread", "Pcontrol", "Info_get",
                                                              "Info_get_string"};
  const std::string_view name = function.name;
  if (function.tier == 5 && !name.starts_with("Type_create_f90_")) return false;
  if (among(kByHand, name) || name.ends_with("toint") || name.ends_with("fromint")) {
    return false;
  }
  return std::none_of(function.parameters.begin(), function.parameters.end(), [](const Parameter& parameter) {
    return parameter.name == "attribute_val" || parameter.type == "MPI_Session" || parameter.type == "MPI_File";
  });
}

std::string entry_of(const Function& function) {
  std::string declared;
  std::string lengths;
  std::string values;
  for (const Parameter& parameter : function.parameters) {
    const Argument argument = argument_of(function, parameter);
    if (argument.value.empty()) return {};
    declared += argument.declaration + ", ";
    values += (values.empty() ? "" : ", ") + argument.value;
    if (argument.is_string) lengths += ", std::size_t " + parameter.name + "_length";
  }
  std::string name = "mpi_" + function.name + '_';
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  const std::string call = "MPI_" + function.name + '(' + values + ");";
  if (function.result == "int") {
    return "OPAL_EXPORT void " + name + '(' + declared + "MPI_Fint* ierror" + lengths + ") { *ierror = " + call +
           " }\n";
  }
  if (!declared.empty()) declared.resize(declared.size() - 2);
  return "OPAL_EXPORT " + function.result + ' ' + name + '(' + declared + ") { return " + call + " }\n";
}

/// Those that are written by hand (fortran/special.cpp, callbacks.cpp) and take what the C functions take.
constexpr std::array<std::string_view, 19> kByHandAsInC = {"Info_get",
                                                           "Info_get_string",
                                                           "Type_get_contents",
                                                           "Op_create",
                                                           "Comm_create_errhandler",
                                                           "Grequest_start",
                                                           "Win_create_errhandler",
                                                           "Comm_create_keyval",
                                                           "Type_create_keyval",
                                                           "Win_create_keyval",
                                                           "Keyval_create",
                                                           "Comm_get_attr",
                                                           "Comm_set_attr",
                                                           "Type_get_attr",
                                                           "Type_set_attr",
                                                           "Win_get_attr",
                                                           "Win_set_attr",
                                                           "Attr_get",
                                                           "Attr_put"};

/// Those that take something else, and what MPI has removed.
constexpr std::string_view kOtherInterfaces[][2] = {
    {"Init", "ierror"},
    {"Init_thread", "required, provided, ierror"},
    {"Pcontrol", "level"},
    {"Info_create_env", "info, ierror"},
    {"Errhandler_set", "comm, errhandler, ierror"},
    {"Errhandler_get", "comm, errhandler, ierror"},
    {"Type_extent", "datatype, extent, ierror"},
    {"Type_lb", "datatype, lb, ierror"},
    {"Type_ub", "datatype, ub, ierror"},
    {"Type_hindexed", "count, lengths, displacements, oldtype, newtype, ierror"},
    {"Type_hvector", "count, length, stride, oldtype, newtype, ierror"},
    {"Type_struct", "count, lengths, displacements, types, newtype, ierror"},
};

/// Any argument of any rank is taken, as without an interface: MPI's buffers are of any type.
std::string unchecked(const std::string& name) {
  return "      !GCC$ ATTRIBUTES NO_ARG_CHECK :: " + name + "\n      type(*), dimension(*) :: " + name + '\n';
}

std::string interface_of(std::string_view name, const std::string& arguments, const std::string& declarations) {
  return "    subroutine MPI_" + std::string(name) + "( &\n        " + arguments + ")\n" + declarations +
         "    end subroutine\n";
}

std::string interface_of(const Function& function) {
  std::string arguments;
  std::string declarations;
  for (const Parameter& parameter : function.parameters) {
    arguments += parameter.name + ", &\n        ";
    const std::string_view type = parameter.type;
    const bool is_string = type.ends_with("char*") || (type.ends_with("char") && !parameter.array.empty());
    if (is_string) {
      declarations += "      character(len=*) :: " + parameter.name + '\n';
    } else if (type.find("_function*") != std::string_view::npos) {
      declarations += "      external :: " + parameter.name + '\n';
    } else {
      declarations += unchecked(parameter.name);
    }
  }
  return interface_of(function.name, arguments + "ierror", declarations + unchecked("ierror"));
}

}  // namespace

std::string emit_fortran_interfaces(const Table& table) {
  std::ostringstream out;
  out << "! Generated from functions.def; do not edit.\n  interface\n";
  for (const Group& group : table) {
    for (const Function& function : group.functions) {
      const bool by_rule = is_by_rule(function) && !entry_of(function).empty();
      if (function.result == "int" && (by_rule || among(kByHandAsInC, function.name))) out << interface_of(function);
    }
  }
  for (const auto& [name, arguments] : kOtherInterfaces) {
    std::string declarations;
    std::istringstream names{std::string(arguments)};
    for (std::string argument; std::getline(names >> std::ws, argument, ',');) declarations += unchecked(argument);
    out << interface_of(name, std::string(arguments), declarations);
  }
  out << "  end interface\n";
  return out.str();
}

std::string emit_fortran_entries(const Table& table) {
  std::ostringstream out;
  out << "// Generated from functions.def; do not edit.\n"
         "#include \"mpi_shim/fortran/convert.hpp\"\n"
         "using namespace mpi_shim::fortran;\n"
         "extern \"C\" {\n";
  for (const Group& group : table) {
    for (const Function& function : group.functions) {
      if (is_by_rule(function)) out << entry_of(function);
    }
  }
  out << "}\n";
  return out.str();
}

}  // namespace opal::mpi::abi
