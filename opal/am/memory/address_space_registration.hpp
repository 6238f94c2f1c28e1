// SPDX-License-Identifier: Apache-2.0
// opal/am/memory/address_space_registration.hpp — one key for everything that this process has mapped, now and later: a
// peer that got it once puts and gets at any valid address.  mmap, brk, mremap, munmap and mprotect are followed before
// they return; what a mapping forbids is refused.  docs/design/memory.md: what it costs, and what it cannot see. Owned
// by the program; ends before its Context.  Threads: as the Context; following is safe from any thread.
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

  /// Keeps the pages of [address, +size) that are mapped now out of peers' reach, until they are unmapped or included.
  void exclude(const void* address, std::size_t size) noexcept;
  void include(const void* address, std::size_t size) noexcept;
  /// Private memory that no peer can reach at any time.  Errors: no_memory, os.
  Result<Mapping> map_unregistered(std::size_t size) noexcept;

 private:
  AddressSpaceRegistration(Region region, memory::MappingTable& table) noexcept
      : region_(std::move(region)), table_(&table) {}
  Region region_;
  memory::MappingTable* table_;
};

}  // namespace opal::am
