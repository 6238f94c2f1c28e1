// SPDX-License-Identifier: Apache-2.0
// runtime/tools/perf/tests/pairing.hpp — how the two processes of a measurement get together: as ranks 0 and 1 under a
// launcher, or, started alone, with a second process of its own.  Each process of the pair sits on its own core.
#pragma once
#include <memory>
#include <vector>

#include "opal/core/bytes.hpp"
#include "opal/core/result.hpp"
#include "opal/core/system/secret.hpp"

namespace opal::perf {

class Pairing {
 public:
  virtual ~Pairing() = default;
  [[nodiscard]] virtual int rank() const noexcept = 0;  ///< 0 measures, 1 answers
  /// Gives `mine` to the other process and returns its bytes; both call it.  Errors: peer_gone, os, the launcher's.
  virtual Result<std::vector<std::byte>> exchange(ByteSpan mine) = 0;
  /// Bytes of memory that both processes map, zeroed, at least a page; for the floor.  Empty under a launcher that
  /// placed the ranks on different hosts.
  [[nodiscard]] virtual MutableBytes shared_page() noexcept = 0;
  /// What both processes know and prove to each other.
  [[nodiscard]] const Secret& secret() const noexcept { return secret_; }
  /// Puts the calling process on the n-th of the cores that the pair may use; false where a launcher has placed it.
  virtual bool place(int /*core*/) noexcept { return false; }

  /// Under a launcher: its two ranks.  Alone: forks the second process now, so call it before anything has threads.
  /// Errors: invalid_argument (another number of ranks than two), os.
  static Result<std::unique_ptr<Pairing>> create();

 protected:
  explicit Pairing(const Secret& secret) noexcept : secret_(secret) {}

 private:
  Secret secret_;
};

}  // namespace opal::perf
