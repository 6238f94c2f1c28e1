// SPDX-License-Identifier: Apache-2.0
// runtime/tools/perf/tests/pairing.hpp — the two processes of a measurement: ranks 0 and 1 under a launcher, or,
// without one, this process and a forked child, each bound to its own core.  Threads: one owner.
#pragma once
#include <sys/types.h>

#include <memory>
#include <vector>

#include "opal/core/system/fd.hpp"
#include "opal/core/system/mapping.hpp"
#include "runtime/client/client.hpp"

namespace opal::perf {

class Pairing {
 public:
  /// Under a launcher, both ranks call it.  Without one, it forks the second process and returns in both.
  /// Requires: the process has one thread.  Errors: invalid_argument (the job has not two ranks), os, those of Client.
  static Result<std::unique_ptr<Pairing>> create();
  Pairing(const Pairing&) = delete;
  Pairing& operator=(const Pairing&) = delete;
  ~Pairing();

  [[nodiscard]] int rank() const noexcept { return rank_; }  ///< 0 measures, 1 answers
  /// Sends `mine` to the other process and returns the bytes of its call; both call it.  At most 64 KiB without a
  /// launcher.  Errors: peer_gone, os, those of Client.
  Result<std::vector<std::byte>> exchange(ByteSpan mine);
  /// A zeroed page that both processes map, for cache_line_floor().  Empty when the ranks are on different hosts, or
  /// rank 1 may not open the page.  Valid as long as this object.
  [[nodiscard]] MutableBytes shared_page() noexcept { return page_.bytes(); }
  /// The secret for the Contexts of both processes.
  [[nodiscard]] const Secret& secret() const noexcept { return secret_; }

 private:
  explicit Pairing(const Secret& secret) noexcept : secret_(secret) {}
  Result<void> fork_second();
  Result<void> share_page();

  Secret secret_;
  int rank_ = 0;
  Mapping page_;
  std::unique_ptr<::runtime::Client> client_;  // under a launcher
  int round_ = 0;                              // number of exchanges through client_
  Fd socket_;                                  // without a launcher
  pid_t child_ = 0;                            // without a launcher, at rank 0
};

}  // namespace opal::perf
