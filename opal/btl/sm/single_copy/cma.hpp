// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/single_copy/cma.hpp — cross memory attach: process_vm_readv/writev.  The kernel copies, nothing is
// mapped, and any address of the peer will do.  Threads: as the module.
#pragma once
#include <sys/types.h>

#include <memory>
#include <string>

#include "opal/btl/sm/single_copy/copy_mechanism.hpp"
#include "opal/core/export.hpp"
#include "opal/core/result.hpp"

namespace opal::btl::sm {

class OPAL_EXPORT CmaMechanism final : public CopyMechanism {
 public:
  explicit CmaMechanism(pid_t pid) noexcept : pid_(pid) {}

  [[nodiscard]] MechanismKind kind() const noexcept override { return MechanismKind::cma; }
  CopyOutcome copy(const RemoteRange& there, std::byte* here, bool write) noexcept override;

  /// Under Yama's ptrace_scope 1 only descendants may read our memory unless we say otherwise; it can be said for one
  /// process or for all, and there are many peers.  Elsewhere the call fails and is not needed.
  static void invite_peers() noexcept;
  /// What the kernel says about tracing, to be added to a reason; empty when it says nothing.
  static std::string ptrace_rule();

 private:
  pid_t pid_;
};

}  // namespace opal::btl::sm
