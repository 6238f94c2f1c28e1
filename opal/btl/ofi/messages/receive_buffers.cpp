// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/ofi/messages/receive_buffers.hpp"

#include <rdma/fi_errno.h>
#include <sys/uio.h>

#include <algorithm>

#include "opal/core/log.hpp"

namespace opal::btl::ofi {
namespace {

constexpr std::size_t kMulti = 8;  // buffers with FI_MULTI_RECV

}  // namespace

Result<ReceiveBuffers> ReceiveBuffers::create(const Device& device, const FabricEndpoint& fabric, std::size_t message,
                                              std::uint64_t memory) {
  bool multi = device.has(FI_MULTI_RECV);
  if (multi) {
    const int result =
        fi_setopt(&fabric.endpoint->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &message, sizeof message);
    if (result != 0) {
      log::debug("btl.ofi", "one buffer per message: {}", to_string(error_of(result, "fi_setopt(FI_MULTI_RECV)")));
      multi = false;
    }
  }
  const std::size_t size = align_up(message, kCacheLine);
  const std::size_t each = multi ? std::max(align_up(memory / kMulti, kCacheLine), 4 * size) : size;
  const std::size_t count = multi ? kMulti : std::clamp<std::size_t>(device.info().rx_attr->size, 8, 512);
  OPAL_TRY_ASSIGN(Mapping mapping, Mapping::anonymous(count * each, false));
  OPAL_TRY_ASSIGN(MemoryRegion region, device.register_buffers(mapping));
  ReceiveBuffers buffers{fabric, std::move(mapping), std::move(region), each, multi};
  for (std::size_t i = 0; i < count; ++i) buffers.buffers_.emplace_back(buffers.memory_.data() + i * each);
  for (Buffer& buffer : buffers.buffers_) buffers.unposted_.push_back(&buffer);
  return buffers;
}

ReceiveBuffers::ReceiveBuffers(const FabricEndpoint& fabric, Mapping memory, MemoryRegion region, std::size_t each,
                               bool multi) noexcept
    : endpoint_(fabric.endpoint.get()),
      memory_(std::move(memory)),
      region_(std::move(region)),
      each_(each),
      multi_(multi) {}

bool ReceiveBuffers::post(Buffer& buffer) noexcept {
  void* descriptor = region_ == nullptr ? nullptr : fi_mr_desc(region_.get());
  iovec where{buffer.data, each_};
  fi_msg message{};
  message.msg_iov = &where;
  message.desc = &descriptor;
  message.iov_count = 1;
  message.addr = FI_ADDR_UNSPEC;
  message.context = static_cast<Operation*>(&buffer);
  const auto result = fi_recvmsg(endpoint_, &message, FI_COMPLETION | (multi_ ? FI_MULTI_RECV : 0));
  if (result != 0 && result != -FI_EAGAIN) {
    log::once(log::Level::error, "btl.ofi receive", "btl.ofi", "a receive buffer is not posted: {}",
              to_string(error_of(result, "fi_recvmsg")));
  }
  return result == 0;
}

std::size_t ReceiveBuffers::post_missing() noexcept {
  std::size_t posted = 0;
  while (!unposted_.empty() && post(*unposted_.back())) {
    unposted_.pop_back();
    ++posted;
  }
  return posted;
}

ByteSpan ReceiveBuffers::message_of(const fi_cq_data_entry& entry) const noexcept {
  if ((entry.flags & FI_RECV) == 0 || entry.len == 0) return {};
  const auto& buffer = static_cast<const Buffer&>(*static_cast<Operation*>(entry.op_context));
  const auto* const start = multi_ ? static_cast<const std::byte*>(entry.buf) : buffer.data;
  return {start, std::min(entry.len, each_)};
}

void ReceiveBuffers::recycle(const fi_cq_data_entry& entry) noexcept {
  if (multi_ && (entry.flags & FI_MULTI_RECV) == 0) return;
  auto& buffer = static_cast<Buffer&>(*static_cast<Operation*>(entry.op_context));
  if (!post(buffer)) unposted_.push_back(&buffer);
}

}  // namespace opal::btl::ofi
