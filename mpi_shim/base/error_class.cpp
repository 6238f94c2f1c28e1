// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/base/error_class.hpp"

#include <array>
#include <cstddef>

#include "mpi_shim/include/mpi.h"

namespace mpi_shim {
namespace {

struct Entry {
  int number;
  const char* name;
  const char* text;
};

#define OPAL_MPI_CLASS(name, text) \
  Entry { name, #name, text }

constexpr std::array kClasses{
    OPAL_MPI_CLASS(MPI_SUCCESS, "no error"),
    OPAL_MPI_CLASS(MPI_ERR_BUFFER, "invalid buffer pointer"),
    OPAL_MPI_CLASS(MPI_ERR_COUNT, "invalid count argument"),
    OPAL_MPI_CLASS(MPI_ERR_TYPE, "invalid datatype argument"),
    OPAL_MPI_CLASS(MPI_ERR_TAG, "invalid tag argument"),
    OPAL_MPI_CLASS(MPI_ERR_COMM, "invalid communicator"),
    OPAL_MPI_CLASS(MPI_ERR_RANK, "invalid rank"),
    OPAL_MPI_CLASS(MPI_ERR_REQUEST, "invalid request handle"),
    OPAL_MPI_CLASS(MPI_ERR_ROOT, "invalid root"),
    OPAL_MPI_CLASS(MPI_ERR_GROUP, "invalid group"),
    OPAL_MPI_CLASS(MPI_ERR_OP, "invalid operation"),
    OPAL_MPI_CLASS(MPI_ERR_TOPOLOGY, "invalid topology"),
    OPAL_MPI_CLASS(MPI_ERR_DIMS, "invalid dimension argument"),
    OPAL_MPI_CLASS(MPI_ERR_ARG, "invalid argument of some other kind"),
    OPAL_MPI_CLASS(MPI_ERR_UNKNOWN, "unknown error"),
    OPAL_MPI_CLASS(MPI_ERR_TRUNCATE, "message truncated on receive"),
    OPAL_MPI_CLASS(MPI_ERR_OTHER, "known error not in this list"),
    OPAL_MPI_CLASS(MPI_ERR_INTERN, "internal error of the MPI library"),
    OPAL_MPI_CLASS(MPI_ERR_PENDING, "the request is still pending"),
    OPAL_MPI_CLASS(MPI_ERR_IN_STATUS, "the error code is in the status"),
    OPAL_MPI_CLASS(MPI_ERR_ACCESS, "permission denied"),
    OPAL_MPI_CLASS(MPI_ERR_AMODE, "invalid access mode of a file"),
    OPAL_MPI_CLASS(MPI_ERR_ASSERT, "invalid assertion argument"),
    OPAL_MPI_CLASS(MPI_ERR_BAD_FILE, "invalid file name"),
    OPAL_MPI_CLASS(MPI_ERR_BASE, "invalid base passed to MPI_Free_mem"),
    OPAL_MPI_CLASS(MPI_ERR_CONVERSION, "an error in a user's data conversion function"),
    OPAL_MPI_CLASS(MPI_ERR_DISP, "invalid displacement"),
    OPAL_MPI_CLASS(MPI_ERR_DUP_DATAREP, "the data representation is defined already"),
    OPAL_MPI_CLASS(MPI_ERR_FILE_EXISTS, "the file exists"),
    OPAL_MPI_CLASS(MPI_ERR_FILE_IN_USE, "the file is in use"),
    OPAL_MPI_CLASS(MPI_ERR_FILE, "invalid file handle"),
    OPAL_MPI_CLASS(MPI_ERR_INFO_KEY, "invalid info key"),
    OPAL_MPI_CLASS(MPI_ERR_INFO_NOKEY, "the info object has no such key"),
    OPAL_MPI_CLASS(MPI_ERR_INFO_VALUE, "invalid info value"),
    OPAL_MPI_CLASS(MPI_ERR_INFO, "invalid info object"),
    OPAL_MPI_CLASS(MPI_ERR_IO, "input or output error"),
    OPAL_MPI_CLASS(MPI_ERR_KEYVAL, "invalid attribute key"),
    OPAL_MPI_CLASS(MPI_ERR_LOCKTYPE, "invalid lock type"),
    OPAL_MPI_CLASS(MPI_ERR_NAME, "the service name is not published"),
    OPAL_MPI_CLASS(MPI_ERR_NO_MEM, "no memory left"),
    OPAL_MPI_CLASS(MPI_ERR_NOT_SAME, "collective argument not the same on all processes"),
    OPAL_MPI_CLASS(MPI_ERR_NO_SPACE, "no space left on the device"),
    OPAL_MPI_CLASS(MPI_ERR_NO_SUCH_FILE, "the file does not exist"),
    OPAL_MPI_CLASS(MPI_ERR_PORT, "invalid port name"),
    OPAL_MPI_CLASS(MPI_ERR_QUOTA, "quota exceeded"),
    OPAL_MPI_CLASS(MPI_ERR_READ_ONLY, "the file or file system is read-only"),
    OPAL_MPI_CLASS(MPI_ERR_RMA_ATTACH, "memory cannot be attached"),
    OPAL_MPI_CLASS(MPI_ERR_RMA_CONFLICT, "conflicting accesses to a window"),
    OPAL_MPI_CLASS(MPI_ERR_RMA_RANGE, "target memory is not part of the window"),
    OPAL_MPI_CLASS(MPI_ERR_RMA_SHARED, "memory cannot be shared"),
    OPAL_MPI_CLASS(MPI_ERR_RMA_SYNC, "wrong synchronisation of one-sided calls"),
    OPAL_MPI_CLASS(MPI_ERR_SERVICE, "invalid service name"),
    OPAL_MPI_CLASS(MPI_ERR_SIZE, "invalid size argument"),
    OPAL_MPI_CLASS(MPI_ERR_SPAWN, "processes could not be spawned"),
    OPAL_MPI_CLASS(MPI_ERR_UNSUPPORTED_DATAREP, "unsupported data representation"),
    OPAL_MPI_CLASS(MPI_ERR_UNSUPPORTED_OPERATION, "unsupported operation"),
    OPAL_MPI_CLASS(MPI_ERR_WIN, "invalid window"),
    OPAL_MPI_CLASS(MPI_ERR_RMA_FLAVOR, "wrong flavor of window"),
    OPAL_MPI_CLASS(MPI_ERR_PROC_ABORTED, "a process of the communication has aborted"),
    OPAL_MPI_CLASS(MPI_ERR_VALUE_TOO_LARGE, "the value does not fit into its argument"),
    OPAL_MPI_CLASS(MPI_ERR_SESSION, "invalid session"),
    OPAL_MPI_CLASS(MPI_ERR_ERRHANDLER, "invalid error handler"),
    OPAL_MPI_CLASS(MPI_ERR_ABI, "an ABI query or definition failed"),
};
#undef OPAL_MPI_CLASS

constexpr bool numbered_from_zero() {
  for (std::size_t i = 0; i < kClasses.size(); ++i) {
    if (kClasses[i].number != static_cast<int>(i)) return false;
  }
  return true;
}
static_assert(numbered_from_zero(), "the table is indexed by the class");

const Entry* find(int error_class) noexcept {
  if (error_class < 0 || static_cast<std::size_t>(error_class) >= kClasses.size()) return nullptr;
  return &kClasses[static_cast<std::size_t>(error_class)];
}

}  // namespace

const char* error_class_name(int error_class) noexcept {
  const Entry* entry = find(error_class);
  return entry != nullptr ? entry->name : nullptr;
}

const char* error_class_text(int error_class) noexcept {
  const Entry* entry = find(error_class);
  return entry != nullptr ? entry->text : nullptr;
}

}  // namespace mpi_shim
