// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/single_copy/copy_mechanism.hpp — one mechanism that copies between this process's memory and a peer's
// without a bounce buffer.  A CopyMechanisms owns the mechanisms of one peer.  Threads: as the module.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "opal/btl/shared/registrations/registration_table.hpp"
#include "opal/core/error.hpp"

namespace opal::btl::sm {

/// In the order of btl_sm_single_copy's default.
enum class MechanismKind : std::uint8_t { shared, xpmem, cma, knem };
inline constexpr std::size_t kMechanismKinds = 4;

constexpr std::string_view name(MechanismKind kind) noexcept {
  constexpr std::string_view kNames[kMechanismKinds] = {"shared", "xpmem", "cma", "knem"};
  return kNames[static_cast<std::size_t>(kind)];
}

/// Bytes of a peer's memory and the registration they belong to.  Some mechanisms address the bytes by `address`,
/// others by their offset in the registration.
struct RemoteRange {
  std::uint64_t address;
  std::uint64_t size;
  SoftwareHandle region;   ///< the registration; generation 0: none
  std::uint32_t pool = 0;  ///< number of the shared pool in which it lies; 0: none

  /// The range without its first `bytes` bytes.
  [[nodiscard]] RemoteRange after(std::uint64_t bytes) const noexcept {
    return {address + bytes, size - bytes, region, pool};
  }
};

/// The result of a copy: the first `copied` bytes were copied; `error` says why the others were not.
struct CopyOutcome {
  std::uint64_t copied = 0;
  Error error{};  ///< not_supported: the mechanism is broken for good; busy: it cannot serve this region (yet);
                  ///< peer_gone, invalid_argument (the peer has no such memory), os: the copy itself has failed

  [[nodiscard]] bool ok() const noexcept { return error.code == Errc{}; }
};

class CopyMechanism {
 public:
  CopyMechanism() noexcept = default;
  virtual ~CopyMechanism() = default;
  CopyMechanism(const CopyMechanism&) = delete;
  CopyMechanism& operator=(const CopyMechanism&) = delete;

  [[nodiscard]] virtual MechanismKind kind() const noexcept = 0;
  /// True when the mechanism reaches all memory of the peer; false when only some (mapped shared pools, regions with a
  /// known cookie).
  [[nodiscard]] virtual bool reaches_all() const noexcept { return true; }
  /// True when the mechanism reaches this range now.  Otherwise it may request what it needs from the peer.
  [[nodiscard]] virtual bool reaches(const RemoteRange& /*range*/) noexcept { return true; }

  /// Copies from the peer's memory `there` to `here`, or back if `write`; then `here` is only read.
  /// Requires: the peer's registration table allows the access.
  virtual CopyOutcome copy(const RemoteRange& there, std::byte* here, bool write) noexcept = 0;
};

}  // namespace opal::btl::sm
