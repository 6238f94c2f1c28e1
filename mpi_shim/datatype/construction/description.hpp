// SPDX-License-Identifier: Apache-2.0
// mpi_shim/datatype/construction/description.hpp — serialises a derived datatype, so that another process can make an
// equal one.  A description is a list of recipes (constructor calls): each part once, and before the types made of it.
// Requires: both processes have the same architecture.  Threads: safe from any thread.
#pragma once
#include <cstddef>
#include <vector>

#include "mpi_shim/datatype/datatype.hpp"
#include "opal/core/bytes.hpp"
#include "opal/core/result.hpp"

namespace mpi_shim::datatype {

/// The description of a derived datatype (predefined_handle() is 0).
std::vector<std::byte> describe(const Datatype& type);

/// A committed datatype from a description, which may come from a peer: all of it is checked.  Its handle names
/// nothing. Memory and time are proportional to the number of bytes. Errors: protocol (the bytes are no description),
/// limit_reached (nested deeper than 256 levels), those of construct().
opal::Result<DatatypeRef> from_description(opal::ByteSpan bytes);

}  // namespace mpi_shim::datatype
