// SPDX-License-Identifier: Apache-2.0
// A module's part in a checkpoint.  It sends a marker after the last message on each endpoint, and waits for the
// markers of the peers.  Endpoints keep order, so a marker shows that all earlier messages were handled (Chandy and
// Lamport, "Distributed snapshots", 1985, with coordinated starts).  The marker contains the checkpoint's number, so
// that one of an abandoned checkpoint does not count for the next one.  docs/design/checkpoint.md.
// Threads: as btl::Module.
#include <algorithm>

#include "opal/btl/shared/message_transport.hpp"
#include "opal/btl/shared/rdma_wire.hpp"
#include "opal/core/bytes.hpp"
#include "opal/rcache/cache.hpp"

namespace opal::btl {

void MessageTransport::on_marker(void* /*object*/, Delivery& delivery) noexcept {
  std::uint64_t round = 0;
  if (read_object(delivery.data, round))
    delivery.from.marker_received_ = std::max(delivery.from.marker_received_, round);
}

void MessageTransport::quiesce(std::uint64_t round) noexcept {
  quiescing_ = true;
  round_ = round;
}

bool MessageTransport::quiet() noexcept {
  if (!quiescing_) return false;
  bool all = true;
  for (Endpoint* endpoint = first_endpoint(); endpoint != nullptr; endpoint = endpoint->next_) {
    if (endpoint->dead()) continue;  // a dead peer sends no marker
    if (endpoint->marker_sent_ < round_ && send_inline(*endpoint, wire::kMarker, bytes_of(round_), {}) == Post::done) {
      endpoint->marker_sent_ = round_;
    }
    all = all && (endpoint->dead() || (endpoint->marker_sent_ == round_ && endpoint->marker_received_ >= round_));
  }
  if (!all || flush_.queued) return false;
  flush_.fn = [](Completion& self) noexcept { static_cast<QuietFlush&>(self).queued = false; };
  flush_.queued = true;  // before the post: the completion may run inside it
  const Post post = flush(nullptr, flush_);
  if (post != Post::queued) flush_.queued = false;
  return post == Post::done;  // queued: the next quiet() posts a flush again
}

Result<void> MessageTransport::checkpoint() noexcept {
  if (!quiet()) return Error{Errc::busy, 0, "checkpoint: not quiet"};
  OPAL_TRY(release_remote_memory());
  if (registrations() == nullptr) return {};
  registrations()->quiesce();
  return registrations()->checkpoint();
}

void MessageTransport::resume() noexcept {
  quiescing_ = false;
  if (registrations() != nullptr) registrations()->resume();
}

}  // namespace opal::btl
