// SPDX-License-Identifier: Apache-2.0
// librdmacm of the device double, and the network interface of its device.
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>

#include <cstring>
#include <deque>
#include <memory>
#include <vector>

#include "tests/btl/verbs/device_double_state.hpp"

namespace opal::test::verbs_double {
namespace {

constexpr const char* kAddress = "10.99.0.1";

struct Id : rdma_cm_id {
  std::uint16_t port = 0;
  bool listens = false;
  bool accepted = false;  // or connected
  Id* other = nullptr;
  std::uint32_t pair = 0;
  ibv_ece own{};     // extensions to offer
  ibv_ece theirs{};  // offered by the peer
};

struct Event : rdma_cm_event {
  std::vector<std::byte> data;
};

struct ManagerChannel : rdma_event_channel {
  Signal signal;
  std::deque<std::unique_ptr<Event>> events;
};

struct Manager {
  std::map<std::uint16_t, Id*> listeners;  // by port
  std::uint16_t next_port = 20000;
};

Manager& manager() {
  static auto* const one = new Manager;
  return *one;
}

Id& id_of(rdma_cm_id* id) { return *static_cast<Id*>(id); }

void notify(Id& id, rdma_cm_event_type type, const rdma_conn_param* parameters, int status = 0,
            Id* listener = nullptr) {
  auto event = std::make_unique<Event>();
  static_cast<rdma_cm_event&>(*event) = {};
  event->id = &id;
  event->listen_id = listener;
  event->event = type;
  event->status = status;
  if (parameters != nullptr) {
    event->param.conn = *parameters;
    const auto* const bytes = static_cast<const std::byte*>(parameters->private_data);
    event->data.assign(bytes, bytes + parameters->private_data_len);
    event->param.conn.private_data = event->data.data();
  }
  auto& channel = *static_cast<ManagerChannel*>(id.channel);
  channel.events.push_back(std::move(event));
  channel.signal.set(true);
}

rdma_conn_param with_data(const void* data, std::uint8_t size) {
  rdma_conn_param parameters{};
  parameters.private_data = data;
  parameters.private_data_len = size;
  return parameters;
}

ibv_context& manager_context() {
  static ibv_context context = [] {
    ibv_context made{};
    made.device = &device().device;
    return made;
  }();
  return context;
}

}  // namespace
}  // namespace opal::test::verbs_double

using namespace opal::test::verbs_double;  // NOLINT(google-build-using-namespace): for the C functions below

// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name)
#pragma GCC visibility push(default)  // libopal finds them in the program
extern "C" {

// ---- The network interface --------------------------------------------------------------------------------------

int getifaddrs(ifaddrs** list) noexcept {
  struct Interface : ifaddrs {
    sockaddr_in address{}, mask{};
  };
  auto* const one = new Interface{};
  one->address.sin_family = one->mask.sin_family = AF_INET;
  ::inet_pton(AF_INET, kAddress, &one->address.sin_addr);
  ::inet_pton(AF_INET, "255.255.255.0", &one->mask.sin_addr);
  one->ifa_name = const_cast<char*>(kName);
  one->ifa_flags = IFF_UP | IFF_RUNNING;
  one->ifa_addr = reinterpret_cast<sockaddr*>(&one->address);
  one->ifa_netmask = reinterpret_cast<sockaddr*>(&one->mask);
  *list = one;
  return 0;
}
void freeifaddrs(ifaddrs* list) noexcept {
  struct Interface : ifaddrs {
    sockaddr_in address{}, mask{};
  };
  delete static_cast<Interface*>(list);
}

// ---- librdmacm --------------------------------------------------------------------------------------------------

rdma_event_channel* rdma_create_event_channel() {
  auto* const channel = new ManagerChannel;
  channel->fd = channel->signal.fd();
  return channel;
}
void rdma_destroy_event_channel(rdma_event_channel* channel) { delete static_cast<ManagerChannel*>(channel); }
int rdma_get_cm_event(rdma_event_channel* from, rdma_cm_event** event) {
  const Locked locked;
  ++device().counts.manager_looks;
  std::unique_ptr<Event> taken;
  if (take_event(*static_cast<ManagerChannel*>(from), taken) != 0) return -1;
  *event = taken.release();
  return 0;
}
int rdma_ack_cm_event(rdma_cm_event* event) {
  delete static_cast<Event*>(event);
  return 0;
}
const char* rdma_event_str(rdma_cm_event_type) { return "event"; }

int rdma_create_id(rdma_event_channel* channel, rdma_cm_id** made, void* context, rdma_port_space space) {
  auto* const id = new Id;
  static_cast<rdma_cm_id&>(*id) = {};
  id->channel = channel;
  id->context = context;
  id->ps = space;
  *made = id;
  return 0;
}
int rdma_destroy_id(rdma_cm_id* destroyed) {
  const Locked locked;
  Id* const id = &id_of(destroyed);
  if (id->listens) manager().listeners.erase(id->port);
  if (id->other != nullptr) {
    id->other->other = nullptr;
    notify(*id->other, id->accepted ? RDMA_CM_EVENT_DISCONNECTED : RDMA_CM_EVENT_REJECTED, nullptr);
  }
  std::erase_if(static_cast<ManagerChannel*>(id->channel)->events,
                [&](const std::unique_ptr<Event>& event) { return event->id == id; });
  delete id;
  return 0;
}
int rdma_bind_addr(rdma_cm_id* id, sockaddr* address) {
  const Locked locked;
  sockaddr_in own;
  std::memcpy(&own, address, sizeof own);
  if (own.sin_port == 0) own.sin_port = htons(++manager().next_port);
  id_of(id).port = ntohs(own.sin_port);
  std::memcpy(&id->route.addr.src_addr, &own, sizeof own);
  id->verbs = &manager_context();
  id->port_num = 1;
  return 0;
}
int rdma_listen(rdma_cm_id* id, int) {
  const Locked locked;
  id_of(id).listens = true;
  manager().listeners[id_of(id).port] = &id_of(id);
  return 0;
}
int rdma_resolve_addr(rdma_cm_id* id, sockaddr*, sockaddr* to, int) {
  const Locked locked;
  sockaddr_in peer{};
  if (to->sa_family == AF_INET) {
    std::memcpy(&peer, to, sizeof peer);
  } else {
    sockaddr_in6 six;
    std::memcpy(&six, to, sizeof six);
    peer.sin_port = six.sin6_port;
  }
  id_of(id).port = ntohs(peer.sin_port);
  id->verbs = &manager_context();
  id->port_num = 1;
  notify(id_of(id), RDMA_CM_EVENT_ADDR_RESOLVED, nullptr);
  return 0;
}
int rdma_resolve_route(rdma_cm_id* id, int) {
  const Locked locked;
  notify(id_of(id), RDMA_CM_EVENT_ROUTE_RESOLVED, nullptr);
  return 0;
}
int rdma_connect(rdma_cm_id* from, rdma_conn_param* parameters) {
  const Locked locked;
  Id& id = id_of(from);
  const auto listener = manager().listeners.find(id.port);
  if (listener == manager().listeners.end()) {
    notify(id, RDMA_CM_EVENT_REJECTED, nullptr, ECONNREFUSED);
    return 0;
  }
  rdma_cm_id* made = nullptr;
  rdma_create_id(listener->second->channel, &made, listener->second->context, RDMA_PS_TCP);
  made->verbs = &manager_context();
  made->port_num = 1;
  id.pair = parameters->qp_num;
  id.other = &id_of(made);
  id_of(made).other = &id;
  id_of(made).theirs = id.own;
  notify(id_of(made), RDMA_CM_EVENT_CONNECT_REQUEST, parameters, 0, listener->second);
  return 0;
}
int rdma_accept(rdma_cm_id* from, rdma_conn_param* parameters) {
  const Locked locked;
  Id& id = id_of(from);
  if (id.other == nullptr) {
    errno = ENOTCONN;
    return -1;
  }
  id.pair = parameters->qp_num;
  id.accepted = id.other->accepted = true;
  id.other->theirs = id.own;
  notify(*id.other, RDMA_CM_EVENT_CONNECT_RESPONSE, parameters);
  return 0;
}
int rdma_reject(rdma_cm_id* from, const void* data, std::uint8_t size) {
  const Locked locked;
  Id& id = id_of(from);
  if (id.other == nullptr) return 0;
  const rdma_conn_param parameters = with_data(data, size);
  notify(*id.other, RDMA_CM_EVENT_REJECTED, &parameters, ECONNREFUSED);
  id.other->other = nullptr;
  id.other = nullptr;
  return 0;
}
int rdma_set_local_ece(rdma_cm_id* id, ibv_ece* extensions) {
  const Locked locked;
  id_of(id).own = *extensions;
  return 0;
}
int rdma_get_remote_ece(rdma_cm_id* id, ibv_ece* extensions) {
  const Locked locked;
  *extensions = id_of(id).theirs;
  return 0;
}
int rdma_establish(rdma_cm_id* from) {
  const Locked locked;
  Id& id = id_of(from);
  if (id.other == nullptr) {
    errno = ENOTCONN;
    return -1;
  }
  notify(*id.other, RDMA_CM_EVENT_ESTABLISHED, nullptr);
  return 0;
}
int rdma_init_qp_attr(rdma_cm_id* from, ibv_qp_attr* attributes, int* mask) {
  const Locked locked;
  const Id& id = id_of(from);
  *mask = IBV_QP_STATE;
  if (attributes->qp_state == IBV_QPS_INIT) {
    *mask |= IBV_QP_ACCESS_FLAGS;
    attributes->qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
  } else if (attributes->qp_state == IBV_QPS_RTR) {
    if (id.other == nullptr) {
      errno = ENOTCONN;
      return -1;
    }
    *mask |= IBV_QP_DEST_QPN;
    attributes->dest_qp_num = id.other->pair;
  }
  return 0;
}

}  // extern "C"
#pragma GCC visibility pop
// NOLINTEND(readability-inconsistent-declaration-parameter-name)
