// SPDX-License-Identifier: Apache-2.0
// opal/btl/shared/registrations/registration_table.hpp — the registrations of one Context, for every transport that
// checks them in software, also for those that do so only at times (emulated puts and gets): base, size, rights and a
// generation per slot.
//
// * The table is in a memfd, so that a peer on the same host can map it and check a handle before a single copy.  For
//   other peers the target checks when the request arrives.
// * Behind the slots is the list of all mappings of the process.  add_address_space() fills it.
// * A handle is valid while its slot has the generation of the handle.  A generation is never used twice, and the first
//   one is random, so a stale handle never becomes valid again.
// Threads: one thread at a time for all functions that change registrations (the Context's lock), except invalidate()
// and invalidate_part(), which any thread may call; check() from any thread or process.
#pragma once
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "opal/btl/memory_handle.hpp"
#include "opal/core/export.hpp"
#include "opal/core/result.hpp"
#include "opal/core/system/fd.hpp"
#include "opal/core/system/mapping.hpp"
#include "opal/memory/address_space/mapping_table.hpp"

namespace opal::btl {

/// The bytes of a handle of this table on the wire, little endian.  base, size and rights are copies, for checks at the
/// initiator; the table of the owner decides.
struct SoftwareHandle {
  std::uint64_t generation;
  std::uint64_t base;
  std::uint64_t size;
  std::uint32_t slot;
  std::uint32_t rights;

  /// `size` of the registration of the whole address space.  User addresses are below it; sums with it do not wrap.
  static constexpr std::uint64_t kAddressSpaceSize = std::uint64_t{1} << 62;
  [[nodiscard]] bool of_address_space() const noexcept { return base == 0 && size == kAddressSpaceSize; }

  /// Reads the bytes of a handle; checks only their number.  Errors: protocol (not a software handle).
  static Result<SoftwareHandle> decode(const MemoryHandle& handle) noexcept {
    SoftwareHandle decoded{};
    if (handle.bytes().size() != sizeof decoded || !read_object(handle.bytes(), decoded)) {
      return Error{Errc::protocol, 0, "memory handle: not one of a software transport", handle.bytes().size()};
    }
    return decoded;
  }
};
static_assert(sizeof(SoftwareHandle) == 32 && std::has_unique_object_representations_v<SoftwareHandle>,
              "wire layout v1");

/// One slot of the table, shared with peers read-only.  `generation` is odd while the registration is valid, even and
/// not 0 after invalidate(), 0 when free.  A reader loads it before and after the other members; an equal odd value
/// means that they are consistent.
struct RegistrationSlot {
  std::atomic<std::uint64_t> generation;
  std::atomic<std::uint64_t> base;
  std::atomic<std::uint64_t> size;
  std::atomic<std::uint64_t> rights;  ///< bits 0-30: Rights; 31: address space; 32-63: see pool_of()
  std::atomic<std::uint64_t> hole;    ///< unmapped pages: low 32 bits: first page from base's; high 32 bits: number
};
static_assert(sizeof(RegistrationSlot) == 40, "layout v2: slots are addressed by index");
static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "a lock-based atomic does not work across processes");

/// A read-only view of a table: of this process, or of a peer.  The memory must outlive the view.
class OPAL_EXPORT RegistrationView {
 public:
  RegistrationView() noexcept = default;
  RegistrationView(std::span<const RegistrationSlot> slots, const memory::SharedMappings& mappings) noexcept
      : slots_(slots), mappings_(mappings) {}

  /// The view of a peer's table, whose memfd is mapped at `memory`.  Errors: protocol (not the size of a table).
  static Result<RegistrationView> over(ByteSpan memory) noexcept;

  /// Checks that [address, +size) lies inside the live registration `decoded` with `wanted` rights.
  /// Errors: protocol (no such slot), invalid_argument (stale, out of bounds, not mapped), permission, busy (the
  /// mappings of the address space change all the time).
  [[nodiscard]] Result<void> check(const SoftwareHandle& decoded, std::uint64_t address, std::uint64_t size,
                                   Rights wanted) const noexcept;

  /// The handle of the registration with this slot and generation.  Errors: invalid_argument (stale), protocol (slot).
  [[nodiscard]] Result<SoftwareHandle> find(std::uint32_t slot, std::uint64_t generation) const noexcept;

  /// The pool number of GPU memory, which the processor cannot access.
  static constexpr std::uint32_t kOfGpu = UINT32_MAX;

  /// Number of the owner's shared pool (mpool/shared_directory.hpp) that contains the registration; 0: private memory;
  /// kOfGpu: GPU memory.  Requires: check() of `region` has succeeded.
  [[nodiscard]] std::uint32_t pool_of(const SoftwareHandle& region) const noexcept {
    return static_cast<std::uint32_t>(slots_[region.slot].rights.load(std::memory_order_relaxed) >> 32);
  }

 private:
  std::span<const RegistrationSlot> slots_;
  memory::MappingView mappings_;
};

class OPAL_EXPORT RegistrationTable {
 public:
  RegistrationTable(RegistrationTable&&) noexcept;
  RegistrationTable& operator=(RegistrationTable&&) = delete;
  ~RegistrationTable();

