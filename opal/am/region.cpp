// SPDX-License-Identifier: Apache-2.0
#include "opal/am/region.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <type_traits>
#include <utility>

#include "opal/am/state.hpp"
#include "opal/am/transports/key.hpp"
#include "opal/core/log.hpp"
#include "opal/gpu/memory.hpp"
#include "opal/memory/address_space/address_space.hpp"
#include "opal/memory/events/events.hpp"

namespace opal::am {

/// The registrations of a Region: in the Context's table, and with each transport that has own_handles.
struct Region::State {
  struct Registration {
    btl::Module* module;
    MemoryHandle handle;
  };
  explicit State(Context::State& context) : context(context) { context.regions.push_back(this); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    if (context.inherited) return;  // the registrations are the parent's
    const Lock::Guard guard{context.lock};
    std::erase(context.regions, this);
    leave();
    if (software) log_failure(context.registrations.remove(*software));
  }

  /// Registers with the transports that are open now, and renews the key.
  Result<void> enter();
  /// Deregisters from the transports.
  void leave() noexcept {
    for (const Registration& registration : devices) {
      log_failure(registration.module->deregister_memory(registration.handle));
    }
    devices.clear();
  }
  static void log_failure(const Result<void>& gone) noexcept {
    if (!gone) log::error("am", "Region: {}", to_string(gone.error()));
  }

