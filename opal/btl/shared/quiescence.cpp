// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/shared/quiescence.hpp"

#include <algorithm>

#include "opal/btl/module.hpp"
#include "opal/btl/remote_memory.hpp"
#include "opal/btl/shared/rdma_wire.hpp"
#include "opal/core/bytes.hpp"
#include "opal/rcache/cache.hpp"

namespace opal::btl {

Result<void> Quiescence::install(HandlerTable& handlers) {
  return handlers.set(wire::kMarker, {&Quiescence::on_marker, nullptr, "checkpoint"});
}

void Quiescence::on_marker(void* /*object*/, Delivery& delivery) noexcept {
  std::uint64_t round = 0;
  if (read_object(delivery.data, round)) delivery.from.heard_ = std::max(delivery.from.heard_, round);
}

void Quiescence::begin(std::uint64_t round) noexcept {
  active_ = true;
  round_ = round;
}

bool Quiescence::reached() noexcept {
  if (!active_) return false;
  bool all = true;
  for (Endpoint* endpoint = module_.endpoints_; endpoint != nullptr; endpoint = endpoint->next_) {
    if (endpoint->dead()) continue;  // peers that die are not waited for
    if (endpoint->marked_ < round_ &&
        module_.send_inline(*endpoint, wire::kMarker, bytes_of(round_), {}) == Post::done) {
      endpoint->marked_ = round_;
    }
    all = all && (endpoint->dead() || (endpoint->marked_ == round_ && endpoint->heard_ >= round_));
  }
  if (!all || flush_.queued) return false;
  flush_.fn = [](Completion& self) noexcept { static_cast<Flush&>(self).queued = false; };
  flush_.queued = true;  // before: the completion may run inside
  const Post post = module_.flush(nullptr, flush_);
  if (post != Post::queued) flush_.queued = false;
  return post == Post::done;
}

Result<void> Quiescence::checkpoint() noexcept {
  if (!reached()) return Error{Errc::busy, 0, "checkpoint: not quiet"};
  if (auto* const keeper = dynamic_cast<KeepsRemoteMemory*>(&module_); keeper != nullptr) {
    OPAL_TRY(keeper->release_remote_memory());
  }
  rcache::Cache* const cache = module_.registrations();
  if (cache == nullptr) return {};
  cache->quiesce();
  return cache->checkpoint();
}

void Quiescence::end() noexcept {
  active_ = false;
  if (rcache::Cache* const cache = module_.registrations(); cache != nullptr) cache->resume();
}

}  // namespace opal::btl
