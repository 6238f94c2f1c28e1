// SPDX-License-Identifier: Apache-2.0
// runtime/tools/perf/tests/pairing.hpp — how the two processes of a measurement get together: as ranks 0 and 1 under a
// launcher, or, started alone, with a second process of its own.  Each process of the pair sits on its own core.
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
  /// Under a launcher: its two ranks.  Alone: forks the second process now, so call it before anything has threads.
  /// Errors: invalid_argument (another number of ranks than two), os.
  static Result<std::unique_ptr<Pairing>> create();
  Pairing(const Pairing&) = delete;
  Pairing& operator=(const Pairing&) = delete;
  ~Pairing();

  [[nodiscard]] int rank() const noexcept { return rank_; }  ///< 0 measures, 1 answers
  /// Gives `mine` to the other process and returns its bytes; both call it.  Errors: peer_gone, os, the launcher's.
  Result<std::vector<std::byte>> exchange(ByteSpan mine);
  /// Bytes of memory that both processes map, zeroed, at least a page; for the floor.  Empty under a launcher that
  /// placed the ranks on different hosts.
  [[nodiscard]] MutableBytes shared_page() noexcept { return page_.bytes(); }
  /// What both processes know and prove to each other.
  [[nodiscard]] const Secret& secret() const noexcept { return secret_; }

 private:
  explicit Pairing(const Secret& secret) noexcept : secret_(secret) {}
  Result<void> fork_second();
  Result<void> share_page();

  Secret secret_;
  int rank_ = 0;
  Mapping page_;
  std::unique_ptr<::runtime::Client> client_;  // under a launcher
  int round_ = 0;                              // of its exchanges
  Fd socket_;                                  // alone
  pid_t child_ = 0;                            // alone, at rank 0
};

}  // namespace opal::perf
