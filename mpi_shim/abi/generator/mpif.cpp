// SPDX-License-Identifier: Apache-2.0
// mpif.h: the constants of mpi.h for Fortran, valid in fixed and in free source form (columns 7 to 72).
#include <map>
#include <regex>
#include <sstream>
#include <string_view>

#include "mpi_shim/abi/generator/emit.hpp"

namespace opal::mpi::abi {
namespace {

/// The part of mpif.h that does not come from numeric macros of mpi.h.  The library recognises MPI_BOTTOM and the other
/// COMMON variables by their address (fortran/convert.hpp).  EXTERNAL are the functions that return a value and the
/// predefined attribute callbacks.
constexpr std::string_view kFixedPart = R"(      INTEGER MPI_STATUS_SIZE, MPI_SOURCE, MPI_TAG, MPI_ERROR
      PARAMETER (MPI_STATUS_SIZE=8)
      PARAMETER (MPI_SOURCE=1, MPI_TAG=2, MPI_ERROR=3)
      INTEGER MPI_ADDRESS_KIND, MPI_COUNT_KIND, MPI_OFFSET_KIND
      PARAMETER (MPI_ADDRESS_KIND=8)
      PARAMETER (MPI_COUNT_KIND=8, MPI_OFFSET_KIND=8)
      INTEGER MPI_INTEGER_KIND
      PARAMETER (MPI_INTEGER_KIND=4)
      LOGICAL MPI_SUBARRAYS_SUPPORTED
      PARAMETER (MPI_SUBARRAYS_SUPPORTED=.FALSE.)
      LOGICAL MPI_ASYNC_PROTECTS_NONBLOCKING
      PARAMETER (MPI_ASYNC_PROTECTS_NONBLOCKING=.FALSE.)
      INTEGER MPI_BOTTOM, MPI_IN_PLACE
      COMMON /MPI_FORTRAN_BOTTOM/ MPI_BOTTOM
      COMMON /MPI_FORTRAN_IN_PLACE/ MPI_IN_PLACE
      INTEGER MPI_BUFFER_AUTOMATIC
      COMMON /MPI_FORTRAN_BUFFER_AUTOMATIC/ MPI_BUFFER_AUTOMATIC
      INTEGER MPI_UNWEIGHTED(1), MPI_WEIGHTS_EMPTY(1)
      COMMON /MPI_FORTRAN_UNWEIGHTED/ MPI_UNWEIGHTED
      COMMON /MPI_FORTRAN_WEIGHTS_EMPTY/ MPI_WEIGHTS_EMPTY
      INTEGER MPI_STATUS_IGNORE(MPI_STATUS_SIZE)
      INTEGER MPI_STATUSES_IGNORE(MPI_STATUS_SIZE,1)
      COMMON /MPI_FORTRAN_STATUS_IGNORE/ MPI_STATUS_IGNORE
      COMMON /MPI_FORTRAN_STATUSES_IGNORE/ MPI_STATUSES_IGNORE
      EXTERNAL MPI_WTIME, MPI_WTICK, MPI_AINT_ADD, MPI_AINT_DIFF
      DOUBLE PRECISION MPI_WTIME, MPI_WTICK
      INTEGER(KIND=MPI_ADDRESS_KIND) MPI_AINT_ADD, MPI_AINT_DIFF
      EXTERNAL MPI_COMM_DUP_FN, MPI_COMM_NULL_COPY_FN
      EXTERNAL MPI_COMM_NULL_DELETE_FN
      EXTERNAL MPI_DUP_FN, MPI_NULL_COPY_FN, MPI_NULL_DELETE_FN
      EXTERNAL MPI_TYPE_DUP_FN, MPI_TYPE_NULL_COPY_FN
      EXTERNAL MPI_TYPE_NULL_DELETE_FN
      EXTERNAL MPI_WIN_DUP_FN, MPI_WIN_NULL_COPY_FN
      EXTERNAL MPI_WIN_NULL_DELETE_FN
)";

/// MPI_MAX_*: lengths of strings.  Those of Fortran are one less than those of C, which count the terminating zero.
bool is_string_length(std::string_view name) { return name.starts_with("MPI_MAX_"); }

}  // namespace

std::string emit_fortran_constants(std::istream& header) {
  static const std::regex number(R"(#define (MPI_\w+) \(?(-?(?:0x[0-9a-fA-F]+|\d+))\)?)");
  // Predefined handles: the ABI casts small integers to handle types; Fortran uses the same integers.
  static const std::regex handle(
      R"(#define (MPI_\w+) MPI_ABI_ADDRESS_\(MPI_(?:Comm|Datatype|Errhandler|File|Group|Info|Message|Op|Request|Session|Win), (0x[0-9a-f]+)\))");
  static const std::regex alias(R"(#define (MPI_\w+) (MPI_\w+))");
  std::ostringstream out;
  out << "!     Generated from mpi.h; do not edit.\n" << kFixedPart;
  std::map<std::string, long> values;
  std::smatch found;
  for (std::string line; std::getline(header, line);) {
    line = std::regex_replace(line, std::regex(R"(\s*(/\*.*)?$)"), "");
    long value = 0;
    if (std::regex_match(line, found, number) || std::regex_match(line, found, handle)) {
      value = std::stol(found[2], nullptr, 0);
    } else if (std::regex_match(line, found, alias) && values.count(found[2]) != 0) {
      value = values.at(found[2]);
    } else {
      continue;
    }
    const std::string name = found[1];
    if (name.starts_with("MPI_T_") || name.starts_with("MPI_F_")) continue;  // for C only
    if (is_string_length(name)) --value;
    values[name] = value;
    out << "      INTEGER " << name << "\n      PARAMETER (" << name << '=' << value << ")\n";
  }
  return out.str();
}

}  // namespace opal::mpi::abi
