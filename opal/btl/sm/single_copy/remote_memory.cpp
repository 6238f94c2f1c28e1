// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/sm/single_copy/remote_memory.hpp"

#include "opal/core/copy.hpp"

namespace opal::btl::sm {
Result<void> RemoteMemory::check(const SoftwareHandle& region, std::uint64_t address, std::uint64_t size,
                                 Rights wanted) const noexcept {
  if (hung_up->load(std::memory_order_acquire)) return Error{Errc::peer_gone, 0, "sm: the peer has hung up"};
  return registrations.check(region, address, size, wanted);
}

Result<Target> RemoteMemory::recheck(const RemoteRange& part, Rights wanted) noexcept {
  Target target{.range = part};
  if (const auto checked = check(part.region, part.address, part.size, wanted); !checked) {
    // A whole-address-space registration: the owner may know mappings that its table lacks, so it gets a message.
    if (!part.region.of_address_space() || checked.error().code == Errc::peer_gone) return checked.error();
    return target;
  }
  target.range.pool = registrations.pool_of(part.region);
  if (target.range.pool == RegistrationView::kOfGpu) return target;  // only the owner copies GPU memory
  target.checked = true;
  target.mapped = map(target.range);
  if (target.mapped != nullptr) {
    target.access = Target::Access::mapped;
  } else if (copy.reaches(target.range)) {
    target.access = Target::Access::mechanism;
  }
  return target;
}

Result<Target> RemoteMemory::resolve(const MemoryHandle& handle, std::uint64_t address, std::uint64_t size,
                                     Rights wanted) noexcept {
  OPAL_TRY_ASSIGN(const SoftwareHandle region, SoftwareHandle::decode(handle));
  return recheck({address, size, region}, wanted);
}

CopyOutcome RemoteMemory::move(const Target& target, std::byte* here, bool write) noexcept {
  switch (target.access) {
    case Target::Access::mapped:
      copy_host_memory(write ? target.mapped : here, write ? here : target.mapped, target.range.size);
      return {target.range.size, {}};
    case Target::Access::mechanism: return copy.copy(target.range, here, write);
    case Target::Access::messages: break;
  }
  return {0, {Errc::not_supported, 0, "sm: no copy mechanism reaches this memory", target.range.address}};
}

}  // namespace opal::btl::sm
