// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/shared/rdm/send_buffers.hpp"

#include <algorithm>

#include "opal/core/log.hpp"

namespace opal::btl::rdm {

namespace {
constexpr std::uint32_t kFirst = 32;  // buffers
}

void SendBuffers::grow() noexcept {
  if (made_ >= most_) return;
  const std::uint32_t more = std::min(std::max(made_, kFirst), most_ - made_);
  auto memory = Mapping::anonymous(more * size_, false);
  if (!memory) return;
  free_.reserve(made_ + more);
  if (const auto made = make_(*memory, more, free_); !made) {
    log::info("btl", "no more than {} buffers for sending: {}", made_, to_string(made.error()));
    most_ = made_;
    return;
  }
  std::byte* at = memory->data();
  for (SendBuffer* const buffer : free_) {
    buffer->data = at;
    at += size_;
  }
  made_ += more;
  slabs_.push_back(std::move(*memory));
}

}  // namespace opal::btl::rdm
