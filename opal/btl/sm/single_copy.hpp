// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/single_copy.hpp — copying between this process's memory and a peer's without a bounce buffer.
// Today by CMA (process_vm_readv/writev).  Whether it works depends on the peer (ptrace rules, user and PID
// namespaces, seccomp), so it is found out per peer by a real copy of a page whose content is known, and it is given
// up, once and for good, when it stops working.  Threads: as the module.
#pragma once
#include <sys/types.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "opal/core/bytes.hpp"
#include "opal/core/export.hpp"
#include "opal/core/result.hpp"

namespace opal::btl::sm {

/// Reads btl_sm_single_copy: a list of cma and none; nothing after `none` counts.
struct SingleCopyChoice {
  bool cma = false;
  /// Errors: invalid_argument (a name that is neither).
  OPAL_EXPORT static Result<SingleCopyChoice> parse(std::string_view list);
};

/// A page that peers read to find out whether they can read our memory.
class OPAL_EXPORT ProbePage {
 public:
  static constexpr std::size_t kSize = 4096;
  explicit ProbePage(std::uint64_t seed);
  [[nodiscard]] std::uint64_t address() const noexcept { return reinterpret_cast<std::uint64_t>(bytes_.get()); }
  [[nodiscard]] std::uint64_t seed() const noexcept { return seed_; }
  /// True when `bytes` are what a page with this seed holds.
  static bool matches(std::uint64_t seed, ByteSpan bytes) noexcept;

 private:
  std::uint64_t seed_;
  std::unique_ptr<std::byte[]> bytes_;
};

class OPAL_EXPORT SingleCopy {
 public:
  SingleCopy() noexcept = default;

  /// Tries to read the probe page of process `pid` at `address`.  What came of it is in usable() and why().
  static SingleCopy probe(const SingleCopyChoice& choice, pid_t pid, std::uint64_t address, std::uint64_t seed);

  [[nodiscard]] bool usable() const noexcept { return usable_; }
  /// "cma: probe copied 4096 bytes", or why there is none.
  [[nodiscard]] const std::string& why() const noexcept { return why_; }

  /// Copies all of `size` bytes.  Errors: not_supported (given up; may have copied some), peer_gone,
  /// invalid_argument (the peer has no such memory), os.
  Result<void> write(std::uint64_t remote, const void* source, std::uint64_t size) noexcept;
  Result<void> read(void* destination, std::uint64_t remote, std::uint64_t size) noexcept;

 private:
  [[gnu::cold]] Error failed(int error, const char* where, std::uint64_t left) noexcept;

  pid_t pid_ = 0;
  bool usable_ = false;
  std::string why_ = "not tried";
};

}  // namespace opal::btl::sm
