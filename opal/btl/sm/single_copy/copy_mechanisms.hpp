// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/single_copy/copy_mechanisms.hpp — the copy mechanisms that work with one peer, best first.
// Whether one works depends on the peer (kernel modules, ptrace rules, user and PID namespaces, seccomp).  So each is
// tried by a real copy of a page with known content (ProbePage).  One that stops working is removed for good.  The next
// one then continues the transfer at the byte where it stopped; after the last one the caller continues by messages.
// Owns the mechanisms.  Threads: as the module.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "opal/btl/sm/single_copy/copy_mechanism.hpp"
#include "opal/core/export.hpp"
#include "opal/core/result.hpp"

namespace opal::btl::sm {

/// btl_sm_single_copy: mechanisms in order of preference.
struct MechanismOrder {
  std::vector<MechanismKind> kinds;

  [[nodiscard]] bool has(MechanismKind kind) const noexcept;
  /// Reads a list such as "shared,xpmem,cma,knem"; "none" ends it, a name that comes again is ignored.
  /// Errors: invalid_argument (an unknown name; it is logged).
  OPAL_EXPORT static Result<MechanismOrder> parse(std::string_view list);
};

/// A page whose content follows from a seed that the peer knows.  By copying it the peer tests whether a mechanism
/// reaches this process.  In another PID namespace the PID may name another process.
using ProbePage = std::array<std::byte, 4096>;
OPAL_EXPORT ProbePage probe_page(std::uint64_t seed) noexcept;

class OPAL_EXPORT CopyMechanisms {
 public:
  CopyMechanisms() = default;

  /// Adds a mechanism after the existing ones if it can read the peer's ProbePage with `seed`, which is at `page`;
  /// otherwise notes the reason.
  void try_mechanism(std::unique_ptr<CopyMechanism> mechanism, const RemoteRange& page, std::uint64_t seed);
  /// Adds a mechanism without a try.  `why`: text for why().
  void add(std::unique_ptr<CopyMechanism> mechanism, std::string why);
  /// Notes for why() the reason why a mechanism is not used.
  void refuse(MechanismKind kind, std::string_view reason);
  void refuse(MechanismKind kind, const Error& error);
  /// Notes for why() that there is no mechanism, and the reason.
  void refuse_all(std::string_view reason);

  /// True when a mechanism reaches all memory of the peer.
  [[nodiscard]] bool usable() const noexcept { return reaches_all_; }
  /// True when a mechanism reaches this range now.
  [[nodiscard]] bool reaches(const RemoteRange& range) noexcept;
  /// The mechanism of this kind; null when it was not added, or was removed.  Valid until the next copy().
  [[nodiscard]] CopyMechanism* find(MechanismKind kind) const noexcept;
  /// "cma: probe copied 4096 bytes; no xpmem: ...", or why there is none.
  [[nodiscard]] std::string why() const;

  /// Copies as CopyMechanism::copy() by the first mechanism that can.  Errors: not_supported (no mechanism reaches the
  /// range; the caller copies the bytes after `copied`), peer_gone, invalid_argument (the peer has no such memory), os.
  CopyOutcome copy(const RemoteRange& there, std::byte* here, bool write) noexcept;

 private:
  struct Step {
    std::unique_ptr<CopyMechanism> mechanism;
    std::string why;  // why it is used
  };

  [[gnu::cold]] void remove_broken(std::size_t index, const Error& error) noexcept;
  void update() noexcept;

  std::vector<Step> mechanisms_;
  std::string refused_;       // reasons of refuse(), separated by "; "
  bool reaches_all_ = false;  // one of mechanisms_ does
};

}  // namespace opal::btl::sm
