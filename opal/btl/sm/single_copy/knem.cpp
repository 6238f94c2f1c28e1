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
  const auto known = std::find_if(cookies_.begin(), cookies_.end(), [&](const KnemCookie& entry) {
    return entry.region.generation == region.generation;
  });
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
  const auto known = std::find_if(cookies_.begin(), cookies_.end(),
                                  [&](const KnemCookie& entry) { return entry.region.generation == generation; });
  if (known == cookies_.end()) return;
  device_->destroy(known->cookie);
  cookies_.erase(known);
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

const KnemCookie* KnemMechanism::find(const RemoteRange& range) noexcept {
  const auto ask = [&] {
    if (ask_) ask_(range.region);
  };
  const bool is_page = range.region.generation == kPageGeneration;
  const KnemCookie& known = is_page ? page_ : cookies_.find({range.region, 0}, ask);
  const std::uint64_t offset = range.address - known.region.base;
  const std::uint64_t size = known.region.size;
  const bool inside = offset <= size && range.size <= size - offset;
  return known.cookie != 0 && inside ? &known : nullptr;
}

CopyOutcome KnemMechanism::copy(const RemoteRange& there, std::byte* here, bool write) noexcept {
  const KnemCookie* const known = find(there);
  if (known == nullptr) return {0, {Errc::busy, 0, "sm: no knem cookie for this memory", there.address}};
  CopyOutcome outcome;
  const std::uint64_t offset = there.address - known->region.base;
  while (outcome.copied < there.size) {
    const std::uint64_t piece = std::min(there.size - outcome.copied, kPiece);
    const auto done = device_->copy(known->cookie, offset + outcome.copied, here + outcome.copied, piece, write);
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
    cookies_.forget(there.region.generation);
    if (++stale_ == kMostStale) outcome.error.code = Errc::not_supported;
  }
  return outcome;
}

}  // namespace opal::btl::sm
