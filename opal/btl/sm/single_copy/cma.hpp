// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/single_copy/cma.hpp — cross memory attach: process_vm_readv() and process_vm_writev().  The kernel copies
// from or to any address of the peer; nothing is mapped.  Threads: as the module.
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

  /// Permits all processes of this user to access this process's memory (PR_SET_PTRACER_ANY).  Under Yama's
  /// ptrace_scope 1 only ancestors may do so by default.  Without Yama the call fails and is not needed.
  static void permit_peers() noexcept;
  /// ", kernel.yama.ptrace_scope N", to append to an error text; empty without Yama.
  static std::string ptrace_rule();

 private:
  pid_t pid_;
};

}  // namespace opal::btl::sm
