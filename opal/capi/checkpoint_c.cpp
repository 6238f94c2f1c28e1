// SPDX-License-Identifier: Apache-2.0
// The C interface to checkpoints and to what the registration caches have counted.
#include <algorithm>
#include <cstring>

#include "opal/capi/internal.hpp"

using opal::capi::context_of;
using opal::capi::fail;
using opal::capi::misuse;

namespace {

void fill(opal_cache_statistics_t& counters, const opal::rcache::Statistics& from) noexcept {
  opal_cache_statistics_t all{};
  all.struct_size = counters.struct_size;
  all.hits = from.hits;
  all.misses = from.misses;
  all.evictions = from.evictions;
  all.invalidations = from.invalidations;
  all.failures = from.failures;
  all.registered = from.registered.count;
  all.registered_bytes = from.registered.bytes;
  all.idle = from.idle.count;
  all.idle_bytes = from.idle.bytes;
  std::memcpy(&counters, &all, std::min<std::size_t>(counters.struct_size, sizeof all));
}

}  // namespace

extern "C" {

opal_status_t opal_context_quiesce(opal_context_t* context, uint64_t round) noexcept {
  if (context == nullptr) return misuse("opal_context_quiesce: a context is needed");
  context_of(*context).quiesce(round);
  return OPAL_OK;
}

int opal_context_quiet(opal_context_t* context) noexcept {
  return context != nullptr && context_of(*context).quiet() ? 1 : 0;
}

opal_status_t opal_context_checkpoint(opal_context_t* context) noexcept {
  if (context == nullptr) return misuse("opal_context_checkpoint: a context is needed");
  const auto done = context_of(*context).checkpoint();
  return done ? OPAL_OK : fail(done.error());
}

opal_status_t opal_context_restart(opal_context_t* context) noexcept {
  if (context == nullptr) return misuse("opal_context_restart: a context is needed");
  const auto done = context_of(*context).restart(opal::capi::settings_of(*context));
  return done ? OPAL_OK : fail(done.error());
}

void opal_context_resume(opal_context_t* context) noexcept {
  if (context != nullptr) context_of(*context).resume();
}

opal_status_t opal_registration_statistics(opal_context_t* context, opal_cache_statistics_t* local,
                                           opal_cache_statistics_t* remote) noexcept {
  const auto usable = [](const opal_cache_statistics_t* counters) {
    return counters == nullptr || counters->struct_size >= sizeof counters->struct_size;
  };
  if (context == nullptr || !usable(local) || !usable(remote)) {
    return misuse("opal_registration_statistics: a context, and counters made by OPAL_INIT, are needed");
  }
  if (local != nullptr) fill(*local, context_of(*context).registration_statistics());
  if (remote != nullptr) fill(*remote, context_of(*context).remote_memory_statistics());
  return OPAL_OK;
}

}  // extern "C"
