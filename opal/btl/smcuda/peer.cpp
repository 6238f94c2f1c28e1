// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/smcuda/peer.hpp"

#include <new>

namespace opal::btl::smcuda {

Result<Window*> Peer::window(gpu::WorkContext work, const rcache::Config& config) noexcept try {
  OPAL_TRY_ASSIGN(const std::uint64_t id, gpu::context_id(work.handle()));
  for (const auto& window : windows) {
    if (window->id == id) return window.get();
  }
  windows.push_back(std::make_unique<Window>(std::move(work), id, config, imports));
  return windows.back().get();
} catch (const std::bad_alloc&) {
  return Error{Errc::no_memory, 0, "smcuda: a cache of the peer's GPU memory"};
}

}  // namespace opal::btl::smcuda
