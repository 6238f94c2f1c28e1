// SPDX-License-Identifier: Apache-2.0
#include "opal/rcache/rgpusm.hpp"

#include <limits>

namespace opal::rcache {
namespace {

/// The Cookie of a registration.
struct Mapped {
  gpu::MemoryHandle handle;  // of the peer's allocation
  std::uintptr_t address;    // of the mapping in this process
};

constexpr Access kAccess = 1;          // all registrations have the same rights
constexpr std::size_t kToTheByte = 1;  // no rounding: allocations of a device share pages (requirement R14)

/// An address of the peer as a key of cache_; never dereferenced.
const void* key(std::uint64_t address) noexcept {
  return reinterpret_cast<const void*>(static_cast<std::uintptr_t>(address));
}

GpuOpener& driver_opener() noexcept {
  static GpuOpener opener;
  return opener;
}

}  // namespace

Result<std::uintptr_t> GpuOpener::open(const gpu::MemoryHandle& handle, gpu::ContextHandle context) noexcept {
  return gpu::open_memory(handle, context);
}

void GpuOpener::close(const gpu::MemoryHandle& /*handle*/, std::uintptr_t address,
                      gpu::ContextHandle context) noexcept {
  gpu::close_memory(address, context);
}

Rgpusm::Rgpusm(gpu::ContextHandle context, const Config& config) : Rgpusm(context, config, driver_opener()) {}

Rgpusm::Rgpusm(gpu::ContextHandle context, const Config& config, GpuOpener& opener)
    : opener_(opener), context_(context), cache_(*this, config, kToTheByte) {}

Result<RemoteGpuMemory> Rgpusm::get(const gpu::MemoryHandle& handle) noexcept {
  if (handle.size == 0 || handle.base == 0 || handle.size >= std::numeric_limits<std::uintptr_t>::max() - handle.base) {
    return Error{Errc::protocol, 0, "rgpusm get(the peer's range is empty or wraps)", handle.size};
  }
  if (Lease known = cache_.find(key(handle.base), handle.size, kAccess)) {
    const auto mapped = known->cookie().get<Mapped>();
    if (mapped.handle == handle) return RemoteGpuMemory{std::move(known), mapped.address, handle.size};
    ++stale_;
  }
  // Live allocations do not overlap, so mappings that overlap this one are of memory that the peer has freed.  They are
  // unmapped first: else the driver may refuse to open the handle, and they would keep the freed memory allocated.
  cache_.invalidate(key(handle.base), handle.size);
  return open(handle);
}

Result<RemoteGpuMemory> Rgpusm::open(const gpu::MemoryHandle& handle) noexcept {
  wanted_ = &handle;
  already_mapped_ = false;
  auto lease = cache_.get(key(handle.base), handle.size, kAccess);
  wanted_ = nullptr;
  if (!lease) {
    // The driver has a mapping there: of freed memory with a lease, or still after the cache has unmapped all idle
    // ones.
    if (already_mapped_) {
      return Error{Errc::busy, 0, "rgpusm get(already mapped, and what is in the way is in use)", handle.base};
    }
    return lease.error();
  }
  const std::uintptr_t address = (*lease)->cookie().get<Mapped>().address;
  return RemoteGpuMemory{std::move(*lease), address, handle.size};
}

/// Opens the handle (requirement R13).  For the driver's error "already mapped" it returns limit_reached: then the
/// cache deregisters a registration and tries again.  It begins with retired ones, such as stale ones at this base, and
/// goes on with the least recently used.
Result<void> Rgpusm::register_memory(Registration& registration) noexcept {
  const auto opened = opener_.open(*wanted_, context_);
  already_mapped_ = !opened && opened.error().code == Errc::busy;
  if (already_mapped_) {
    // A lease of freed memory that overlaps exists: no deregistration of other memory would help.
    if (cache_.retired_in_use(registration.base(), registration.length())) return opened.error();
    return Error{Errc::limit_reached, 0, opened.error().where, opened.error().detail};
  }
  if (!opened) return opened.error();
  registration.cookie().set(Mapped{*wanted_, *opened});
  return {};
}

void Rgpusm::deregister_memory(Registration& registration) noexcept {
  const auto mapped = registration.cookie().get<Mapped>();
  opener_.close(mapped.handle, mapped.address, context_);
}

Statistics Rgpusm::statistics() const noexcept {
  Statistics now = cache_.statistics();
  now.hits -= stale_;  // cache_ counted them as hits, but they were mappings of freed memory
  return now;
}

}  // namespace opal::rcache
