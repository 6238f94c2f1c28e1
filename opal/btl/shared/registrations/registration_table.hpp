// SPDX-License-Identifier: Apache-2.0
// opal/btl/shared/registrations/registration_table.hpp — the registrations of one Context, for every transport that
// checks them in software (self, sm, tcp): base, size, rights and a generation per slot.
//
// * It lies in a memfd, so that a peer of the same host can check a handle before a single copy.  For other peers the
//   owner checks at arrival.
// * Behind the slots is the list of everything that is mapped, used once the address space is registered.
// * A handle is valid while its slot has the generation that the handle names.  Slots rotate and generations start at a
//   random number, so a stale handle never matches again.
// Threads: add/remove from one thread at a time (the Context's lock); check() from any thread or process, invalidate()
// from any thread.
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

/// The bytes of a software handle on the wire, little endian.  base and size are a copy for the initiator's arithmetic;
/// the owner's table is what counts.
struct SoftwareHandle {
  std::uint64_t generation;
  std::uint64_t base;
  std::uint64_t size;
  std::uint32_t slot;
  std::uint32_t rights;

  /// User addresses of every machine end below; a round size keeps sums from wrapping.
  static constexpr std::uint64_t kAddressSpaceSize = std::uint64_t{1} << 62;
  [[nodiscard]] bool of_address_space() const noexcept { return base == 0 && size == kAddressSpaceSize; }

  /// What the handle's bytes claim.  Errors: protocol (not a software handle).
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

/// One slot of the table, shared with peers read-only.  `generation` is odd while the slot is live, even when it was
/// invalidated, 0 when free; writers make it even first, readers load it before and after the other fields.
struct RegistrationSlot {
  std::atomic<std::uint64_t> generation;
  std::atomic<std::uint64_t> base;
  std::atomic<std::uint64_t> size;
  std::atomic<std::uint64_t> rights;  ///< and in the upper half the number of the shared pool it lies in, 0, or kOfGpu
  std::atomic<std::uint64_t> hole;  ///< unmapped pages: index of the first from base's page, and above 32 bits how many
};
static_assert(sizeof(RegistrationSlot) == 40, "layout v2: slots are addressed by index");
static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "a lock-based atomic does not work across processes");

/// A read-only view of a table: the process's own, or the mapping of a peer's.
class OPAL_EXPORT RegistrationView {
 public:
  RegistrationView() noexcept = default;
  RegistrationView(std::span<const RegistrationSlot> slots, const memory::SharedMappings& mappings) noexcept
      : slots_(slots), mappings_(mappings) {}

  /// The view of a table's memory as a peer maps it.  Errors: protocol (not the size of a table).
  static Result<RegistrationView> over(ByteSpan memory) noexcept;

  /// Checks that [address, +size) lies inside the live registration `handle` with `wanted` rights.
  /// Errors: protocol (not a software handle), invalid_argument (stale, or out of bounds), permission.
  [[nodiscard]] Result<void> check(const MemoryHandle& handle, std::uint64_t address, std::uint64_t size,
                                   Rights wanted) const noexcept;
  /// The same for a decoded handle.
  [[nodiscard]] Result<void> check(const SoftwareHandle& decoded, std::uint64_t address, std::uint64_t size,
                                   Rights wanted) const noexcept;

  /// What the table says about a registration, given its slot and generation.  Errors: invalid_argument (stale).
  [[nodiscard]] Result<SoftwareHandle> find(std::uint32_t slot, std::uint64_t generation) const noexcept;

  /// The pool number of memory that the processor cannot touch: a GPU's.
  static constexpr std::uint32_t kOfGpu = UINT32_MAX;

  /// Number of the owner's shared pool (mpool/shared_directory.hpp) in which a region lies that check() has passed;
  /// 0: its memory is private; kOfGpu.
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
  RegistrationTable& operator=(RegistrationTable&&) noexcept;
  ~RegistrationTable();

  /// An object that depends on registrations and is notified when they end.
  class Follower {
   public:
    /// The registration is gone from the table.  In the thread that removes it.
    virtual void registration_ended(std::uint64_t generation) noexcept = 0;

