// SPDX-License-Identifier: Apache-2.0
#include "opal/rcache/registrations/registration_pool.hpp"

#include <algorithm>
#include <new>

#include "opal/rcache/registrations/lease_table.hpp"

namespace opal::rcache {

std::size_t RegistrationPool::next_slab() const noexcept {
  constexpr std::size_t kFirst = 16;
  constexpr std::size_t kLargest = 1024;
  // From kMany objects on, which exceed the reach of a TLB, a slab is a huge page: random hits then take two thirds of
  // the time.  Smaller caches do without, because clearing a huge page takes long.
  constexpr std::size_t kMany = std::size_t{1} << 16;
  constexpr std::size_t kHuge = kHugePage / sizeof(Registration) + 1;
  return size_ < kMany ? std::clamp(size_ / 2, kFirst, kLargest) : kHuge;
}

std::unique_ptr<RegistrationPool::Slab> RegistrationPool::make_slab(std::size_t size) noexcept {
  std::unique_ptr<Slab> slab{new (std::nothrow) Slab};
  if (slab == nullptr) return nullptr;
  slab->registrations = make_large_array<Registration>(size);
  slab->size = size;
  return slab->registrations != nullptr ? std::move(slab) : nullptr;
}

void RegistrationPool::add(std::unique_ptr<Slab> slab) noexcept {
  for (std::size_t i = 0; i < slab->size; ++i) {
    slab->registrations[i].slot_ = LeaseTable::slot_of_number(size_++);
    free_.push_back(slab->registrations[i]);
  }
  slab->next = std::move(slabs_);
  slabs_ = std::move(slab);
}

void RegistrationPool::give_back(Registration& registration) noexcept {
  registration.state_ = Registration::State::unused;
  free_.push_front(registration);
}

}  // namespace opal::rcache
