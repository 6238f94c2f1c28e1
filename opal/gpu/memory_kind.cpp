// SPDX-License-Identifier: Apache-2.0
#include "opal/gpu/memory.hpp"

namespace opal::gpu {

const char* name(MemoryKind kind) noexcept {
  switch (kind) {
    case MemoryKind::host: return "host";
    case MemoryKind::pinned: return "pinned";
    case MemoryKind::managed: return "managed";
    case MemoryKind::legacy: return "legacy";
    case MemoryKind::mapped: return "mapped";
    case MemoryKind::pooled: return "pooled";
    case MemoryKind::other: return "other";
  }
  return "unknown";
}

}  // namespace opal::gpu
