// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/single_copy/copy_mechanisms.hpp — the copy mechanisms that work with one peer, best first.
// Whether one works depends on the peer (kernel modules, ptrace rules, user and PID namespaces, seccomp), so each is
// tried by a real copy of a page with known content.  One that stops to work is removed for good, also in mid-transfer:
// the next one continues at the byte where it stopped.  After the last one the caller continues (by messages).
// Threads: as the module.
#pragma once
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

class OPAL_EXPORT CopyMechanisms {
 public:
  CopyMechanisms() = default;

  /// Adds a mechanism below those that are there, after a try: it must read the ProbePage with `seed` that is
  /// registered as `page` at the peer.
  void try_mechanism(std::unique_ptr<CopyMechanism> mechanism, const RemoteRange& page, std::uint64_t seed);
  /// Adds one that needs no try.
  void add(std::unique_ptr<CopyMechanism> mechanism, std::string why);
  /// Remembers why a mechanism is not there.
  void refuse(MechanismKind kind, std::string_view reason);
  void refuse(MechanismKind kind, const Error& error);
  /// Remembers that there is none at all, and why.
  void refuse_all(std::string_view reason);

  /// True when any memory of the peer can be copied without its help.
  [[nodiscard]] bool usable() const noexcept { return reaches_all_; }
  /// True when this range can be copied now without the peer's help.
  [[nodiscard]] bool reaches(const RemoteRange& range) noexcept;
  /// The mechanism of this kind; null when it is not there, or not any more.
  [[nodiscard]] CopyMechanism* find(MechanismKind kind) const noexcept;
  /// "cma: probe copied 4096 bytes; no xpmem: ...", or why there is none.
  [[nodiscard]] std::string why() const;

  /// Copies as much as it can; all of it unless `error` is set: not_supported (no mechanism is left that reaches this
  /// range; the caller goes on after `copied`), peer_gone, invalid_argument (the peer has no such memory), os.
  CopyOutcome copy(const RemoteRange& there, std::byte* here, bool write) noexcept;

 private:
  struct Step {
    std::unique_ptr<CopyMechanism> mechanism;
    std::string why;
  };

  [[gnu::cold]] void demote(std::size_t index, const Error& error) noexcept;
  void update() noexcept;

  std::vector<Step> mechanisms_;
  std::string refused_;  // reasons, joined
  bool reaches_all_ = false;
};

}  // namespace opal::btl::sm
