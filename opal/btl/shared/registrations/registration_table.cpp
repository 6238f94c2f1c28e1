// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/shared/registrations/registration_table.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include "opal/btl/peer_id.hpp"
#include "opal/core/system/fork_listener.hpp"
#include "opal/core/system/random.hpp"
#include "opal/core/system/raw_syscall.hpp"
#include "opal/gpu/memory.hpp"
#include "opal/memory/address_space/address_space.hpp"
#include "opal/memory/events/events.hpp"
#include "opal/mpool/shared_directory.hpp"

namespace opal::btl {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;

/// A bit of RegistrationSlot::rights: the registration of the whole address space, whose accesses need a mapping.
constexpr std::uint64_t kAddressSpace = std::uint64_t{1} << 31;
constexpr std::size_t kMappingsSize = (sizeof(memory::SharedMappings) + 4095) / 4096 * 4096;

/// True when [address, +size) lies in [base, +length), with no sum that could wrap.
bool contains(std::uint64_t base, std::uint64_t length, std::uint64_t address, std::uint64_t size) noexcept {
  return address >= base && size <= length && address - base <= length - size;
}

constexpr std::uint64_t kPage = 4096;

/// The address range of RegistrationSlot::hole; empty: no part was unmapped.
memory::Range hole_of(std::uint64_t hole, std::uint64_t base) noexcept {
  const std::uint64_t begin = base / kPage * kPage + (hole & UINT32_MAX) * kPage;
  return {begin, begin + (hole >> 32) * kPage};
}

/// Makes a memfd for `slots_size` bytes of slots and the list of mappings.
Result<Fd> make_memory(std::size_t slots_size) {
  const std::size_t size = slots_size + kMappingsSize;
  Fd memory{::memfd_create("opal-registrations", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  if (!memory) return Error{Errc::os, errno, "memfd_create(registrations)", size};
  if (::ftruncate(memory.get(), static_cast<off_t>(size)) != 0) {
    return Error{Errc::os, errno, "ftruncate(registrations)", size};
  }
  // Reserve the pages of the slots now: otherwise a lack of memory is a SIGBUS at the first access.
  if (const int rc = ::posix_fallocate(memory.get(), 0, static_cast<off_t>(slots_size)); rc != 0) {
    return Error{Errc::no_memory, rc, "posix_fallocate(registrations)", slots_size};
  }
  return memory;
}

/// Seals the file: other processes cannot write it, and its size is fixed.  Requires: the writable mapping exists.
Result<void> seal(const Fd& memory) {
  if (::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) != 0) {
    return Error{Errc::os, errno, "fcntl(F_ADD_SEALS, registrations)"};
  }
  return {};
}

}  // namespace

Result<void> RegistrationView::check(const SoftwareHandle& decoded, std::uint64_t address, std::uint64_t size,
                                     Rights wanted) const noexcept {
  if (decoded.slot >= slots_.size()) {
    return Error{Errc::protocol, 0, "memory handle: no such registration slot", decoded.slot};
  }
  const RegistrationSlot& slot = slots_[decoded.slot];
  const std::uint64_t generation = slot.generation.load(std::memory_order_acquire);
  const std::uint64_t base = slot.base.load(std::memory_order_acquire);
  const std::uint64_t length = slot.size.load(std::memory_order_acquire);
  const std::uint64_t stored = slot.rights.load(std::memory_order_acquire);
  const std::uint64_t hole = slot.hole.load(std::memory_order_acquire);
  const auto rights = static_cast<Rights>(static_cast<std::uint32_t>(stored & ~kAddressSpace));
  const bool live =
      generation % 2 == 1 && generation == decoded.generation && slot.generation.load(kRelaxed) == generation;
  if (!live) return Error{Errc::invalid_argument, 0, "memory handle: stale, its registration is gone", decoded.base};
  if (!contains(base, length, address, size)) {
    return Error{Errc::invalid_argument, 0, "remote address outside the registered region", address};
  }
  if (hole != 0 && hole_of(hole, base).overlaps({address, address + size})) [[unlikely]] {
    return Error{Errc::invalid_argument, 0, "memory handle: stale, this part of its memory was unmapped", address};
  }
  if (!includes(rights, wanted)) {
    return Error{Errc::permission, 0, "registration does not grant this access", static_cast<std::uint64_t>(wanted)};
  }
  if ((stored & kAddressSpace) == 0) return {};
  const bool reads = wanted != Rights::remote_write;
  const bool writes = wanted != Rights::remote_read;
  return mappings_.check(address, size, (reads ? memory::kReadable : 0U) | (writes ? memory::kWritable : 0U));
}

Result<SoftwareHandle> RegistrationView::find(std::uint32_t slot, std::uint64_t generation) const noexcept {
  if (slot >= slots_.size()) return Error{Errc::protocol, 0, "memory handle: no such registration slot", slot};
  const RegistrationSlot& entry = slots_[slot];
  const bool live = generation % 2 == 1 && entry.generation.load(std::memory_order_acquire) == generation;
  const SoftwareHandle found{generation, entry.base.load(std::memory_order_acquire),
                             entry.size.load(std::memory_order_acquire), slot,
                             static_cast<std::uint32_t>(entry.rights.load(std::memory_order_acquire) & ~kAddressSpace)};
  if (live && entry.generation.load(kRelaxed) == generation) return found;
  return Error{Errc::invalid_argument, 0, "memory handle: stale, its registration is gone", slot};
}

Result<RegistrationView> RegistrationView::over(ByteSpan memory) noexcept {
  if (memory.size() <= kMappingsSize || (memory.size() - kMappingsSize) % 4096 != 0) {
    return Error{Errc::protocol, 0, "registration table: impossible size", memory.size()};
  }
  const std::size_t slots_size = memory.size() - kMappingsSize;
  return RegistrationView{
      {reinterpret_cast<const RegistrationSlot*>(memory.data()), slots_size / sizeof(RegistrationSlot)},
      *reinterpret_cast<const memory::SharedMappings*>(memory.data() + slots_size)};
}

class RegistrationTable::PoolWatch final : public memory::Listener {
 public:
  explicit PoolWatch(std::span<RegistrationSlot> slots) noexcept : slots_(slots) {}
  ~PoolWatch() { memory::remove_listener(*this); }
  PoolWatch(const PoolWatch&) = delete;
  PoolWatch& operator=(const PoolWatch&) = delete;