  /// An object that depends on registrations and is notified when they end.
  class Follower {
   public:
    /// remove() has removed the registration.  Runs in the thread of remove(), which it may delay.
    virtual void registration_ended(std::uint64_t generation) noexcept = 0;

   protected:
    ~Follower() = default;
  };

  /// Makes a table of `slots` entries of 40 bytes.  Errors: no_memory, os.
  static Result<RegistrationTable> create(std::uint32_t slots);

  /// Registers [base, +size) of host or GPU memory.  A registration of size 0 is valid and permits no byte.
  /// Errors: invalid_argument (range wraps), limit_reached (all slots taken).
  Result<MemoryHandle> add(const void* base, std::uint64_t size, Rights rights);

  /// Registers the whole address space.  An access is allowed if all its pages are mapped at that time with the needed
  /// protection, and `rights` has the right.
  /// Errors: not_supported (no memory monitor), limit_reached (registered already, or no slot is free), no_memory.
  Result<MemoryHandle> add_address_space(Rights rights);
  /// The list of mappings, kept up to date from add_address_space() until remove(); null otherwise.
  [[nodiscard]] memory::MappingTable* address_space() const noexcept { return mappings_.get(); }

  /// Makes the handle stale at once, frees its slot and notifies the followers.
  /// Errors: invalid_argument (never registered here, or removed already), protocol (not a software handle).
  Result<void> remove(const MemoryHandle& handle);

  /// Makes the handle stale from within an event that unmaps its memory: one atomic operation, from any thread.  The
  /// caller still calls remove(), which frees the slot.
  void invalidate(const MemoryHandle& handle) noexcept;
  /// As invalidate() for the part of the memory within `gone`; the other parts stay valid.  A slot stores one range: if
  /// two parts are invalidated, the memory between them becomes invalid too.
  void invalidate_part(const MemoryHandle& handle, memory::Range gone) noexcept;

  /// Moves the table to a new memfd, at the same address.  Called after the restore of a checkpoint image, where
  /// another process may share the old memfd.  Peers that have mapped the old one see no later changes.
  /// Errors: no_memory, os.
  Result<void> renew();

  /// Adds a follower, which must call unfollow() before its end.  Threads: as add().
  void follow(Follower& follower) { followers_.push_back(&follower); }
  void unfollow(Follower& follower) noexcept { std::erase(followers_, &follower); }

  /// As RegistrationView::check(), for the owner of the table, and protocol (not a software handle).  If memory of the
  /// address-space registration is not in the list of mappings, since it was mapped without libc, the kernel's list is
  /// read again, at a limited rate.
  [[nodiscard]] Result<void> check(const MemoryHandle& handle, std::uint64_t address, std::uint64_t size,
                                   Rights wanted) const noexcept;

  [[nodiscard]] RegistrationView view() const noexcept { return {slots(), shared_mappings()}; }
  [[nodiscard]] int fd() const noexcept { return memory_.get(); }  ///< the memfd, to map on the same host
  [[nodiscard]] std::size_t size_bytes() const noexcept { return map_.size(); }
  [[nodiscard]] std::size_t live() const noexcept { return count_ - free_.size(); }  ///< registrations not yet removed

 private:
  RegistrationTable(Fd memory, Mapping map, std::uint32_t slots, std::uint64_t first_generation);
  [[nodiscard]] std::span<RegistrationSlot> slots() const noexcept;
  [[nodiscard]] memory::SharedMappings& shared_mappings() const noexcept;
  /// `high_bits`: those of RegistrationSlot::rights beside `rights`.
  Result<MemoryHandle> add(std::uint64_t base, std::uint64_t size, Rights rights, std::uint64_t high_bits);
  [[nodiscard]] Error no_free_slot() const noexcept {
    return {Errc::limit_reached, 0, "register_memory: all registration slots are taken", count_};
  }
  /// True if `handle` has a slot of this table and a generation that add() can have returned.
  [[nodiscard]] bool names_slot(const SoftwareHandle& handle) const noexcept {
    return handle.slot < count_ && handle.generation % 2 != 0;
  }
  /// Makes `slot` one of private memory if its pool does not contain the registration any more.
  static void drop_replaced_pool(RegistrationSlot& slot) noexcept;
  /// Copies the table to `memory` and maps that in its place.
  Result<void> move_to(const Fd& memory) noexcept;

  /// Marks registrations in a shared pool as private memory when the program replaces their pages: a mapping of the
  /// pool in a peer would show the old pages.
  class PoolWatch;

  /// Makes the pages of the table private in a forked child, so that the child does not change its parent's.  The child
  /// sees later changes of the parent in pages that it has not written: copying all of them would make each fork slow.
  class PrivateInChild;

  struct Unfollow {
    void operator()(memory::MappingTable* table) const noexcept;
  };

  Fd memory_;
  Mapping map_;
  std::uint32_t count_;
  std::uint64_t next_generation_;   // the latest generation minus 1: even.  Each registration adds 2
  std::deque<std::uint32_t> free_;  // oldest first, so that a slot is reused as late as possible
  std::unique_ptr<memory::MappingTable, Unfollow> mappings_;
  std::vector<Follower*> followers_;
  std::unique_ptr<PrivateInChild> private_in_child_;
  std::unique_ptr<PoolWatch> pool_watch_;  // null until the first registration in a pool
};

}  // namespace opal::btl
