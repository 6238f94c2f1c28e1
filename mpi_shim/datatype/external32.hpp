// SPDX-License-Identifier: Apache-2.0
// mpi_shim/datatype/external32.hpp — data in the representation "external32" (MPI 5.0, section 14.5.2): big-endian,
// two's complement, IEEE, no padding, with sizes of its own: MPI_LONG has 4 bytes, MPI_WCHAR 2, MPI_LONG_DOUBLE is
// binary128.  A value that its size there cannot hold loses its upper bytes.
// Threads: functions of their arguments.
#pragma once
#include <cstdint>
#include <optional>

#include "mpi_shim/datatype/datatype.hpp"
#include "opal/core/bytes.hpp"

namespace mpi_shim::datatype {

/// Bytes of `count` instances in external32; nothing when they do not fit 63 bits.
std::optional<std::int64_t> external32_size(const Datatype& type, std::int64_t count) noexcept;

/// Writes `count` instances in `buffer` to `to`, which has external32_size() bytes; type.packed_size(count) has a
/// value.
void pack_external32(const Datatype& type, const void* buffer, std::int64_t count, opal::MutableBytes to);

/// Reads them from `from`, which has external32_size() bytes.
void unpack_external32(const Datatype& type, void* buffer, std::int64_t count, opal::ByteSpan from);

}  // namespace mpi_shim::datatype
