// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/portals4/messages/receive_buffers.hpp"

#include <algorithm>
#include <memory>

#include "opal/core/log.hpp"

namespace opal::btl::portals4 {
namespace {

constexpr std::size_t kBuffers = 8;

}  // namespace

Result<ReceiveBuffers> ReceiveBuffers::create(std::size_t message, std::uint64_t memory) {
  const std::size_t each = align_up(std::max<std::size_t>(memory / kBuffers, 4 * message), kCacheLine);
  OPAL_TRY_ASSIGN(Mapping mapping, Mapping::anonymous(kBuffers * each, false));
  ReceiveBuffers buffers{std::move(mapping), each, message};
  for (std::size_t i = 0; i < kBuffers; ++i) buffers.buffers_.push_back({buffers.memory_.data() + i * each});
  for (Buffer& buffer : buffers.buffers_) buffers.idle_.push_back(&buffer);
  return buffers;
}

bool ReceiveBuffers::post_idle(const Interface& interface, const Objects& objects) noexcept {
  while (!idle_.empty()) {
    Buffer& buffer = *idle_.back();
    buffer.received = 0;
    ptl_me_t entry{};
    entry.start = buffer.data;
    entry.length = each_;
    entry.ct_handle = PTL_CT_NONE;
    entry.uid = PTL_UID_ANY;
    entry.options = PTL_ME_OP_PUT | PTL_ME_MANAGE_LOCAL | PTL_ME_EVENT_LINK_DISABLE | PTL_ME_EVENT_UNLINK_DISABLE;
    entry.match_id.phys.nid = PTL_NID_ANY;
    entry.match_id.phys.pid = PTL_PID_ANY;
    entry.ignore_bits = ~ptl_match_bits_t{0};
    entry.min_free = message_;
    const int result = interface.library().me_append(interface.handle(), objects.message_entry(), &entry,
                                                     PTL_PRIORITY_LIST, &buffer, &buffer.entry);
    if (result != PTL_OK) {
      log::once(log::Level::error, "btl.portals4 receive", "btl.portals4", "a receive buffer is not posted: {}",
                to_string(error_of(result, "PtlMEAppend")));
      return false;
    }
    idle_.pop_back();
  }
  return true;
}

bool ReceiveBuffers::recycle(const ptl_event_t& event) noexcept {
  auto& buffer = *static_cast<Buffer*>(event.user_ptr);
  buffer.received += event.mlength;
  if (each_ - buffer.received >= message_) return false;
  buffer.entry = PTL_INVALID_HANDLE;
  idle_.push_back(&buffer);
  return true;
}

bool ReceiveBuffers::unlink(const Interface& interface) noexcept {
  for (Buffer& buffer : buffers_) {
    // The interface may have unlinked a full buffer itself, which is an error here and does no harm.
    if (buffer.entry != PTL_INVALID_HANDLE && interface.unlink(buffer.entry) == PTL_IN_USE) {
      log::error("btl.portals4", "a message still arrives in the receive buffers; their memory is not freed");
      std::construct_at(&memory_);  // without the destructor of the old one, which would unmap it
      return false;
    }
    buffer.entry = PTL_INVALID_HANDLE;
  }
  return true;
}

}  // namespace opal::btl::portals4