   protected:
    ~Follower() = default;
  };

  /// A table of `slots` entries (40 bytes each).  Errors: no_memory, os.
  static Result<RegistrationTable> create(std::uint32_t slots);

  /// Registers [base, +size) and returns its handle.  size 0 is allowed and permits nothing.
  /// Errors: invalid_argument (range wraps), limit_reached (all slots taken).
  Result<MemoryHandle> add(const void* base, std::uint64_t size, Rights rights);

  /// Registers the whole address space: the handle is good for whatever is mapped, when it is used, with the rights
  /// that the mapping has then (and that are in `rights`).  Errors: not_supported (no patcher), limit_reached (it is
  /// registered already, or no slot is left), no_memory.
  Result<MemoryHandle> add_address_space(Rights rights);
  /// The mappings that add_address_space() follows; null before.
  [[nodiscard]] memory::MappingTable* address_space() const noexcept { return mappings_.get(); }

  /// Makes the handle stale at once.  Errors: invalid_argument (never registered here, or removed already).
  Result<void> remove(const MemoryHandle& handle);

  /// Makes the handle stale from within an event that unmaps its memory: one atomic operation, from any thread.  The
  /// slot stays taken until remove().
  void invalidate(const MemoryHandle& handle) noexcept;
  /// The same for the part of its memory that lies in `gone`; the rest stays good.  What lies between two parts that
  /// went one after the other goes too: a slot remembers one range.
  void invalidate_part(const MemoryHandle& handle, memory::Range gone) noexcept;

  /// The same registrations in a memfd of this process alone: after a restart from an image, where the former one may
  /// belong to another process.  Peers that have mapped the former do not see it.  Errors: no_memory, os.
  Result<void> renew();

  /// In the thread that adds and removes.
  void follow(Follower& follower) { followers_.push_back(&follower); }
  void unfollow(Follower& follower) noexcept { std::erase(followers_, &follower); }

  /// As RegistrationView::check(), for the owner: memory of a whole address space that is not in the table, because it
  /// was mapped without libc, is looked for in the kernel's list, at most once in a while.
  [[nodiscard]] Result<void> check(const MemoryHandle& handle, std::uint64_t address, std::uint64_t size,
                                   Rights wanted) const noexcept;

  [[nodiscard]] RegistrationView view() const noexcept { return {slots(), shared_mappings()}; }
  [[nodiscard]] int fd() const noexcept { return memory_.get(); }  ///< the memfd, to map on the same host
  [[nodiscard]] std::size_t size_bytes() const noexcept { return map_.size(); }
  [[nodiscard]] std::size_t live() const noexcept { return live_; }  ///< registrations not yet removed

 private:
  RegistrationTable(Fd memory, Mapping map, std::uint32_t slots, std::uint64_t first_generation);
  [[nodiscard]] std::span<RegistrationSlot> slots() const noexcept;
  [[nodiscard]] memory::SharedMappings& shared_mappings() const noexcept;
  Result<MemoryHandle> add(std::uint64_t base, std::uint64_t size, Rights rights, std::uint64_t flags);

  /// Registrations in shared pools whose memory the program replaces are private ones from then on: peers that had
  /// mapped the pool would see what was there.
  class PoolWatch;

  /// A forked child changes a copy: what it deregisters is still its parent's.
  class PrivateInChild;

  struct Unfollow {
    void operator()(memory::MappingTable* table) const noexcept;
  };

  Fd memory_;
  Mapping map_;
  std::uint32_t count_;
  std::uint64_t next_generation_;   // even; +2 per registration
  std::deque<std::uint32_t> free_;  // first in, first out: the longest unused slot is taken next
  std::size_t live_ = 0;
  std::unique_ptr<memory::MappingTable, Unfollow> mappings_;
  std::vector<Follower*> followers_;
  std::unique_ptr<PrivateInChild> private_in_child_;
  std::unique_ptr<PoolWatch> pool_watch_;  // from the first registration in a pool on
};

}  // namespace opal::btl
