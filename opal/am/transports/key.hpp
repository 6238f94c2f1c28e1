// SPDX-License-Identifier: Apache-2.0
// opal/am/transports/key.hpp — a Region's key: one handle per kind of transport, so that the peer can use whichever it
// has a route by. Wire:  u8 count | count x { u8 name size | name | u8 handle size | handle } Transports that share the
// Context's registration table share one entry named "".
#pragma once
#include <string_view>
#include <vector>

#include "opal/btl/memory_handle.hpp"
#include "opal/core/bytes.hpp"
#include "opal/core/export.hpp"
#include "opal/core/result.hpp"

namespace opal::am {

/// Adds one entry to a key under construction (start from an empty vector).
OPAL_EXPORT void append_handle(std::vector<std::byte>& key, std::string_view transport, const MemoryHandle& handle);

/// The handle for `transport`, else the shared software one.  Errors: protocol (garbled), unreachable (neither is
/// there).
OPAL_EXPORT Result<MemoryHandle> find_handle(ByteSpan key, std::string_view transport);

}  // namespace opal::am
