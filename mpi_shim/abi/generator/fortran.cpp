// SPDX-License-Identifier: Apache-2.0
// Generates the Fortran entry points (mpi_send_), as gfortran calls them, and the interfaces of the module mpi from the
// function table.  If one argument has no conversion rule, the function gets no entry point here; fortran/special.cpp
// and callbacks.cpp define some of those.
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

/// These functions and all *_free read the handle behind a pointer and may change it: InOut<>.  All others only write
/// it: Out<>.
constexpr std::array<std::string_view, 8> kChanging = {"Wait",  "Test",   "Start",       "Cancel",
                                                       "Mrecv", "Imrecv", "Type_commit", "Comm_disconnect"};

/// One argument: its declaration in the entry point, and the expression that is passed to the C function.
struct Argument {
  std::string declaration;
  std::string value;
  bool is_string = false;
};

/// The expression `what{first, second}`.
std::string braced(std::string_view what, std::string_view first, std::string_view second = {}) {
  std::string call(what);
  call.append("{").append(first);
  if (!second.empty()) call.append(", ").append(second);
  return call + '}';
}

/// The C++ expression for the number of handles in an array argument.  sendtypes, recvtypes: the number of ranks or of
/// neighbours; with MPI_IN_PLACE 0 for sendtypes, which is not significant then.  Else: the first argument.
std::string count_of(const Function& function, const Parameter& parameter) {
  if (parameter.name == "sendtypes" || parameter.name == "recvtypes") {
    const std::string comm = "handle<MPI_Comm>(*comm)";
    if (!function.name.starts_with("Neighbor_") && !function.name.starts_with("Ineighbor_")) {
      const bool sends = parameter.name == "sendtypes";
      return (sends ? "sendbuf == &mpi_fortran_in_place_ ? 0 : peers_of(" : "peers_of(") + comm + ')';
    }
    // true: destinations, false: sources
    return "neighbours_of(" + comm + (parameter.name == "sendtypes" ? ", true)" : ", false)");
  }
  return '*' + function.parameters.front().name;
}

/// `value` is empty if there is no conversion rule for the parameter.  The converted arguments are temporaries: the
/// C function must not keep their addresses after it returns (MPI_Comm_idup writes newcomm at once).
Argument argument_of(const Function& function, const Parameter& parameter) {
  const std::string_view type = parameter.type;
  const std::string name = parameter.name == "assert" ? "assertion" : parameter.name;  // `assert` may be a macro
  const bool is_constant = type.starts_with("const ");
  const std::string_view plain = is_constant ? type.substr(6) : type;
  const bool is_array = !parameter.array.empty();
  if (is_array && among(kHandles, plain)) {
    const std::string declared = "MPI_Fint* " + name;
    if (is_constant) {
      return {declared, braced("InArray<" + std::string(plain) + '>', name, count_of(function, parameter))};
    }
    if (plain != "MPI_Request") return {};  // other output arrays (MPI_Type_get_contents): by hand
    return {declared, braced("Requests", name, count_of(function, parameter))};
  }
  if (is_array && plain == "int") {
    if (name == "array_of_indices")
      return {"MPI_Fint* " + name, braced("Indices", name, "outcount")};  // the parameter of MPI_Waitsome
    return {"MPI_Fint " + name + parameter.array, name};
  }
  if ((plain == "char*" && !is_array) || (plain == "char" && is_array)) {
    const char* const input = function.name.starts_with("Info_") ? "InfoIn" : "StringIn";
    return {"char* " + name, braced(is_constant ? input : "StringOut", name, name + "_length"), true};
  }
  if (is_array && plain == "MPI_Aint") return {std::string(plain) + "* " + name, name};
  if (is_array) return {};
  if (plain == "int") return {"const MPI_Fint* " + name, '*' + name};
  if (plain == "int*") {
    if (name == "indx") return {"MPI_Fint* " + name, braced("Index", name)};
    const bool weighs = name.ends_with("weights");
    return {"MPI_Fint* " + name, weighs ? "weights_of(" + name + ')' : name};
  }
  if (plain == "MPI_Aint" || plain == "MPI_Count") return {"const " + std::string(plain) + "* " + name, '*' + name};
  if (plain == "MPI_Aint*" || plain == "MPI_Count*") return {std::string(plain) + ' ' + name, name};
  if (plain == "MPI_Status*") return {"MPI_Fint* " + name, "statuses(" + name + ')'};
  if (plain == "void*") {
    if (name == "buffer_addr") return {"void*", "Ignored{}"};  // Fortran cannot use the address
    if (function.name.ends_with("uffer_attach") || function.name.ends_with("_attach_buffer")) {
      return {"void* " + name, "attached(" + name + ')'};
    }
    // baseptr is an output.  Other void* are choice buffers: MPI_BOTTOM and MPI_IN_PLACE are replaced.
    return {"void* " + name, name == "baseptr" ? name : "choice(" + name + ')'};
  }
  if (among(kHandles, plain)) {
    return {"const MPI_Fint* " + name, "handle<" + std::string(plain) + ">(*" + name + ')'};
  }
  if (plain.ends_with("*") && among(kHandles, plain.substr(0, plain.size() - 1))) {
    const bool changes = among(kChanging, function.name) || function.name.ends_with("_free");
    // In MPI_Imrecv the message is input and output, the request only output.
    const bool request_of_imrecv = function.name == "Imrecv" && plain == "MPI_Request*";
    return {"MPI_Fint* " + name, braced((changes && !request_of_imrecv ? "InOut<" : "Out<") +
                                            std::string(plain.substr(0, plain.size() - 1)) + '>',
                                        name)};
  }
  return {};
}

/// Functions written by hand (fortran/special.cpp, callbacks.cpp) with the parameters of the C function: the table
/// gives their interfaces.
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

/// The definition of an entry point.  Empty if one argument has no conversion rule (a session, a file, `char***`), and
/// for MPI_T, large counts, conversions of handles (toint, fromint) and functions written by hand.
std::string entry_of(const Function& function) {
  for (const std::string_view other : {"T_", "File_", "Abi_get_fortran_", "Abi_set_fortran_"}) {
    if (function.name.starts_with(other)) return {};
  }
  for (const std::string_view other : {"_c", "toint", "fromint"}) {
    if (function.name.ends_with(other)) return {};
  }
  if (among(kByHandAsInC, function.name)) return {};
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

/// Functions written by hand with other parameters than in C, and functions that MPI has removed: name, Fortran
/// arguments.
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

/// Declares an argument whose type and rank are not checked.  The interface only gives the procedure a name for `only`
/// lists and for programs that forbid implicit interfaces.
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
      if (function.result == "int" && (among(kByHandAsInC, function.name) || !entry_of(function).empty())) {
        out << interface_of(function);
      }
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
    for (const Function& function : group.functions) out << entry_of(function);
  }
  out << "}\n";
  return out.str();
}

}  // namespace opal::mpi::abi
