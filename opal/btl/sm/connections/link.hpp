// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/connections/link.hpp — the resources of one connection.  Both sides make a Link in the same steps:
// prepare() makes this side's segment, introduce() sends its descriptors, complete() checks and maps the peer's.
// Threads: LocalSide is constant after the module's open, except KnemRegions, which has a lock.  The module's thread
// and the connection manager's thread use it.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "opal/btl/peer_id.hpp"
#include "opal/btl/shared/registrations/registration_table.hpp"
#include "opal/btl/sm/config.hpp"
#include "opal/btl/sm/connections/handshake.hpp"
#include "opal/btl/sm/messages/message_link.hpp"
#include "opal/btl/sm/single_copy/knem.hpp"
#include "opal/btl/sm/single_copy/remote_memory.hpp"
#include "opal/btl/sm/single_copy/xpmem.hpp"
#include "opal/core/export.hpp"
#include "opal/core/result.hpp"

namespace opal::btl::sm {

/// One connection.  The connection manager makes it; the Endpoint owns it.
struct Link : MessageLink, RemoteMemory {
  std::uint64_t id = 0;  ///< names the connection in calls of ConnectionManager and in its events
  PeerId peer;
  std::uint64_t extensions = 0;  ///< of the peer: bits of kExtension...
};

/// The kernel modules for single copy, or an error per module that says why it is not used.  Tests pass doubles.
struct KernelDevices {
  using Xpmem = Result<std::shared_ptr<XpmemDevice>>;
  using Knem = Result<std::shared_ptr<KnemDevice>>;
  Xpmem xpmem;
  Knem knem;

  /// Opens the modules whose mechanisms are in `order`.
  OPAL_EXPORT static KernelDevices open(const MechanismOrder& order);
};

/// This module's half of every connection.  Owned by the module.
/// Lifetime: `registrations` and the descriptors must outlive it.
class OPAL_EXPORT LocalSide {
 public:
  LocalSide(const Config& config, const PeerId& self, int inbox_fd, RegistrationTable& registrations, int doorbell_fd,
            MechanismOrder order, KernelDevices devices, bool fences);

  LocalSide(const LocalSide&) = delete;
  LocalSide& operator=(const LocalSide&) = delete;
  ~LocalSide();

  [[nodiscard]] const PeerId& self() const noexcept { return self_; }
  [[nodiscard]] const Config& config() const noexcept { return config_; }
  /// True: this process executes the fences of its senders: receiver_fence(true) (core/sync/asymmetric_fence.hpp).
  [[nodiscard]] bool fences() const noexcept { return fences_; }

  /// Sets Hello::extensions.  Call before the first connection.
  void offer(std::uint64_t extensions) noexcept { extensions_ = extensions; }

  /// Makes a Link with a new segment to `peer`, whose MessageLink::index is `index`.  Errors: those of
  /// OutSegment::create().
  [[nodiscard]] Result<std::unique_ptr<Link>> prepare(const PeerId& peer, std::uint32_t index) const;

  /// Sends a hello or accept with the descriptors of this side.  Errors: those of send_hello().
  [[nodiscard]] Result<void> introduce(int socket, HelloKind kind, const Link& link) const;

  /// Checks and maps what the peer has sent, and tries the copy mechanisms.  `pid`: of the peer, 0: unknown.
  /// Errors: protocol, version_mismatch, no_memory, os.
  [[nodiscard]] Result<void> complete(Link& link, int pid, ReceivedHello& received) const;

  /// A message without descriptors.
  [[nodiscard]] Hello plain(HelloKind kind, const PeerId& to, Errc refusal = {}) const noexcept;

  /// The cookie of this process's registration that `claimed` names; cookie 0: none.
  [[nodiscard]] KnemCookie cookie_of(const SoftwareHandle& claimed) const noexcept;

 private:
  Result<std::unique_ptr<CopyMechanism>> open(MechanismKind kind, int pid, const Hello& hello) const;
  void build_mechanisms(Link& link, int pid, const Hello& hello) const;

  const Config config_;
  const PeerId self_;
  const int inbox_fd_;
  RegistrationTable& registrations_;
  const int doorbell_fd_;
  const MechanismOrder order_;
  const bool fences_;
  std::uint64_t extensions_ = 0;
  const std::uint64_t probe_seed_;
  const ProbePage probe_;
  KernelDevices::Xpmem xpmem_;
  std::int64_t xpmem_segment_ = 0;  // of this process's memory; 0: none
  Result<std::unique_ptr<KnemRegions>> knem_;
};

}  // namespace opal::btl::sm
