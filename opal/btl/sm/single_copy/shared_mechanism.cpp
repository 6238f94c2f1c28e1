// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/sm/single_copy/shared_mechanism.hpp"

#include <algorithm>

#include "opal/core/copy.hpp"
#include "opal/core/log.hpp"
#include "opal/mpool/shared_pool.hpp"

namespace opal::btl::sm {

PeerPool PeerPool::attach(std::uint32_t number, std::uint64_t base, int file) noexcept {
  PeerPool pool{number, base, {}};
  if (file < 0) return pool;
  if (pool.base % 4096 != 0) {  // an aligned atomic of the peer would be a misaligned one here
    log::once(log::Level::warn, "sm pool misaligned", "btl.sm", "a peer's shared pool does not begin at a page: {:#x}",
              pool.base);
    return pool;
  }
  if (auto map = mpool::SharedPool::attach(file)) {
    pool.map = std::move(*map);
  } else {
    log::once(log::Level::warn, "sm pool refused", "btl.sm", "a peer's shared pool cannot be mapped: {}",
              to_string(map.error()));
  }
  return pool;
}

void SharedMechanism::need(std::uint32_t number) noexcept {
  if (entries_.size() == kMost) {
    entries_.erase(std::ranges::min_element(entries_, {}, &Entry::used));
  }
  entries_.push_back({{number, 0, {}}, false, ++uses_});
  if (ask_) ask_(number);
}

void SharedMechanism::take(PeerPool pool) noexcept {
  for (Entry& entry : entries_) {
    if (entry.pool.number != pool.number || entry.answered) continue;
    entry.pool = std::move(pool);
    entry.answered = true;
    return;
  }  // else it was evicted while the answer was in flight
}

std::byte* SharedMechanism::map(const RemoteRange& range) noexcept {
  if (range.pool == 0) return nullptr;
  for (Entry& entry : entries_) {
    if (entry.pool.number != range.pool) continue;
    entry.used = ++uses_;
    const MutableBytes bytes = entry.pool.map.bytes();
    const std::uint64_t offset = range.address - entry.pool.base;
    // A broken peer can report any base.
    if (offset > bytes.size() || range.size > bytes.size() - offset) return nullptr;
    return bytes.data() + offset;
  }
  need(range.pool);
  return nullptr;
}

CopyOutcome SharedMechanism::copy(const RemoteRange& there, std::byte* here, bool write) noexcept {
  std::byte* const mapped = map(there);
  if (mapped == nullptr) return {0, {Errc::busy, 0, "sm: not in a mapped pool", there.address}};
  copy_host_memory(write ? mapped : here, write ? here : mapped, there.size);
  return {there.size, {}};
}

}  // namespace opal::btl::sm
