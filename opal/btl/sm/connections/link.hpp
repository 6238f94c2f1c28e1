// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/connections/link.hpp — what one connection consists of.  Both sides make it in the same two steps:
// prepare() makes what we bring, complete() checks and maps what the peer has brought.
// Threads: LocalSide is constant after open (but for KnemRegions, which has a lock).  The module's thread and the
// connection manager's use it.
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
#include "opal/btl/sm/single_copy/probe_page.hpp"
#include "opal/btl/sm/single_copy/remote_memory.hpp"
#include "opal/btl/sm/single_copy/xpmem.hpp"
#include "opal/core/export.hpp"
#include "opal/core/result.hpp"

namespace opal::btl::sm {

/// One connection.  Becomes part of an Endpoint.
struct Link : MessageLink, RemoteMemory {
  std::uint64_t id = 0;  ///< the connection manager's number of it
  PeerId peer;
  std::uint64_t extensions = 0;  ///< the peer's: kExtension...
};

/// The kernel modules that single copy can use: the kernel's, or doubles.
struct KernelDevices {
  using Xpmem = Result<std::shared_ptr<XpmemDevice>>;
  using Knem = Result<std::shared_ptr<KnemDevice>>;
  Xpmem xpmem;
  Knem knem;

  /// Opens those that are in the order.
  OPAL_EXPORT static KernelDevices open(const MechanismOrder& order);
};

/// What this module is, as far as others are told.
class OPAL_EXPORT LocalSide {
 public:
  LocalSide(const Config& config, const PeerId& self, int inbox_fd, RegistrationTable& registrations, int doorbell_fd,
            MechanismOrder order, KernelDevices devices, bool fences);

  LocalSide(const LocalSide&) = delete;
  LocalSide& operator=(const LocalSide&) = delete;
  ~LocalSide();

  [[nodiscard]] const PeerId& self() const noexcept { return self_; }
  [[nodiscard]] const Config& config() const noexcept { return config_; }
  /// This process pays for the fences of its senders (core/sync/asymmetric_fence.hpp).
  [[nodiscard]] bool fences() const noexcept { return fences_; }

  /// What this side can beyond sm; before the first peer hears of it.
  void offer(std::uint64_t extensions) noexcept { extensions_ = extensions; }

  /// What we bring: a segment to `peer`, whose index here is `index`.
  [[nodiscard]] Result<std::unique_ptr<Link>> prepare(const PeerId& peer, std::uint32_t index) const;

  /// Sends it.
  [[nodiscard]] Result<void> introduce(int socket, HelloKind kind, const Link& link) const;

  /// Adds what the peer, process `pid` (0 = unknown), has sent: maps, checks, probes.  Errors: protocol,
  /// version_mismatch, permission, no_memory, os.
  [[nodiscard]] Result<void> complete(Link& link, int pid, ReceivedHello& received) const;

  /// A message without descriptors.
  [[nodiscard]] Hello plain(HelloKind kind, const PeerId& to, Errc refusal = {}) const noexcept;

  /// Our answer to ask_cookie.
  [[nodiscard]] KnemCookie cookie_of(const SoftwareHandle& claimed) const noexcept;

 private:
  Result<std::unique_ptr<XpmemMechanism>> open_xpmem(const Hello& hello) const;
  Result<std::unique_ptr<KnemMechanism>> open_knem(const Hello& hello) const;
  void build_mechanisms(Link& link, int pid, const Hello& hello) const;

  const Config config_;
  const PeerId self_;
  const int inbox_fd_;
  RegistrationTable& registrations_;
  const int doorbell_fd_;
  const MechanismOrder order_;
  const bool fences_;
  std::uint64_t extensions_ = 0;
  ProbePage probe_;
  KernelDevices::Xpmem xpmem_;
  std::int64_t xpmem_segment_ = 0;  // 0: we offer none
  Result<std::unique_ptr<KnemRegions>> knem_;
};

}  // namespace opal::btl::sm