  /// Also watches `range`.  Threads: as RegistrationTable::add().
  void include(memory::Range range) noexcept {
    low_.store(std::min(low_.load(kRelaxed), range.begin), kRelaxed);
    high_.store(std::max(high_.load(kRelaxed), range.end), kRelaxed);
  }

  void released(memory::Range range) noexcept override {
    if (!range.overlaps({low_.load(kRelaxed), high_.load(kRelaxed)})) return;  // the common case
    for (RegistrationSlot& slot : slots_) {
      const std::uint64_t base = slot.base.load(kRelaxed);
      if (range.overlaps({base, base + slot.size.load(kRelaxed)})) slot.rights.fetch_and(UINT32_MAX, kRelaxed);
    }
  }

 private:
  const std::span<RegistrationSlot> slots_;
  std::atomic<std::uintptr_t> low_{UINTPTR_MAX};
  std::atomic<std::uintptr_t> high_{0};
};

class RegistrationTable::PrivateInChild final : private ForkListener {
 public:
  PrivateInChild(const Mapping& map, int memory) noexcept : address_(map.data()), size_(map.size()), memory_(memory) {
    follow_forks();
  }
  PrivateInChild(const PrivateInChild&) = delete;
  PrivateInChild& operator=(const PrivateInChild&) = delete;
  ~PrivateInChild() { unfollow_forks(); }

 private:
  void before_fork() noexcept override {}
  void after_fork_in_parent() noexcept override {}
  void after_fork_in_child() noexcept override {
    const auto map = [this](int flags, int memory) {
      return raw_syscall(SYS_mmap, reinterpret_cast<long>(address_), static_cast<long>(size_), PROT_READ | PROT_WRITE,
                         MAP_FIXED | MAP_PRIVATE | flags, memory, 0);
    };
    // If that fails, the child gets an empty table, so that it does not change its parent's.
    if (map(0, memory_) < 0) (void)map(MAP_ANONYMOUS, -1);
  }

