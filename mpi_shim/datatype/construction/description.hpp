// SPDX-License-Identifier: Apache-2.0
// mpi_shim/datatype/construction/description.hpp — a datatype as bytes, with which another process makes the same one:
// the calls of the constructors, parts before what is made of them, each part once.  Same-architecture peers only.
// Threads: safe from any thread.
#pragma once
#include <cstddef>
#include <vector>

#include "mpi_shim/datatype/datatype.hpp"
#include "opal/core/bytes.hpp"
#include "opal/core/result.hpp"

namespace mpi_shim::datatype {

/// The description of a derived type.
std::vector<std::byte> describe(const Datatype& type);

/// A committed type made of what a peer says; nothing of it is believed.  Memory and time are those of the bytes.
/// Errors: protocol (garbled), those of the constructors.
opal::Result<DatatypeRef> from_description(opal::ByteSpan bytes);

}  // namespace mpi_shim::datatype
