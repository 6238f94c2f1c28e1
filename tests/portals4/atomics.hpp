// SPDX-License-Identifier: Apache-2.0
// Which atomic operations the double knows, and their execution by the target.
// Each item is updated by an atomic operation of the processor, so updates are coherent with those of the host.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tests/portals4/wire.hpp"

namespace opal::test::portals4 {

/// Bytes of one item; 0: an unsupported datatype.
std::size_t item_size(ptl_datatype_t type);

/// Whether kind (atomic, fetch_atomic or swap) allows this operation on length bytes of this datatype.
bool is_valid_atomic(wire::Kind kind, ptl_op_t operation, ptl_datatype_t type, std::uint64_t length);

/// Applies length bytes of values to target, and replaces the values by those that target held before.
/// Requires: is_valid_atomic(), target aligned to the item, length a multiple of the item.
void apply_atomic(const wire::Request& request, std::byte* target, std::byte* values, std::size_t length);

}  // namespace opal::test::portals4
