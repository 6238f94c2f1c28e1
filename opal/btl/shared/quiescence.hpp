// SPDX-License-Identifier: Apache-2.0
// opal/btl/shared/quiescence.hpp — a module's part in a checkpoint: behind the last message on each endpoint goes a
// marker, and the peer's markers are waited for.  Endpoints keep order, so a peer that has a marker has handled all
// that came before it (Chandy and Lamport, "Distributed snapshots", 1985, with coordinated starts).  The round is in
// the marker: a checkpoint that was given up does not count for the next.  docs/design/checkpoint.md. Owned by its
// module. Threads: as the module.
#pragma once
#include <cstdint>

#include "opal/btl/delivery.hpp"
#include "opal/btl/handlers.hpp"
#include "opal/btl/post.hpp"
#include "opal/core/result.hpp"

namespace opal::btl {

class Module;

class Quiescence {
 public:
  explicit Quiescence(Module& module) noexcept : module_(module) {}

  /// Puts the handler of markers into a Context's table; RdmaEmulation::install() does it.
  static Result<void> install(HandlerTable& handlers);

  void begin(std::uint64_t round) noexcept;
  /// Sends the markers that have not gone out; whether all is through.
  [[nodiscard]] bool reached() noexcept;
  Result<void> checkpoint() noexcept;
  void end() noexcept;

 private:
  struct Flush : Completion {
    bool queued = false;
  };
  static void on_marker(void* object, Delivery& delivery) noexcept;

  Module& module_;
  bool active_ = false;
  std::uint64_t round_ = 0;
  Flush flush_;
};

}  // namespace opal::btl
