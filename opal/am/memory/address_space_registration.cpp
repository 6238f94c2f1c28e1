// SPDX-License-Identifier: Apache-2.0
#include "opal/am/memory/address_space_registration.hpp"

#include <sys/mman.h>

#include "opal/am/state.hpp"
#include "opal/memory/address_space/address_space.hpp"
#include "opal/memory/events/events.hpp"

namespace opal::am {
namespace {

memory::Range pages(const void* address, std::size_t size) noexcept {
  return memory::Range::pages(reinterpret_cast<std::uintptr_t>(address), size);
}

}  // namespace

Result<AddressSpaceRegistration> AddressSpaceRegistration::enable(Context& context, Rights rights) {
  OPAL_TRY_ASSIGN(Region region, context.register_address_space(rights));
  return AddressSpaceRegistration{std::move(region), *context.state_->registrations.address_space()};
}

void AddressSpaceRegistration::exclude(const void* address, std::size_t size) noexcept {
  memory::address_space::exclude(*table_, pages(address, size), true);
  memory::released(pages(address, size));  // device registrations of this range end
}

void AddressSpaceRegistration::include(const void* address, std::size_t size) noexcept {
  memory::address_space::exclude(*table_, pages(address, size), false);
}

Result<Mapping> AddressSpaceRegistration::map_unregistered(std::size_t size) noexcept {
  const long at =
      memory::address_space::map_excluded(*table_, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at < 0)
    return Error{at == -ENOMEM ? Errc::no_memory : Errc::os, static_cast<int>(-at), "mmap(unregistered)", size};
  return Mapping::adopt({reinterpret_cast<std::byte*>(at), size});  // NOLINT(performance-no-int-to-ptr)
}

}  // namespace opal::am
