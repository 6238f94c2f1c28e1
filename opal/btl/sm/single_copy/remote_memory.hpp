// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/single_copy/remote_memory.hpp — the memory of one peer as this process reaches it: the peer's
// registration table, the mappings of its pools, the copy mechanisms.  An operation resolves its range once into a
// Target.
//
// Threads: as the module; the connection manager writes `hung_up`.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>

#include "opal/btl/memory_handle.hpp"
#include "opal/btl/shared/registrations/registration_table.hpp"
#include "opal/btl/sm/single_copy/copy_mechanisms.hpp"
#include "opal/btl/sm/single_copy/shared_mechanism.hpp"
#include "opal/core/export.hpp"
#include "opal/core/result.hpp"
#include "opal/core/system/mapping.hpp"

namespace opal::btl::sm {

/// How the memory that a one-sided operation names is reached.
struct Target {
  enum class Access : std::uint8_t {
    mapped,     ///< it is mapped here, at `mapped`
    mechanism,  ///< a copy mechanism reaches it
    messages    ///< only its owner reaches it
  };
  Access access = Access::messages;
  bool checked = false;         ///< the peer's table allows the access; false: its owner has to check
  std::byte* mapped = nullptr;  ///< valid until the next resolve() or recheck(), which may map another pool instead
  RemoteRange range{};
};

struct RemoteMemory {
  Mapping registrations_map;
  RegistrationView registrations;  ///< the peer's own table
  CopyMechanisms copy;
  SharedMechanism* shared = nullptr;  ///< the mechanism of `copy`, if it has one
  /// Set as soon as the peer has hung up; shared, since the connection manager may learn it at any time.  Then the
  /// peer's PID may belong to another process.
  std::shared_ptr<std::atomic<bool>> hung_up = std::make_shared<std::atomic<bool>>(false);

  /// Decodes the handle, checks the peer's table, and finds the way to the range.
  /// Errors: peer_gone, protocol, invalid_argument, permission.
  OPAL_EXPORT Result<Target> resolve(const MemoryHandle& handle, std::uint64_t address, std::uint64_t size,
                                     Rights wanted) noexcept;
  /// The same for a part of a resolved range, later: the registration or the peer may have ended meanwhile.
  OPAL_EXPORT Result<Target> recheck(const RemoteRange& part, Rights wanted) noexcept;
  /// Whether the table allows the access.  Errors: as resolve().
  OPAL_EXPORT Result<void> check(const SoftwareHandle& region, std::uint64_t address, std::uint64_t size,
                                 Rights wanted) const noexcept;

  /// Copies as much as can be copied from here.  Errors: not_supported (the rest goes by messages), and those of
  /// CopyMechanisms::copy().
  CopyOutcome move(const Target& target, std::byte* here, bool write) noexcept;

  /// Where a range of the peer's pools is mapped here; null: it is not.
  [[nodiscard]] std::byte* map(const RemoteRange& range) const noexcept {
    return shared != nullptr ? shared->map(range) : nullptr;
  }
};

}  // namespace opal::btl::sm
