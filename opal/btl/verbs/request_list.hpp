// SPDX-License-Identifier: Apache-2.0
// opal/btl/verbs/request_list.hpp — send requests of one queue pair that wait to be posted together: one doorbell, and
// one completion of the last request, which in a reliable connection stands for all before it.
// Threads: as the module.
#pragma once
#include <infiniband/verbs.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace opal::btl::verbs {

class RequestList {
 public:
  static constexpr std::size_t kInlined = 128;  ///< bytes; the most of an inline request

  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
  [[nodiscard]] std::uint32_t count() const noexcept { return count_; }
  /// True: post the list before the next add().
  [[nodiscard]] bool full() const noexcept { return count_ == kMost || bytes_ >= kMostBytes; }
  /// Copies the request, and the bytes of an inline one.  Requires: not full(); one piece, or inline.
  void add(const ibv_send_wr& request) noexcept {
    ibv_send_wr& waiting = requests_[count_] = request;
    ibv_sge& piece = pieces_[count_] = request.sg_list[0];
    if ((request.send_flags & IBV_SEND_INLINE) != 0) {  // the caller's bytes are valid during its call alone
      std::array<std::byte, kInlined>& inlined = inlined_[count_];
      std::uint32_t size = 0;
      for (int i = 0; i < request.num_sge; ++i) {
        const ibv_sge& part = request.sg_list[i];
        std::memcpy(inlined.data() + size, reinterpret_cast<const void*>(part.addr), part.length);
        size += part.length;
      }
      piece = {reinterpret_cast<std::uint64_t>(inlined.data()), size, 0};
    }
    waiting.sg_list = &piece;
    waiting.num_sge = 1;
    bytes_ += piece.length;
    ++count_;
  }
  /// The last request added.  Requires: not empty().
  [[nodiscard]] ibv_send_wr& last() noexcept { return requests_[count_ - 1]; }
  /// Links the requests and returns the first, for ibv_post_send(); call clear() afterwards.  Requires: not empty().
  [[nodiscard]] ibv_send_wr& linked() noexcept {
    for (std::uint32_t i = 0; i + 1 < count_; ++i) requests_[i].next = &requests_[i + 1];
    last().next = nullptr;
    return requests_[0];
  }
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
