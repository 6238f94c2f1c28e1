// SPDX-License-Identifier: Apache-2.0
// The module's progress(): completions, events, timers; and arming before a sleep.
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "opal/btl/shared/rdma_emulation.hpp"
#include "opal/btl/verbs/module.hpp"
#include "opal/core/log.hpp"

namespace opal::btl::verbs {
namespace {

constexpr int kBatch = 16;

/// Polling events costs system calls, polling completions does not: poll events every 256 rounds without a completion,
/// which take about 25 us.
constexpr std::uint32_t kRoundsPerEventPoll = 256;
/// Poll events also every 1024 rounds with completions: peers may connect or fail meanwhile.
constexpr std::uint32_t kBusyRoundsPerEventPoll = 1024;

/// Marks the wr_id of a receive, whose other bits are the buffer's index.  Sends are numbered by their owner.
constexpr std::uint64_t kReceive = std::uint64_t{1} << 63;

}  // namespace

void Module::on_completion(const ibv_wc& wc) noexcept {
  const auto found = queues_.find(wc.qp_num);
  Connection::Owner* const owner = found == queues_.end() ? nullptr : found->second;
  if ((wc.wr_id & kReceive) == 0) {
    if (owner != nullptr) owner->on_sent(wc);
    return;
  }
  Buffer& buffer = receive_buffers_.at(static_cast<std::uint32_t>(wc.wr_id));
  if (wc.status == IBV_WC_SUCCESS && owner != nullptr) {
    const std::size_t size = std::min<std::size_t>(wc.byte_len, receive_buffers_.buffer_size());
    owner->on_received({buffer.data, size});
  }
  post_receive(buffer);
}

void Module::post_receive(const Buffer& buffer) noexcept {
  const auto size = static_cast<std::uint32_t>(receive_buffers_.buffer_size());
  if (const auto posted = device_.post_receive(kReceive | buffer.index, buffer.data, size, buffer.key); !posted) {
    log::error("btl.verbs", "a receive buffer is lost: {}", opal::to_string(posted.error()));
  }
}

bool Module::poll_completions() noexcept {
  std::size_t early = 0;
  while (early < early_.size() && may_run()) on_completion(early_[early++]);
  early_.erase(early_.begin(), early_.begin() + static_cast<std::ptrdiff_t>(early));
  std::array<ibv_wc, kBatch> batch;
  bool any = early != 0;
  while (may_run()) {
    const int most = static_cast<int>(std::min(batch.size(), turns()));
    const int count = ibv_poll_cq(device_.completions(), most, batch.data());
    for (int i = 0; i < count; ++i) on_completion(batch[static_cast<std::size_t>(i)]);
    if (count > 0) {
      any = true;
      count_event();
    }
    if (count < most) return any;
  }
  return true;
}

void Module::collect_manager_events() noexcept {
  rdma_cm_event* raw = nullptr;
  while (rdma_get_cm_event(listener_.channel.get(), &raw) == 0) {
    CmEvent event;
    event.type = raw->event;
    event.status = raw->status;
    event.id = raw->id;
    event.peer_reads = raw->param.conn.initiator_depth;
    if (raw->param.conn.private_data != nullptr) {
      event.size = std::min<std::size_t>(raw->param.conn.private_data_len, event.data.size());
      std::copy_n(static_cast<const std::byte*>(raw->param.conn.private_data), event.size, event.data.begin());
    }
    rdma_ack_cm_event(raw);
    count_event();
    if (event.type == RDMA_CM_EVENT_CONNECT_REQUEST) {
      on_request(event);
    } else if (event.id == listener_.id.get() && event.type == RDMA_CM_EVENT_DEVICE_REMOVAL) {
      listener_.id.reset();  // the removal waits for it
      on_device_gone("the device is being removed");
    } else if (event.id->context != nullptr) {
      static_cast<Connection*>(event.id->context)->on_event(event);
    }
  }
}

void Module::on_device_event(const ibv_async_event& event) noexcept {
  const ibv_event_type type = event.event_type;
  const char* const what = ibv_event_type_str(type);
  switch (type) {
    case IBV_EVENT_DEVICE_FATAL:
    case IBV_EVENT_CQ_ERR:
    case IBV_EVENT_SRQ_ERR: return on_device_gone(what);
    case IBV_EVENT_PORT_ERR:
      // No id: the module is being closed, or the device is being removed.  Another port of the device is not ours.
      if (!listener_.id || event.element.port_num != listener_.id->port_num) break;
      log::warn("btl.verbs", "device {}: its port is down", device_.name());
      // The port may return before the device's retries are exhausted.  Peers that another rail reaches fail over now.
      for (const auto& [peer, endpoint] : living()) {
        if (has_other_rail_ && has_other_rail_(*endpoint)) endpoint->break_off({Errc::peer_gone, ENETDOWN, what});
      }
      break;
    case IBV_EVENT_PORT_ACTIVE: log::info("btl.verbs", "device {}: its port is up", device_.name()); break;
    default: log::debug("btl.verbs", "device {}: {}", device_.name(), what);
  }
}

void Module::on_device_gone(const char* what) noexcept {
  if (gone_.code != Errc{}) return;
  log::error("btl.verbs", "device {}: {}; it is not used any more", device_.name(), what);
  gone_ = {Errc::unreachable, EIO, what};
  for (const auto& [peer, endpoint] : living()) endpoint->break_off({Errc::peer_gone, EIO, what});
}

void Module::collect_device_events() noexcept {
  ibv_async_event event{};
  while (ibv_get_async_event(device_.context(), &event) == 0) {
    const ibv_async_event seen = event;
    ibv_ack_async_event(&event);
    count_event();
    on_device_event(seen);
  }
}

/// Acknowledges completion events.  Each disarms the queue; it counts as an event, so that the caller arms again
/// before a sleep.
void Module::drain_completion_events() noexcept {
  ibv_cq* queue = nullptr;
  void* context = nullptr;
  while (ibv_get_cq_event(device_.channel(), &queue, &context) == 0) {
    ibv_ack_cq_events(queue, 1);
    armed_ = false;
    count_event();
  }
}

void Module::collect_events() noexcept {
  if (armed_) drain_completion_events();
  collect_manager_events();
  collect_device_events();
  run_timers(now_ns());
}

std::size_t Module::receive(std::size_t budget) noexcept {
  begin_round(budget);
  if (memory_.some_stale()) [[unlikely]]
    memory_.revoke_stale();
  post_collected();
  ++rounds_;
  in_progress_ = true;
  const bool busy = poll_completions();
  idle_rounds_ = busy ? 0 : idle_rounds_ + 1;
  busy_rounds_ += busy ? 1 : 0;
  const bool due = busy ? busy_rounds_ % kBusyRoundsPerEventPoll == 0 : idle_rounds_ % kRoundsPerEventPoll == 0;
  if (due || poll_events_now_ || !leaving().empty()) {
    poll_events_now_ = false;
    collect_events();
  }
  if (armed_ && busy) {
    drain_completion_events();
    armed_ = false;
    count_event();
  }
  if (some_stalled_) {
    some_stalled_ = some_failed_ = false;
    resuming_.clear();
    for (const auto& [peer, endpoint] : living()) resuming_.push_back(endpoint.get());
    for (Endpoint* const endpoint : resuming_) {
      if (!endpoint->dead()) endpoint->resume();
    }
  }
  if (some_broken_ && !busy) {
    some_broken_ = false;
    end_broken();
  }
  const std::size_t sent = pipelined().progress();
  in_progress_ = false;
  post_collected();
  return event_count() + sent;
}

void Module::end_batch() noexcept {
  if (--batches_ == 0) post_collected();
}

void Module::post_collected() noexcept {
  while (!holders_.empty()) holders_.back()->post_collected();
}

bool Module::arm_wake_up() noexcept {
  if (!early_.empty() || some_broken_ || some_failed_) return false;
  if (memory_.some_stale()) return false;
  post_collected();
  if (!armed_) {
    if (ibv_req_notify_cq(device_.completions(), 0) != 0) return false;
    armed_ = true;
  }
  ibv_wc wc{};
  while (ibv_poll_cq(device_.completions(), 1, &wc) > 0) early_.push_back(wc);
  if (!early_.empty()) return false;
  epoll_event event{};
  waiting_.set_clock(first_wake_ns());
  if (::epoll_wait(waiting_.fd(), &event, 1, 0) != 0) {
    poll_events_now_ = true;
    return false;
  }
  return pipelined().idle() || pipelined().progress() == 0;
}

}  // namespace opal::btl::verbs
