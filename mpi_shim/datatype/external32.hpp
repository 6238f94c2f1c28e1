// SPDX-License-Identifier: Apache-2.0
// mpi_shim/datatype/external32.hpp — data in the representation "external32" (MPI 5.0, section 14.5.2): big-endian,
// two's complement, IEEE, no padding.  Some sizes differ from those in memory: MPI_LONG has 4 bytes, MPI_WCHAR 2, and
// MPI_LONG_DOUBLE is binary128.  An integer that does not fit its external32 size loses its upper bytes.
// Threads: safe from any thread.
#pragma once
#include <cstdint>
#include <optional>

#include "mpi_shim/datatype/datatype.hpp"
#include "opal/core/bytes.hpp"

namespace mpi_shim::datatype {

/// Bytes of `count` instances in external32; empty if `count` is negative or the bytes do not fit 63 bits.
std::optional<std::int64_t> external32_size(const Datatype& type, std::int64_t count) noexcept;

/// Converts `count` instances in `buffer` to external32 in `to`.
/// Requires: `to` has external32_size(type, count) bytes; type.packed_size(count) has a value.
void pack_external32(const Datatype& type, const void* buffer, std::int64_t count, opal::MutableBytes to);

/// Converts `count` instances from external32 in `from` to `buffer`.  Requires: as pack_external32().
void unpack_external32(const Datatype& type, void* buffer, std::int64_t count, opal::ByteSpan from);

}  // namespace mpi_shim::datatype
