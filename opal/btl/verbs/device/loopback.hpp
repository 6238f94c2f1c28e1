// SPDX-License-Identifier: Apache-2.0
// opal/btl/verbs/device/loopback.hpp — two queue pairs of one device that are connected to each other, to try out what
// the device says it can do.  Owned by the trial; one thread.
#pragma once
#include <array>
#include <cstddef>

#include "opal/btl/verbs/device/device.hpp"

namespace opal::btl::verbs {

class Loopback {
 public:
  /// `ip`: the address whose GID is used, as in wire::Address.  Errors: not_supported (no such GID), limit_reached, os.
  static Result<Loopback> open(const Device& device, std::uint8_t port, const std::array<std::uint8_t, 16>& ip);

  /// One write or read of `size` bytes, and its end.  Errors: internal (what the device said), timed_out (after 2 s).
  Result<void> move(ibv_wr_opcode opcode, std::byte* local, std::uint32_t lkey, const std::byte* remote,
                    std::uint32_t rkey, std::uint32_t size) noexcept;

 private:
  Loopback() = default;
  CompletionQueue completions_;
  std::array<QueuePair, 2> pairs_;
};

}  // namespace opal::btl::verbs
