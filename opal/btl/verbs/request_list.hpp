// SPDX-License-Identifier: Apache-2.0
// opal/btl/verbs/request_list.hpp — send requests of one queue pair that wait to be posted together: one doorbell, and
// one completion of the last request, which in a reliable connection stands for all before it.
// Threads: as the module.
#pragma once
#include <infiniband/verbs.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace opal::btl::verbs {

class RequestList {
 public:
  static constexpr std::size_t kInlined = 128;  ///< bytes; the most of an inline request

  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
  [[nodiscard]] std::uint32_t count() const noexcept { return count_; }
  /// True: post the list before the next add().
  [[nodiscard]] bool full() const noexcept { return count_ == kMost || bytes_ >= kMostBytes; }
  /// Copies the request, and the bytes of an inline one.  Requires: not full(); one piece, or inline.
  void add(const ibv_send_wr& request) noexcept;
  /// The last request added.  Requires: not empty().
  [[nodiscard]] ibv_send_wr& last() noexcept { return requests_[count_ - 1]; }
  /// Links the requests and returns the first, for ibv_post_send(); call clear() afterwards.  Requires: not empty().
  [[nodiscard]] ibv_send_wr& linked() noexcept;
  void clear() noexcept { count_ = 0, bytes_ = 0; }

 private:
  static constexpr std::uint32_t kMost = 32;           // requests
  static constexpr std::size_t kMostBytes = 32 << 10;  // so that a device never waits long for large requests

  std::array<ibv_send_wr, kMost> requests_;
  std::array<ibv_sge, kMost> pieces_;
  std::array<std::array<std::byte, kInlined>, kMost> inlined_;
  std::uint32_t count_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace opal::btl::verbs
