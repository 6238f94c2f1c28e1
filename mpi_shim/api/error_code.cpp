// SPDX-License-Identifier: Apache-2.0
// Error codes, their classes and error strings: the standard's and those that the program adds.  They may be called at
// any time.  Before MPI_Init and after MPI_Finalize an error ends the process (raise()).
#include <algorithm>
#include <string>

#include "mpi_shim/abi/function.hpp"
#include "mpi_shim/base/error_class.hpp"
#include "mpi_shim/process/raise.hpp"
#include "mpi_shim/process/user_errors.hpp"

namespace {

using mpi_shim::UserErrors;

/// Raises MPI_ERR_ARG on the default error handler: these functions name no object.
int refuse(const char* function, const char* why) { return mpi_shim::raise({}, MPI_ERR_ARG, function, why); }

}  // namespace

OPAL_MPI_FUNCTION(int, Error_class, (int errorcode, int* errorclass)) {
  if (errorclass == nullptr) return refuse("MPI_Error_class", "argument errorclass is a null pointer");
  if (mpi_shim::error_class_name(errorcode) != nullptr) {
    *errorclass = errorcode;
    return MPI_SUCCESS;
  }
  const auto found = UserErrors::of_process().class_of(errorcode);
  if (!found) return refuse("MPI_Error_class", "argument errorcode is no error code");
  *errorclass = *found;
  return MPI_SUCCESS;
}

OPAL_MPI_FUNCTION(int, Error_string, (int errorcode, char* string, int* resultlen)) {
  if (string == nullptr) return refuse("MPI_Error_string", "argument string is a null pointer");
  if (resultlen == nullptr) return refuse("MPI_Error_string", "argument resultlen is a null pointer");
  std::string text;
  if (const char* const name = mpi_shim::error_class_name(errorcode)) {
    text = std::string{name} + ": " + mpi_shim::error_class_text(errorcode);
  } else if (auto own = UserErrors::of_process().text(errorcode)) {
    text = std::move(*own);
  } else {
    return refuse("MPI_Error_string", "argument errorcode is no error code");
  }
  // Fits: all error strings are shorter than MPI_MAX_ERROR_STRING.
  *std::copy(text.begin(), text.end(), string) = '\0';
  *resultlen = static_cast<int>(text.size());
  return MPI_SUCCESS;
}

OPAL_MPI_FUNCTION(int, Add_error_class, (int* errorclass)) {
  if (errorclass == nullptr) return refuse("MPI_Add_error_class", "argument errorclass is a null pointer");
  *errorclass = UserErrors::of_process().add_class();
  return MPI_SUCCESS;
}

OPAL_MPI_FUNCTION(int, Add_error_code, (int errorclass, int* errorcode)) {
  if (errorcode == nullptr) return refuse("MPI_Add_error_code", "argument errorcode is a null pointer");
  const auto added = UserErrors::of_process().add_code(errorclass);
  if (!added) return refuse("MPI_Add_error_code", "argument errorclass is no error class");
  *errorcode = *added;
  return MPI_SUCCESS;
}

OPAL_MPI_FUNCTION(int, Add_error_string, (int errorcode, const char* string)) {
  if (string == nullptr) return refuse("MPI_Add_error_string", "argument string is a null pointer");
  std::string text{string};
  if (text.size() >= MPI_MAX_ERROR_STRING) {
    return refuse("MPI_Add_error_string", "argument string is longer than MPI_MAX_ERROR_STRING - 1");
  }
  if (!UserErrors::of_process().set_text(errorcode, std::move(text))) {
    return refuse("MPI_Add_error_string", "argument errorcode is no error code that the program added");
  }
  return MPI_SUCCESS;
}

OPAL_MPI_FUNCTION(int, Remove_error_class, (int errorclass)) {
  if (UserErrors::of_process().remove(errorclass, true)) return MPI_SUCCESS;
  return refuse(
      "MPI_Remove_error_class",
      "argument errorclass is no error class that the program added, or still has error codes or an error string");
}

OPAL_MPI_FUNCTION(int, Remove_error_code, (int errorcode)) {
  if (UserErrors::of_process().remove(errorcode, false)) return MPI_SUCCESS;
  return refuse("MPI_Remove_error_code",
                "argument errorcode is no error code that the program added, or still has an error string");
}

OPAL_MPI_FUNCTION(int, Remove_error_string, (int errorcode)) {
  if (UserErrors::of_process().remove_text(errorcode)) return MPI_SUCCESS;
  return refuse("MPI_Remove_error_string", "argument errorcode has no error string that the program added");
}
