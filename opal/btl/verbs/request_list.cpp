// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/verbs/request_list.hpp"

#include <cstring>

namespace opal::btl::verbs {

void RequestList::add(const ibv_send_wr& request) noexcept {
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

ibv_send_wr& RequestList::linked() noexcept {
  for (std::uint32_t i = 0; i + 1 < count_; ++i) requests_[i].next = &requests_[i + 1];
  last().next = nullptr;
  return requests_[0];
}

}  // namespace opal::btl::verbs
