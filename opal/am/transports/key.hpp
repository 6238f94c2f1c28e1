// SPDX-License-Identifier: Apache-2.0
// opal/am/transports/key.hpp — a Region's key: one memory handle per transport; the peer uses that of its route.
// Wire:  u8 count | count x { u8 name size | name | u8 handle size | handle }
// All transports without handles of their own share one entry named "", the handle of the Context's registration table.
// Pure functions.
#pragma once
#include <string_view>
#include <vector>

#include "opal/btl/memory_handle.hpp"
#include "opal/core/bytes.hpp"
#include "opal/core/export.hpp"
#include "opal/core/result.hpp"

namespace opal::am {

/// Appends one entry to `key`, which is empty before the first call.
OPAL_EXPORT void append_handle(std::vector<std::byte>& key, std::string_view transport, const MemoryHandle& handle);

/// Returns the handle for `transport`, else the shared one.  Errors: protocol (garbled), unreachable (neither exists).
OPAL_EXPORT Result<MemoryHandle> find_handle(ByteSpan key, std::string_view transport);

}  // namespace opal::am
