// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/verbs/connections/connection.hpp"

#include <algorithm>
#include <cerrno>

#include "opal/core/log.hpp"

namespace opal::btl::verbs {
namespace {

/// Credits ensure that each message finds a receive buffer; frames of control may have to wait for one (endpoint.hpp).
/// 7: without a limit, since a peer that is stopped for a while must not look dead.
constexpr std::uint8_t kReceiverNotReadyRetries = 7;
/// The encoding of 0.64 ms between two such repetitions.
constexpr std::uint8_t kReceiverNotReadyTimer = 12;

Error manager_error(const char* where) noexcept { return device_error(errno, where); }

}  // namespace

Connection::~Connection() {
  id_.reset();  // the connection manager notifies the peer
  if (pair_ != nullptr) {
    pair_.reset();
    device_.release_completions(settings_.shape.sends);
  }
}

std::uint8_t Connection::depth() const noexcept {
  constexpr int kMost = 16;
  return static_cast<std::uint8_t>(
      std::min({kMost, device_.attributes().max_qp_rd_atom, device_.attributes().max_qp_init_rd_atom}));
}

Result<void> Connection::dial(rdma_event_channel& channel, SocketAddress from, const SocketAddress& to,
                              ByteSpan request) {
  request_size_ = std::min(request.size(), request_.size());
  std::copy_n(request.begin(), request_size_, request_.begin());
  rdma_cm_id* id = nullptr;
  if (rdma_create_id(&channel, &id, this, RDMA_PS_TCP) != 0) return manager_error("rdma_create_id");
  id_.reset(id);
  from.set_port(0);
  sockaddr_storage own;
  sockaddr_storage theirs;
  (void)from.to(own);
  (void)to.to(theirs);
  if (rdma_resolve_addr(id, reinterpret_cast<sockaddr*>(&own), reinterpret_cast<sockaddr*>(&theirs),
                        settings_.timeout_ms) != 0) {
    return manager_error("rdma_resolve_addr");
  }
  return {};
}

/// Offers the peer the vendor's extensions of the queue pair (enhanced connection establishment, ECE), such as the
/// selective repeat of mlx5.  No effect where driver or kernel has none.
void Connection::offer_extensions() noexcept {
  ibv_ece extensions{};
  if (ibv_query_ece(pair_.get(), &extensions) == 0) (void)rdma_set_local_ece(id_.get(), &extensions);
}

/// Uses those that the peer offers too.  A device of another vendor refuses them, and the connection has none.
void Connection::accept_extensions() noexcept {
  ibv_ece extensions{};
  if (rdma_get_remote_ece(id_.get(), &extensions) == 0 && extensions.vendor_id != 0) {
    (void)ibv_set_ece(pair_.get(), &extensions);
  }
}

Result<void> Connection::make_pair(ibv_qp_state state) {
  OPAL_TRY_ASSIGN(pair_, device_.make_queue_pair(settings_.shape));
  if (state == IBV_QPS_RTS) accept_extensions();
  for (const ibv_qp_state next : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
    OPAL_TRY(move_to(next));
    if (next == state) break;
  }
  offer_extensions();
  return {};
}

Result<void> Connection::move_to(ibv_qp_state state) noexcept {
  ibv_qp_attr attributes{};
  attributes.qp_state = state;
  int mask = 0;
  if (rdma_init_qp_attr(id_.get(), &attributes, &mask) != 0) return manager_error("rdma_init_qp_attr");
  if ((mask & IBV_QP_ACCESS_FLAGS) != 0 && !settings_.remote_access) attributes.qp_access_flags = 0;
  if ((mask & IBV_QP_TIMEOUT) != 0) attributes.timeout = settings_.ack_timeout;
  if ((mask & IBV_QP_RETRY_CNT) != 0) attributes.retry_cnt = kRetryCount;
  if ((mask & IBV_QP_MIN_RNR_TIMER) != 0) attributes.min_rnr_timer = kReceiverNotReadyTimer;
  if ((mask & IBV_QP_RNR_RETRY) != 0) attributes.rnr_retry = kReceiverNotReadyRetries;
  return check(ibv_modify_qp(pair_.get(), &attributes, mask), "ibv_modify_qp", state);
}

Result<void> Connection::request_connection() noexcept {
  OPAL_TRY(make_pair(IBV_QPS_INIT));
  rdma_conn_param parameters{};
  parameters.private_data = request_.data();
  parameters.private_data_len = static_cast<std::uint8_t>(request_size_);
  parameters.responder_resources = parameters.initiator_depth = depth();
  parameters.flow_control = 1;
  parameters.retry_count = kRetryCount;
  parameters.rnr_retry_count = kReceiverNotReadyRetries;
  parameters.srq = 1;
  parameters.qp_num = pair_->qp_num;
  if (rdma_connect(id_.get(), &parameters) != 0) return manager_error("rdma_connect");
  return {};
}

Result<void> Connection::accept(CmId& id, std::uint8_t peer_reads, ByteSpan reply) {
  id_ = std::move(id);
  const auto accepted = [&]() -> Result<void> {
    OPAL_TRY(make_pair(IBV_QPS_RTS));
    rdma_conn_param parameters{};
    parameters.private_data = reply.data();
    parameters.private_data_len = static_cast<std::uint8_t>(reply.size());
    parameters.responder_resources = std::min(depth(), peer_reads);
    parameters.initiator_depth = depth();
    parameters.flow_control = 1;
    parameters.rnr_retry_count = kReceiverNotReadyRetries;
    parameters.srq = 1;
    parameters.qp_num = pair_->qp_num;
    if (rdma_accept(id_.get(), &parameters) != 0) return manager_error("rdma_accept");
    return {};
  }();
  if (accepted) {
    id_->context = this;
  } else {
    id = std::move(id_);
  }
  return accepted;
}

void Connection::step(const Result<void>& outcome) noexcept {
  if (!outcome) owner_->on_lost(outcome.error());
}

void Connection::on_event(const CmEvent& event) noexcept {
  log::debug("btl.verbs", "connection {}: {}, status {}", pair_ != nullptr ? pair_->qp_num : 0,
             rdma_event_str(event.type), event.status);
  if (owner_ == nullptr) return;
  switch (event.type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      return step(rdma_resolve_route(id_.get(), settings_.timeout_ms) == 0 ? Result<void>{}
                                                                           : manager_error("rdma_resolve_route"));
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
      if (device_.name() != ibv_get_device_name(id_->verbs->device)) {
        return step(Error{Errc::unreachable, 0, "verbs: the way to the peer leads over another device"});
      }
      return step(request_connection());
    case RDMA_CM_EVENT_CONNECT_RESPONSE: {
      accept_extensions();
      auto ready = move_to(IBV_QPS_RTR);
      if (ready) ready = move_to(IBV_QPS_RTS);
      if (ready && rdma_establish(id_.get()) != 0) ready = manager_error("rdma_establish");
      if (!ready) return step(ready);
      return owner_->on_connected(event.bytes());
    }
    case RDMA_CM_EVENT_ESTABLISHED:
      // InfiniBand and RoCE connectors have been connected by the response; iWARP has no such step.
      return owner_->on_connected(event.bytes());
    case RDMA_CM_EVENT_REJECTED: return owner_->on_refused(event.bytes());
    case RDMA_CM_EVENT_ADDR_ERROR:
      return owner_->on_lost({Errc::unreachable, -event.status, "verbs: no way to the peer's address"});
    case RDMA_CM_EVENT_ROUTE_ERROR:
      return owner_->on_lost({Errc::unreachable, -event.status, "verbs: no route to the peer"});
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_UNREACHABLE:
      return owner_->on_lost({Errc::unreachable, -event.status, "verbs: the peer does not answer"});
    case RDMA_CM_EVENT_DISCONNECTED:
      return owner_->on_lost({Errc::peer_gone, ECONNRESET, "verbs: the connection ended without a goodbye"});
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
      return owner_->on_lost({Errc::peer_gone, ENODEV, "verbs: the device has been removed"});
    default: return;  // RDMA_CM_EVENT_TIMEWAIT_EXIT and others without a meaning here
  }
}

unsigned Connection::mtu() const noexcept {
  ibv_qp_attr attributes{};
  ibv_qp_init_attr initial{};
  if (pair_ == nullptr || ibv_query_qp(pair_.get(), &attributes, IBV_QP_PATH_MTU, &initial) != 0) return 0;
  return attributes.path_mtu == 0 ? 0 : 128U << attributes.path_mtu;
}

void Connection::stop() noexcept {
  if (pair_ == nullptr) return;
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  (void)ibv_modify_qp(pair_.get(), &attributes, IBV_QP_STATE);
}

}  // namespace opal::btl::verbs
