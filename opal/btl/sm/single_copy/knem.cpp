// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/sm/single_copy/knem.hpp"

#include <algorithm>

namespace opal::btl::sm {
namespace {

constexpr std::uint64_t kPageGeneration = 0;  // of the ProbePage's region; generations of registrations are odd
constexpr int kMostStale = 3;                 // successive unknown cookies after which the device counts as broken

}  // namespace

// ---- The owner

KnemRegions::KnemRegions(std::shared_ptr<KnemDevice> device, RegistrationTable& registrations)
    : device_(std::move(device)), registrations_(registrations) {
  registrations_.follow(*this);
  follow_forks();
}

KnemRegions::~KnemRegions() {
  unfollow_forks();
  registrations_.unfollow(*this);
  destroy_all_locked();
}

KnemCookie KnemRegions::cookie_of(const SoftwareHandle& claimed) noexcept {
  const std::lock_guard lock{mutex_};
  // Looked up under the lock: registration_ended() waits for it, and is called after the slot is free.
  const auto region = registrations_.view().find(claimed.slot, claimed.generation);
  if (!region) return {claimed, 0};
  return make_locked(*region);
}

std::uint64_t KnemRegions::cookie_of_page(std::uint64_t base, std::uint64_t size) noexcept {
  const std::lock_guard lock{mutex_};
  return make_locked({kPageGeneration, base, size, 0, 0}).cookie;
}

KnemCookie KnemRegions::make_locked(const SoftwareHandle& region) noexcept {
  const auto known = std::ranges::find_if(
      cookies_, [&](const KnemCookie& entry) { return entry.region.generation == region.generation; });
  if (known != cookies_.end()) return *known;
  if (inherited_) return {region, 0};
  const auto cookie = device_->create(region.base, region.size);
  if (!cookie) return {region, 0};
  if (cookies_.size() == kMost) {
    device_->destroy(cookies_.front().cookie);
    cookies_.erase(cookies_.begin());
  }
  cookies_.push_back({region, *cookie});
  return cookies_.back();
}

void KnemRegions::destroy_all_locked() noexcept {
  for (const KnemCookie& entry : cookies_) device_->destroy(entry.cookie);
  cookies_.clear();
}

void KnemRegions::registration_ended(std::uint64_t generation) noexcept {
  const std::lock_guard lock{mutex_};
  std::erase_if(cookies_, [&](const KnemCookie& entry) {
    const bool ended = entry.region.generation == generation;
    if (ended) device_->destroy(entry.cookie);
    return ended;
  });
}

void KnemRegions::before_fork() noexcept {
  mutex_.lock();
  if (!inherited_) destroy_all_locked();
}

void KnemRegions::after_fork_in_parent() noexcept { mutex_.unlock(); }

void KnemRegions::after_fork_in_child() noexcept {
  inherited_ = true;
  mutex_.unlock();
}

// ---- The initiator

KnemMechanism::KnemMechanism(std::shared_ptr<KnemDevice> device, const KnemCookie& page) : device_(std::move(device)) {
  entries_.push_back({page, true, 0});
}

void KnemMechanism::take(const KnemCookie& answer) noexcept {
  for (Entry& entry : entries_) {
    if (entry.known.region.generation != answer.region.generation || entry.answered) continue;
    entry.known = answer;
    entry.answered = true;
    return;
  }  // else it was evicted while the answer was in flight
}

KnemMechanism::Entry* KnemMechanism::find(const RemoteRange& range) noexcept {
  for (Entry& entry : entries_) {
    if (entry.known.region.generation != range.region.generation) continue;
    entry.used = ++uses_;
    const std::uint64_t offset = range.address - entry.known.region.base;
    const std::uint64_t size = entry.known.region.size;
    const bool inside = offset <= size && range.size <= size - offset;
    return entry.known.cookie != 0 && inside ? &entry : nullptr;
  }
  if (range.region.generation == kPageGeneration) return nullptr;
  if (entries_.size() == kMost) {
    entries_.erase(std::ranges::min_element(entries_, {}, &Entry::used));
  }
  entries_.push_back({{range.region, 0}, false, ++uses_});
  if (ask_) ask_(range.region);
  return nullptr;
}

CopyOutcome KnemMechanism::copy(const RemoteRange& there, std::byte* here, bool write) noexcept {
  Entry* const entry = find(there);
  if (entry == nullptr) return {0, {Errc::busy, 0, "sm: no knem cookie for this memory", there.address}};
  CopyOutcome outcome;
  const std::uint64_t offset = there.address - entry->known.region.base;
  while (outcome.copied < there.size) {
    const std::uint64_t piece = std::min(there.size - outcome.copied, kPiece);
    const auto done = device_->copy(entry->known.cookie, offset + outcome.copied, here + outcome.copied, piece, write);
    if (!done) {
      outcome.error = done.error();
      break;
    }
    outcome.copied += piece;
  }
  if (outcome.ok()) {
    stale_ = 0;
  } else if (outcome.error.code == Errc::busy) {
    // The owner has destroyed the region, for a newer one or before a fork.  The next use requests a new cookie.  A
    // device without a region for kMostStale successive cookies is broken.
    entries_.erase(entries_.begin() + (entry - entries_.data()));
    if (++stale_ == kMostStale) outcome.error.code = Errc::not_supported;
  }
  return outcome;
}

}  // namespace opal::btl::sm
