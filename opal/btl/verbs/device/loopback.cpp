// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/verbs/device/loopback.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "opal/core/clock.hpp"

namespace opal::btl::verbs {
namespace {

constexpr int kDepth = 4;
constexpr std::chrono::seconds kTimeout{2};

/// The way from a port to itself.
Result<ibv_ah_attr> way_to_itself(ibv_context* context, std::uint8_t port, const ibv_port_attr& attributes,
                                  const std::array<std::uint8_t, 16>& ip) {
  ibv_ah_attr way{};
  way.port_num = port;
  way.dlid = attributes.lid;
  if (attributes.link_layer == IBV_LINK_LAYER_INFINIBAND) return way;
  way.is_global = 1;
  way.grh.hop_limit = 1;
  bool found = false;
  for (int i = 0; i < std::min(attributes.gid_tbl_len, 256); ++i) {  // version 2 of RoCE stands behind version 1
    ibv_gid gid{};
    if (ibv_query_gid(context, port, i, &gid) != 0 || !std::equal(ip.begin(), ip.end(), gid.raw)) continue;
    way.grh.dgid = gid;
    way.grh.sgid_index = static_cast<std::uint8_t>(i);
    found = true;
  }
  if (!found) return Error{Errc::not_supported, 0, "verbs: no GID of the module's address", port};
  return way;
}

Result<void> join(ibv_qp* pair, std::uint32_t peer, const ibv_ah_attr& way, ibv_mtu mtu) noexcept {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = way.port_num;
  attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  attributes.path_mtu = mtu;
  attributes.dest_qp_num = peer;
  attributes.max_dest_rd_atomic = attributes.max_rd_atomic = 1;
  attributes.min_rnr_timer = 12;
  attributes.ah_attr = way;
  attributes.timeout = 14;
  attributes.retry_cnt = attributes.rnr_retry = 6;
  const auto move = [&](ibv_qp_state state, int mask) -> Result<void> {
    attributes.qp_state = state;
    const int code = ibv_modify_qp(pair, &attributes, IBV_QP_STATE | mask);
    return code == 0 ? Result<void>{} : device_error(code, "ibv_modify_qp(loopback)", state);
  };
  OPAL_TRY(move(IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
  OPAL_TRY(move(IBV_QPS_RTR, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                                 IBV_QP_MIN_RNR_TIMER));
  return move(IBV_QPS_RTS,
              IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

}  // namespace

Result<Loopback> Loopback::open(const Device& device, std::uint8_t port, const std::array<std::uint8_t, 16>& ip) {
  ibv_port_attr attributes{};
  if (const int code = ibv_query_port(device.context(), port, &attributes); code != 0) {
    return device_error(code, "ibv_query_port", port);
  }
  OPAL_TRY_ASSIGN(const ibv_ah_attr way, way_to_itself(device.context(), port, attributes, ip));
  Loopback loopback;
  loopback.completions_.reset(ibv_create_cq(device.context(), 2 * kDepth, nullptr, nullptr, 0));
  if (loopback.completions_ == nullptr) return device_error(errno, "ibv_create_cq(loopback)");
  for (QueuePair& pair : loopback.pairs_) {
    ibv_qp_init_attr initial{};
    initial.send_cq = initial.recv_cq = loopback.completions_.get();
    initial.qp_type = IBV_QPT_RC;
    initial.cap = {kDepth, kDepth, 1, 1, 0};
    pair.reset(ibv_create_qp(device.domain(), &initial));
    if (pair == nullptr) return device_error(errno, "ibv_create_qp(loopback)");
  }
  for (std::size_t i = 0; i < 2; ++i) {
    OPAL_TRY(join(loopback.pairs_[i].get(), loopback.pairs_[1 - i]->qp_num, way, attributes.active_mtu));
  }
  return loopback;
}

Result<void> Loopback::move(ibv_wr_opcode opcode, std::byte* local, std::uint32_t lkey, const std::byte* remote,
                            std::uint32_t rkey, std::uint32_t size) noexcept {
  ibv_sge piece{reinterpret_cast<std::uint64_t>(local), size, lkey};
  ibv_send_wr request{};
  request.sg_list = &piece;
  request.num_sge = 1;
  request.opcode = opcode;
  request.send_flags = IBV_SEND_SIGNALED;
  request.wr.rdma.remote_addr = reinterpret_cast<std::uint64_t>(remote);
  request.wr.rdma.rkey = rkey;
  ibv_send_wr* bad = nullptr;
  if (const int code = ibv_post_send(pairs_[0].get(), &request, &bad); code != 0) {
    return device_error(code, "ibv_post_send(loopback)");
  }
  const Deadline deadline = Deadline::after(kTimeout);
  ibv_wc end{};
  int count = 0;
  while ((count = ibv_poll_cq(completions_.get(), 1, &end)) == 0) {
    if (deadline.expired()) return Error{Errc::timed_out, 0, "loopback: no completion", size};
  }
  if (count < 0) return Error{Errc::os, 0, "ibv_poll_cq(loopback)"};
  if (end.status != IBV_WC_SUCCESS) return Error{Errc::internal, 0, ibv_wc_status_str(end.status), end.vendor_err};
  return {};
}

}  // namespace opal::btl::verbs
