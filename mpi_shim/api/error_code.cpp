// SPDX-License-Identifier: Apache-2.0
// Error codes, error classes and error strings, of the standard and of the application.  The functions may be called at
// any time.  Before MPI_Init and after MPI_Finalize an error ends the process (raise()).
#include <optional>
#include <string>

#include "mpi_shim/api/forward.hpp"
#include "mpi_shim/base/error_class.hpp"
#include "mpi_shim/process/user_errors.hpp"

namespace mpi_shim::api {
OPAL_MPI_CALL_ANY_TIME(Error_class, (Call & call, int errorcode, int* errorclass)) {
  if (error_class_name(errorcode) != nullptr) return call.answer(errorclass, errorcode);
  const auto own = UserErrors::of_process().find(errorcode);
  if (!own) call.fail(MPI_ERR_ARG, "argument errorcode is no error code");
  return call.answer(errorclass, own->error_class);
}

OPAL_MPI_CALL_ANY_TIME(Error_string, (Call & call, int errorcode, char* string, int* resultlen)) {
  // All texts are shorter than MPI_MAX_ERROR_STRING.
  if (const char* const name = error_class_name(errorcode)) {
    return call.answer_name(std::string{name} + ": " + error_class_text(errorcode), string, resultlen);
  }
  const auto own = UserErrors::of_process().find(errorcode);
  if (!own) call.fail(MPI_ERR_ARG, "argument errorcode is no error code");
  return call.answer_name(own->text.value_or(""), string, resultlen);
}

OPAL_MPI_CALL_ANY_TIME(Add_error_class, (Call & call, int* errorclass)) {
  return call.answer(errorclass, UserErrors::of_process().add_class());
}

OPAL_MPI_CALL_ANY_TIME(Add_error_code, (Call & call, int errorclass, int* errorcode)) {
  const auto added = UserErrors::of_process().add_code(errorclass);
  if (!added) call.fail(MPI_ERR_ARG, "argument errorclass is no error class");
  return call.answer(errorcode, *added);
}

OPAL_MPI_CALL_ANY_TIME(Add_error_string, (Call & call, int errorcode, const char* string)) {
  call.pointer(string, "string");
  std::string text{string};
  if (text.size() >= MPI_MAX_ERROR_STRING) {
    call.fail(MPI_ERR_ARG, "argument string is longer than MPI_MAX_ERROR_STRING - 1");
  } else if (!UserErrors::of_process().set_text(errorcode, std::move(text))) {
    call.fail(MPI_ERR_ARG, "argument errorcode is not an error code that the application added");
  }
  return MPI_SUCCESS;
}

OPAL_MPI_CALL_ANY_TIME(Remove_error_class, (Call & call, int errorclass)) {
  if (UserErrors::of_process().remove(errorclass, true)) return MPI_SUCCESS;
  call.fail(
      MPI_ERR_ARG,
      "argument errorclass is no error class that the program added, or still has error codes or an error string");
}

OPAL_MPI_CALL_ANY_TIME(Remove_error_code, (Call & call, int errorcode)) {
  if (UserErrors::of_process().remove(errorcode, false)) return MPI_SUCCESS;
  call.fail(MPI_ERR_ARG, "argument errorcode is no error code that the program added, or still has an error string");
}

OPAL_MPI_CALL_ANY_TIME(Remove_error_string, (Call & call, int errorcode)) {
  if (UserErrors::of_process().set_text(errorcode, std::nullopt)) return MPI_SUCCESS;
  call.fail(MPI_ERR_ARG, "argument errorcode has no error string that the program added");
}

}  // namespace mpi_shim::api
