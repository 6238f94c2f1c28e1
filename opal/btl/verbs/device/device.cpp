// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/verbs/device/device.hpp"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

namespace opal::btl::verbs {
namespace {

constexpr int kFirstCompletions = 1024;
constexpr int kFixedCompletions = 32 * 1024;  // size of a completion queue that cannot be resized
constexpr std::uint32_t kLeastInlined = 32;   // bytes; smaller inline sends are not worth requesting

Result<DeviceContext> open_context(std::string_view name) {
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  if (list == nullptr) return device_error(errno, "ibv_get_device_list");
  const std::unique_ptr<ibv_device*, Destroyer<&ibv_free_device_list>> owner{list};
  for (int i = 0; i < count; ++i) {
    if (name != ibv_get_device_name(list[i])) continue;
    DeviceContext context{ibv_open_device(list[i])};
    if (context == nullptr) return device_error(errno, "ibv_open_device");
    return context;
  }
  return Error{Errc::not_supported, 0, "verbs: the device has gone"};
}

bool set_nonblocking(int fd) noexcept {
  const int flags = ::fcntl(fd, F_GETFL);
  return flags >= 0 && ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0;
}

}  // namespace

Result<Device> Device::open(const char* name, const Config& config) {
  Device device;
  OPAL_TRY_ASSIGN(device.context_, open_context(name));
  ibv_context* const context = device.context();
  OPAL_TRY(check(ibv_query_device(context, &device.attributes_), "ibv_query_device"));
  device.domain_.reset(ibv_alloc_pd(context));
  if (device.domain_ == nullptr) return device_error(errno, "ibv_alloc_pd");
  device.channel_.reset(ibv_create_comp_channel(context));
  if (device.channel_ == nullptr) return device_error(errno, "ibv_create_comp_channel");
  if (!set_nonblocking(device.channel_->fd) || !set_nonblocking(context->async_fd)) {
    return Error{Errc::os, errno, "fcntl(O_NONBLOCK, verbs)"};
  }
  OPAL_TRY(device.make_completions());
  device.receive_limit_ =
      std::min<std::uint32_t>(config.receive_buffers, static_cast<std::uint32_t>(device.attributes_.max_srq_wr));
  ibv_srq_init_attr shared{};
  shared.attr.max_wr = device.receive_limit_;
  shared.attr.max_sge = 1;
  device.receives_.reset(ibv_create_srq(device.domain(), &shared));
  if (device.receives_ == nullptr) return device_error(errno, "ibv_create_srq", device.receive_limit_);
  return device;
}

Result<void> Device::make_completions() {
  for (const int wanted : {kFirstCompletions, kFixedCompletions}) {
    const int depth = std::min(wanted, attributes_.max_cqe);
    completions_.reset(ibv_create_cq(context(), depth, nullptr, channel(), 0));
    if (completions_ == nullptr) return device_error(errno, "ibv_create_cq", static_cast<std::uint64_t>(depth));
    if (ibv_resize_cq(completions(), depth) == 0) break;
  }
  return {};
}

Result<void> Device::reserve_completions(std::uint32_t count) {
  const std::uint64_t wanted = std::uint64_t{promised_} + count;
  if (wanted > static_cast<std::uint64_t>(completions_->cqe)) {
    const auto most = static_cast<std::uint64_t>(attributes_.max_cqe);
    if (wanted > most)
      return Error{Errc::limit_reached, 0, "verbs: the device's largest completion queue is full", most};
    const auto depth = static_cast<int>(std::min(most, wanted * 2));
    OPAL_TRY(check(ibv_resize_cq(completions(), depth), "ibv_resize_cq", static_cast<std::uint64_t>(depth)));
  }
  promised_ += count;
  return {};
}

Result<QueuePair> Device::make_queue_pair(QueueShape& shape) {
  OPAL_TRY(reserve_completions(shape.sends));
  ibv_qp_init_attr attributes{};
  attributes.send_cq = attributes.recv_cq = completions();
  attributes.srq = receives_.get();
  attributes.qp_type = IBV_QPT_RC;
  attributes.cap.max_send_wr = shape.sends;
  attributes.cap.max_send_sge = 3;  // frame, header, payload
  attributes.cap.max_inline_data = shape.inlined;
  QueuePair pair{ibv_create_qp(domain(), &attributes)};
  while (pair == nullptr && shape.inlined != 0) {  // some devices refuse instead of reducing the size
    shape.inlined = shape.inlined > kLeastInlined ? shape.inlined / 2 : 0;
    attributes.cap.max_inline_data = shape.inlined;
    pair.reset(ibv_create_qp(domain(), &attributes));
  }
  if (pair == nullptr) {
    const int code = errno;
    release_completions(shape.sends);
    return device_error(code, "ibv_create_qp", shape.sends);
  }
  shape.inlined = std::min(shape.inlined, attributes.cap.max_inline_data);
  return pair;
}

Result<void> Device::post_receive(std::uint64_t id, std::byte* buffer, std::uint32_t size, std::uint32_t key) noexcept {
  ibv_sge piece{reinterpret_cast<std::uint64_t>(buffer), size, key};
  ibv_recv_wr request{};
  request.wr_id = id;
  request.sg_list = &piece;
  request.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  return check(ibv_post_srq_recv(receives_.get(), &request, &bad), "ibv_post_srq_recv");
}

}  // namespace opal::btl::verbs