  Context::State& context;
  void* base = nullptr;
  std::uint64_t size = 0;
  Rights rights{};
  bool address_space = false;
  std::optional<MemoryHandle> software;
  std::vector<Registration> devices;
  std::vector<std::byte> key;
};

Region::Region() noexcept = default;
Region::Region(Region&&) noexcept = default;
Region& Region::operator=(Region&&) noexcept = default;
Region::~Region() = default;
Region::Region(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}

void* Region::base() const noexcept { return state_ != nullptr ? state_->base : nullptr; }
std::uint64_t Region::size() const noexcept { return state_ != nullptr ? state_->size : 0; }
ByteSpan Region::key() const noexcept { return state_ != nullptr ? ByteSpan{state_->key} : ByteSpan{}; }

bool Region::is_address_space() const noexcept { return state_ != nullptr && state_->address_space; }

namespace {

memory::Range pages(const void* address, std::size_t size) noexcept {
  return memory::Range::pages(reinterpret_cast<std::uintptr_t>(address), size);
}

}  // namespace

void Region::exclude(const void* address, std::size_t size) noexcept {
  if (!is_address_space()) return;
  memory::address_space::exclude(*state_->context.registrations.address_space(), pages(address, size), true);
  memory::released(pages(address, size));  // device registrations of this range end
}

void Region::include(const void* address, std::size_t size) noexcept {
  if (!is_address_space()) return;
  memory::address_space::exclude(*state_->context.registrations.address_space(), pages(address, size), false);
}

Result<Mapping> Region::map_unregistered(std::size_t size) noexcept {
  if (!is_address_space()) return Error{Errc::invalid_argument, 0, "map_unregistered: not a Region of all memory"};
  memory::MappingTable& table = *state_->context.registrations.address_space();
  const long at =
      memory::address_space::map_excluded(table, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at < 0)
    return Error{at == -ENOMEM ? Errc::no_memory : Errc::os, static_cast<int>(-at), "mmap(unregistered)", size};
  return Mapping::adopt({reinterpret_cast<std::byte*>(at), size});  // NOLINT(performance-no-int-to-ptr)
}

Result<void> Region::State::enter() {
  devices.clear();
  key.clear();
  if (software) append_handle(key, {}, *software);
  if (address_space) return {};  // a device handle would give access to excluded pages, too
  // A transport without handles of its own takes the table's handle, and moves GPU memory by messages (emulation).
  const bool on_gpu = !gpu::is_host(base);
  for (const auto& module : context.transports.modules) {
    const btl::Attributes& attributes = module->attributes();
    if (!attributes.own_handles && !(on_gpu && attributes.gpu_memory)) continue;
    const auto ask = [&] { return module->register_memory(base, size, rights); };
    Result<MemoryHandle> handle = ask();
    if (!handle && handle.error().code == Errc::limit_reached) {
      context.registrations_of(*module).cache().flush();  // frees the registrations without leases
      handle = ask();
    }
    if (!handle) return handle.error();
    devices.push_back({module.get(), *handle});
    append_handle(key, attributes.transport, *handle);
  }
  return {};
}

Result<Region> Context::register_memory(void* base, std::uint64_t size, Rights rights) {
  const Lock::Guard guard{state_->lock};
  if (state_->inherited) return kInherited;
  auto region = std::make_unique<Region::State>(*state_);
  region->base = base;
  region->size = size;
  region->rights = rights;
  const auto& modules = state_->transports.modules;
  if (!gpu::is_host(base) ||
      std::any_of(modules.begin(), modules.end(), [](const auto& each) { return !each->attributes().own_handles; })) {
    OPAL_TRY_ASSIGN(region->software, state_->registrations.add(base, size, rights));
  }
  OPAL_TRY(region->enter());
  return Region{std::move(region)};
}

Result<Region> Context::register_address_space(Rights rights) {
  const Lock::Guard guard{state_->lock};
  if (state_->inherited) return kInherited;
  auto region = std::make_unique<Region::State>(*state_);
  region->rights = rights;
  region->address_space = true;
  OPAL_TRY_ASSIGN(region->software, state_->registrations.add_address_space(rights));
  OPAL_TRY(region->enter());
  return Region{std::move(region)};
}

Result<void> Context::State::enter_regions() {
  for (Region::State* const region : regions) OPAL_TRY(region->enter());
  return {};
}

void Context::State::leave_regions() noexcept {
  for (Region::State* const region : regions) region->leave();
}

rcache::Statistics Context::registration_statistics() const noexcept {
  rcache::Statistics sum;
  for (std::size_t i = 0;; ++i) {
    const RegistrationCache* registrations = nullptr;
    {
      const Lock::Guard guard{state_->lock};
      if (i >= state_->registration_caches.size()) return sum;
      registrations = state_->registration_caches[i].get();
    }
    sum += registrations->cache().statistics();  // takes a while, and caches live as long as the Context
    if (const RegistrationCache* const pieces = registrations->in_pieces(); pieces != nullptr) {
      sum += pieces->cache().statistics();
    }
  }
}

rcache::Statistics Context::remote_memory_statistics() const noexcept {
  const Lock::Guard guard{state_->lock};
  rcache::Statistics sum;
  for (const auto& module : state_->transports.modules) sum += module->remote_memory_statistics();
  return sum;
}

ExposedMemory& ExposedMemory::operator=(ExposedMemory&& other) noexcept {
  if (this != &other) {
    reset();
    lock_ = other.lock_;
    lease_ = std::move(other.lease_);
  }
  return *this;
}

void ExposedMemory::reset() noexcept {
  if (lease_.end_at_once()) return;
  const Lock::Guard guard{*lock_};
  lease_.reset();
}

ByteSpan ExposedMemory::handle() const noexcept {
  // The cookie is the MemoryHandle that RegistrationCache stored; the peer needs its used bytes.
  static_assert(std::is_trivially_copyable_v<MemoryHandle>);
  return reinterpret_cast<const MemoryHandle*>(lease_->cookie().bytes().data())->bytes();
}

Result<ExposedMemory> Endpoint::expose(void* base, std::uint64_t size, Rights rights) noexcept {
  const auto access = static_cast<rcache::Access>(rights);
  if (RegistrationCache* const known = registrations_.load(std::memory_order_acquire); known != nullptr) {
    if (rcache::Lease lease = known->cache().hit(base, size, access)) return ExposedMemory{lock_, std::move(lease)};
    if (RegistrationCache* const pieces = known->in_pieces(base, size); pieces != nullptr) {
      if (rcache::Lease lease = pieces->cache().hit(base, size, access)) return ExposedMemory{lock_, std::move(lease)};
    }
  }
  const Lock::Guard guard{lock_};
  RegistrationCache* const registrations = registrations_.load(std::memory_order_relaxed);
  if (registrations == nullptr)
    return route_->dead() ? route_->error()
                          : Error{Errc::unreachable, 0, "Endpoint::expose: not connected since the checkpoint"};
  RegistrationCache* const pieces = registrations->in_pieces(base, size);
  if (pieces != nullptr) {
    // Memory that is registered as a whole already, such as a block of a RegisteredPool, needs no pieces.
    if (rcache::Lease lease = registrations->cache().find(base, size, access))
      return ExposedMemory{lock_, std::move(lease)};
  }
  OPAL_TRY_ASSIGN(rcache::Lease lease, (pieces != nullptr ? *pieces : *registrations).cache().get(base, size, access));
  return ExposedMemory{lock_, std::move(lease)};
}

}  // namespace opal::am
