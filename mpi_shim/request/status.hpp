// SPDX-License-Identifier: Apache-2.0
// mpi_shim/request/status.hpp — conversion of Outcome to the ABI's MPI_Status.  MPI_internal[0] and [1] are the low and
// high half of the number of bytes, MPI_internal[2] is "cancelled".
#pragma once
#include <cstdint>

#include "mpi_shim/include/mpi.h"
#include "mpi_shim/request/request.hpp"

namespace mpi_shim {

inline std::uint64_t bytes_of(const MPI_Status& status) noexcept {
  return static_cast<std::uint32_t>(status.MPI_internal[0]) |
         (static_cast<std::uint64_t>(static_cast<std::uint32_t>(status.MPI_internal[1])) << 32);
}
inline void set_bytes(MPI_Status& status, std::uint64_t bytes) noexcept {
  status.MPI_internal[0] = static_cast<int>(bytes & 0xffffffffU);
  status.MPI_internal[1] = static_cast<int>(bytes >> 32);
}

inline bool is_cancelled(const MPI_Status& status) noexcept { return status.MPI_internal[2] != 0; }
inline void set_cancelled(MPI_Status& status, bool cancelled) noexcept { status.MPI_internal[2] = cancelled ? 1 : 0; }

/// Sets everything except MPI_ERROR, which only functions with several statuses set.  MPI_STATUS_IGNORE: does nothing.
inline void store(const Outcome& outcome, MPI_Status* status) noexcept {
  if (status == MPI_STATUS_IGNORE) return;
  status->MPI_SOURCE = outcome.source;
  status->MPI_TAG = outcome.tag;
  set_bytes(*status, outcome.bytes);
  set_cancelled(*status, outcome.cancelled);
}

}  // namespace mpi_shim
