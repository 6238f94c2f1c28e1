// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/single_copy/remote_memory.hpp — access to the memory of one peer: the peer's registration table, the
// mappings of its pools, the copy mechanisms.  An operation resolves its range once into a Target.
// Owns all of them; part of a Link.
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

/// The memory that a one-sided operation names, and how this process accesses it.
struct Target {
  enum class Access : std::uint8_t {
    mapped,     ///< the memory is mapped in this process, at `mapped`
    mechanism,  ///< a copy mechanism reaches the memory
    messages    ///< only its owner can access the memory
  };
  Access access = Access::messages;
  bool checked = false;         ///< the peer's table allows the access; false: the owner must check at the message
  std::byte* mapped = nullptr;  ///< valid until the next resolve() or recheck(), which may map another pool instead
  RemoteRange range{};
};

struct RemoteMemory {
  Mapping registrations_map;
  RegistrationView registrations;  ///< the peer's own table
  CopyMechanisms copy;
  SharedMechanism* shared = nullptr;  ///< the mechanism of `copy`, if it has one
  /// True once the peer has ended the connection.  From then on the peer's PID may name another process.  The
  /// connection manager's thread shares it and sets it at any time.
  std::shared_ptr<std::atomic<bool>> hung_up = std::make_shared<std::atomic<bool>>(false);

  /// Decodes the handle, checks the access in the peer's table, and finds out how to access the range.
  /// Errors: peer_gone, protocol, invalid_argument, permission.
  OPAL_EXPORT Result<Target> resolve(const MemoryHandle& handle, std::uint64_t address, std::uint64_t size,
                                     Rights wanted) noexcept;
  /// The same for a part of a range resolved earlier: the registration or the peer may have ended since.
  OPAL_EXPORT Result<Target> recheck(const RemoteRange& part, Rights wanted) noexcept;
  /// Checks that the peer's table allows the access.  Errors: as resolve().
  OPAL_EXPORT Result<void> check(const SoftwareHandle& region, std::uint64_t address, std::uint64_t size,
                                 Rights wanted) const noexcept;

  /// Copies as CopyMechanism::copy() without the peer.  Errors: not_supported (the caller copies the bytes after
  /// `copied` by messages), and those of CopyMechanisms::copy().
  CopyOutcome move(const Target& target, std::byte* here, bool write) noexcept;

  /// The address at which a range of the peer's pools is mapped in this process; null: not mapped.  Valid as
  /// Target::mapped.
  [[nodiscard]] std::byte* map(const RemoteRange& range) const noexcept {
    return shared != nullptr ? shared->map(range) : nullptr;
  }
};

}  // namespace opal::btl::sm
