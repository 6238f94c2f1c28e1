// SPDX-License-Identifier: Apache-2.0
// opal/am/memory/address_space_registration.hpp — whole-address-space registration: one key for all memory that this
// process has mapped or will map.  A peer with the key puts to and gets from any mapped address.
// The patcher intercepts mmap, brk, mremap, munmap and mprotect and updates the table before they return.  An access
// that the protection of a mapping forbids is refused.  Cost and limits: docs/design/memory.md.
// Ownership: the program; it is destroyed before its Context.  Threads: as the Context; mmap and the other intercepted
// calls may come from any thread.
#pragma once
#include "opal/am/context.hpp"
#include "opal/core/system/mapping.hpp"
#include "opal/memory/address_space/mapping_table.hpp"

namespace opal::am {

class OPAL_EXPORT AddressSpaceRegistration {
 public:
  /// Errors: not_supported (no patcher in this process: Context::open came after threads, or not x86-64),
  /// limit_reached (the Context has one), no_memory.
  static Result<AddressSpaceRegistration> enable(Context& context, Rights rights);

  /// As Region::key(); peers use it with addresses of this process.
  [[nodiscard]] ByteSpan key() const noexcept { return region_.key(); }

  /// Denies peers access to the pages of [address, +size) that are mapped now, until they are unmapped or included.
  void exclude(const void* address, std::size_t size) noexcept;
  void include(const void* address, std::size_t size) noexcept;
  /// Maps private memory that peers can never access.  Errors: no_memory, os.
  Result<Mapping> map_unregistered(std::size_t size) noexcept;

 private:
  AddressSpaceRegistration(Region region, memory::MappingTable& table) noexcept
      : region_(std::move(region)), table_(&table) {}
  Region region_;
  memory::MappingTable* table_;
};

}  // namespace opal::am