  std::byte* const address_;
  const std::size_t size_;
  const int memory_;
};

RegistrationTable::RegistrationTable(RegistrationTable&&) noexcept = default;
RegistrationTable::~RegistrationTable() = default;

void RegistrationTable::Unfollow::operator()(memory::MappingTable* table) const noexcept {
  memory::address_space::unfollow(*table);
  std::default_delete<memory::MappingTable>{}(table);
}

RegistrationTable::RegistrationTable(Fd memory, Mapping map, std::uint32_t slots, std::uint64_t first_generation)
    : memory_(std::move(memory)), map_(std::move(map)), count_(slots), next_generation_(first_generation & ~1ULL) {
  private_in_child_ = std::make_unique<PrivateInChild>(map_, memory_.get());
  for (std::uint32_t slot = 0; slot < slots; ++slot) free_.push_back(slot);
}

std::span<RegistrationSlot> RegistrationTable::slots() const noexcept {
  // The mapping is page aligned and was zero-filled, which is a valid empty slot.
  return {reinterpret_cast<RegistrationSlot*>(map_.data()), count_};
}

memory::SharedMappings& RegistrationTable::shared_mappings() const noexcept {
  return *reinterpret_cast<memory::SharedMappings*>(map_.data() + map_.size() - kMappingsSize);
}

Result<RegistrationTable> RegistrationTable::create(std::uint32_t slots) {
  const std::size_t slots_size = align_up(std::size_t{slots} * sizeof(RegistrationSlot), 4096);
  OPAL_TRY_ASSIGN(Fd memory, make_memory(slots_size));
  OPAL_TRY_ASSIGN(Mapping map, Mapping::shared(memory.get(), slots_size + kMappingsSize));
  OPAL_TRY(seal(memory));
  return RegistrationTable{std::move(memory), std::move(map), slots, random_u64()};
}

Result<void> RegistrationTable::renew() {
  OPAL_TRY_ASSIGN(Fd memory, make_memory(map_.size() - kMappingsSize));
  Result<void> moved;
  memory::address_space::while_unchanged([&] { moved = move_to(memory); });
  OPAL_TRY(moved);
  OPAL_TRY(seal(memory));
  private_in_child_ = std::make_unique<PrivateInChild>(map_, memory.get());
  memory_ = std::move(memory);
  for (RegistrationSlot& slot : slots()) drop_replaced_pool(slot);  // PoolWatch may have changed the old memory
  return {};
}

void RegistrationTable::drop_replaced_pool(RegistrationSlot& slot) noexcept {
  const auto pool = static_cast<std::uint32_t>(slot.rights.load(kRelaxed) >> 32);
  if (pool == 0 || pool == RegistrationView::kOfGpu) return;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): an address of this process
  const auto* const base = reinterpret_cast<const void*>(slot.base.load(kRelaxed));
  if (mpool::shared_pool_of(base, slot.size.load(kRelaxed)) != pool) slot.rights.fetch_and(UINT32_MAX, kRelaxed);
}

Result<void> RegistrationTable::move_to(const Fd& memory) noexcept {
  static constexpr std::array<std::byte, kPage> kZeros{};
  // Without an address-space registration the list of mappings was never used, and reading it would allocate its pages.
  const std::size_t used = map_.size() - (mappings_ == nullptr ? kMappingsSize : 0);
  for (std::size_t at = 0; at < used; at += kPage) {
    const std::byte* const page = map_.data() + at;
    if (std::memcmp(page, kZeros.data(), kPage) == 0) continue;  // most of the list of mappings is never used
    if (::pwrite(memory.get(), page, kPage, static_cast<off_t>(at)) != static_cast<ssize_t>(kPage)) {
      return Error{Errc::no_memory, errno, "pwrite(registrations)", at};
    }
  }
  // At the same address: pointers to the table stay valid.
  if (const long mapped = raw_syscall(SYS_mmap, reinterpret_cast<long>(map_.data()), static_cast<long>(map_.size()),
                                      PROT_READ | PROT_WRITE, MAP_FIXED | MAP_SHARED, memory.get(), 0);
      mapped < 0) {
    return Error{Errc::os, static_cast<int>(-mapped), "mmap(registrations)", map_.size()};
  }
  return {};
}

Result<MemoryHandle> RegistrationTable::add(const void* base, std::uint64_t size, Rights rights) {
  const auto address = reinterpret_cast<std::uint64_t>(base);
  if (size > std::numeric_limits<std::uint64_t>::max() - address) {
    return Error{Errc::invalid_argument, 0, "register_memory: the range wraps around the address space", size};
  }
  if (!gpu::is_host(base)) return add(address, size, rights, std::uint64_t{RegistrationView::kOfGpu} << 32);
  const std::uint32_t pool = mpool::shared_pool_of(base, size);
  if (pool == 0) return add(address, size, rights, 0);
  if (pool_watch_ == nullptr) {
    auto watch = std::make_unique<PoolWatch>(slots());
    if (!memory::add_listener(*watch)) return add(address, size, rights, 0);  // as private memory
    pool_watch_ = std::move(watch);
  }
  pool_watch_->include(memory::Range::pages(address, size));
  OPAL_TRY_ASSIGN(const MemoryHandle handle, add(address, size, rights, std::uint64_t{pool} << 32));
  OPAL_TRY_ASSIGN(const SoftwareHandle made, SoftwareHandle::decode(handle));
  drop_replaced_pool(slots()[made.slot]);  // unmapped before the slot was filled, so PoolWatch did not see it
  return handle;
}

