// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/single_copy/copy_mechanism.hpp — one mechanism that copies between this process's memory and a peer's
// without a bounce buffer.  A CopyMechanisms owns the mechanisms of one peer.  Threads: as the module.
#pragma once
#include <bit>
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

/// Bytes of a peer's memory, which its table has said may be touched, and the registration they belong to: the
/// mechanisms differ in whether they count from 0 or from the base of what was registered.
struct RemoteRange {
  std::uint64_t address;
  std::uint64_t size;
  SoftwareHandle region;
  std::uint32_t pool = 0;  ///< number of the shared pool in which it lies; 0: none

  /// Without the first `bytes`.
  [[nodiscard]] RemoteRange after(std::uint64_t bytes) const noexcept {
    return {address + bytes, size - bytes, region, pool};
  }
};

/// What a mechanism has done: the first `copied` bytes, and why not the rest.
struct CopyOutcome {
  std::uint64_t copied = 0;
  Error error{};  ///< not_supported: the mechanism is broken for good; busy: it cannot serve this region (yet);
                  ///< peer_gone, invalid_argument (the peer has no such memory), os: the copy itself has failed

  [[nodiscard]] bool ok() const noexcept { return error.code == Errc{}; }
};

/// When to repeat a question to a peer whose answer does not come: question or answer are lost where a socket is full.
class AskAgain {
 public:
  /// Called at each use that would have needed the answer; true after 64, 128, 256 and so on of them.
  bool is_due() noexcept { return ++uses_ >= 64 && std::has_single_bit(uses_); }

 private:
  std::uint64_t uses_ = 0;
};

class CopyMechanism {
 public:
  CopyMechanism() noexcept = default;
  virtual ~CopyMechanism() = default;
  CopyMechanism(const CopyMechanism&) = delete;
  CopyMechanism& operator=(const CopyMechanism&) = delete;

  [[nodiscard]] virtual MechanismKind kind() const noexcept = 0;
  /// True when any memory of the peer can be reached, false when only some can (memory of the shared pool, regions of
  /// which we know the cookie).
  [[nodiscard]] virtual bool reaches_all() const noexcept { return true; }
  /// Whether this range can be reached now.
  [[nodiscard]] virtual bool reaches(const RemoteRange& /*range*/) noexcept { return true; }

  /// Reads from the peer's memory `there`, or writes to it; then `here` is only read.
  virtual CopyOutcome copy(const RemoteRange& there, std::byte* here, bool write) noexcept = 0;
};

}  // namespace opal::btl::sm