Result<MemoryHandle> RegistrationTable::add_address_space(Rights rights) {
  if (mappings_ != nullptr) {
    return Error{Errc::limit_reached, 0, "address-space registration: this Context has one already"};
  }
  if (free_.empty()) return no_free_slot();
  // The pages of the list are reserved as it grows: most programs use few or none of them.
  OPAL_TRY_ASSIGN(memory::MappingTable table, memory::MappingTable::create(shared_mappings()));
  mappings_.reset(std::make_unique<memory::MappingTable>(table).release());
  if (auto followed = memory::address_space::follow(*mappings_); !followed) {
    mappings_.reset();
    return followed.error();
  }
  return add(0, SoftwareHandle::kAddressSpaceSize, rights, kAddressSpace);
}

Result<MemoryHandle> RegistrationTable::add(std::uint64_t address, std::uint64_t size, Rights rights,
                                            std::uint64_t high_bits) {
  if (free_.empty()) return no_free_slot();
  const std::uint32_t index = free_.front();
  free_.pop_front();
  RegistrationSlot& slot = slots()[index];
  // Release stores: a reader that sees one of the new values also sees that the former generation was set to 0.
  constexpr auto kFieldStore = std::memory_order_release;
  slot.base.store(address, kFieldStore);
  slot.size.store(size, kFieldStore);
  slot.hole.store(0, kFieldStore);
  slot.rights.store(high_bits | static_cast<std::uint32_t>(rights), kFieldStore);
  next_generation_ += 2;
  slot.generation.store(next_generation_ + 1, std::memory_order_release);
  const SoftwareHandle handle{next_generation_ + 1, address, size, index, static_cast<std::uint32_t>(rights)};
  return MemoryHandle::from_bytes(bytes_of(handle));
}

Result<void> RegistrationTable::check(const MemoryHandle& handle, std::uint64_t address, std::uint64_t size,
                                      Rights wanted) const noexcept {
  OPAL_TRY_ASSIGN(const SoftwareHandle decoded, SoftwareHandle::decode(handle));
  const Result<void> answer = view().check(decoded, address, size, wanted);
  if (answer || mappings_ == nullptr) return answer;
  if (!decoded.of_address_space() || !memory::address_space::refresh_after_miss()) return answer;
  return view().check(decoded, address, size, wanted);
}

void RegistrationTable::invalidate(const MemoryHandle& handle) noexcept {
  const auto decoded = SoftwareHandle::decode(handle);
  if (!decoded || !names_slot(*decoded)) return;
  std::uint64_t live = decoded->generation;
  slots()[decoded->slot].generation.compare_exchange_strong(live, live + 1, std::memory_order_release, kRelaxed);
}

void RegistrationTable::invalidate_part(const MemoryHandle& handle, memory::Range gone) noexcept {
  const auto decoded = SoftwareHandle::decode(handle);
  if (!decoded || !names_slot(*decoded)) return;
  RegistrationSlot& slot = slots()[decoded->slot];
  if (slot.generation.load(std::memory_order_acquire) != decoded->generation) return;
  const std::uint64_t base = slot.base.load(kRelaxed);
  const memory::Range all{base, base + slot.size.load(kRelaxed)};
  if (!gone.overlaps(all)) return;
  const std::uint64_t first = std::max(gone.begin, all.begin) / kPage - base / kPage;
  const std::uint64_t end = (std::min(gone.end, all.end) + kPage - 1) / kPage - base / kPage;
  if (end > UINT32_MAX) return invalidate(handle);  // the part ends beyond 16 TiB: it cannot be stored
  std::uint64_t before = slot.hole.load(kRelaxed);
  std::uint64_t now = 0;
  do {
    const std::uint64_t low = before == 0 ? first : std::min(first, before & UINT32_MAX);
    const std::uint64_t high = before == 0 ? end : std::max(end, (before & UINT32_MAX) + (before >> 32));
    now = ((high - low) << 32) | low;
  } while (!slot.hole.compare_exchange_weak(before, now, std::memory_order_release, kRelaxed));
  if (hole_of(now, base).contains(all)) invalidate(handle);
}

Result<void> RegistrationTable::remove(const MemoryHandle& handle) {
  OPAL_TRY_ASSIGN(const SoftwareHandle decoded, SoftwareHandle::decode(handle));
  const Error stale{Errc::invalid_argument, 0, "deregister_memory: handle is not live here", decoded.base};
  if (!names_slot(decoded)) return stale;
  RegistrationSlot& slot = slots()[decoded.slot];
  const std::uint64_t generation = slot.generation.load(kRelaxed);
  const bool invalidated = generation != 0 && generation == decoded.generation + 1;
  if (generation != decoded.generation && !invalidated) return stale;
  slot.generation.store(0, std::memory_order_release);
  if ((slot.rights.load(kRelaxed) & kAddressSpace) != 0) mappings_.reset();
  slot.size.store(0, std::memory_order_release);  // PoolWatch skips a slot of size 0
  free_.push_back(decoded.slot);
  for (Follower* const follower : followers_) follower->registration_ended(decoded.generation);
  return {};
}

}  // namespace opal::btl
