// SPDX-License-Identifier: Apache-2.0
// The transport's progress(): messages, processes of peers, timers; and arming before a sleep.
#include <poll.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>

#include "opal/btl/shared/rdm/transport.hpp"
#include "opal/core/clock.hpp"
#include "opal/core/log.hpp"

namespace opal::btl::rdm {
namespace {

/// The clock is read every 32 rounds without a completion, and every 1024 rounds with completions.
constexpr std::uint32_t kRoundsPerEventPoll = 32;
constexpr std::uint32_t kBusyRoundsPerEventPoll = 1024;
constexpr std::chrono::milliseconds kProcessInterval{10};  // between two looks at the peers' processes
constexpr std::chrono::milliseconds kRetryInterval{1};     // a sleeper wakes to poll, or to send what found no room

}  // namespace

void Transport::on_sent(SendBuffer& buffer, const Error& why) noexcept {
  Endpoint* const endpoint = buffer.slot < slots_.size() ? slots_[buffer.slot] : nullptr;
  send_buffers_.give_back(buffer);
  if (endpoint != nullptr && endpoint->key() == buffer.key) return endpoint->on_sent(why);
  send_buffers_.came_back();  // of an endpoint that has ended
}

Endpoint* Transport::endpoint_of(const wire::Frame& frame) const noexcept {
  Endpoint* const endpoint = frame.slot < slots_.size() ? slots_[frame.slot] : nullptr;
  return endpoint != nullptr && endpoint->key() == frame.key ? endpoint : nullptr;
}

void Transport::on_message(ByteSpan message) noexcept {
  wire::Frame frame{};
  if (!read_object(message, frame)) return drop_stray("a message without a frame");
  const ByteSpan rest = message.subspan(sizeof frame);
  if (frame.size > rest.size()) return drop_stray("a message that is too short");
  const ByteSpan payload = rest.first(frame.size);
  if (frame.slot == wire::kNoSlot) {
    if (frame.kind == wire::Kind::hello) return on_hello(payload);
    return drop_stray("a message to no endpoint");
  }
  Endpoint* const endpoint = endpoint_of(frame);
  if (endpoint == nullptr) {
    log::debug(log_name(), "dropped a late message to an endpoint that has ended");
    return;
  }
  endpoint->on_frame(frame, payload);
}

/// Breaks off the endpoints of processes on this host that have ended.
void Transport::check_processes() noexcept {
  std::vector<pollfd> processes;
  std::vector<Endpoint*> endpoints;
  for_each_sending([&](Endpoint& endpoint) {
    if (endpoint.process() < 0 || endpoint.broken()) return;
    processes.push_back({endpoint.process(), POLLIN, 0});
    endpoints.push_back(&endpoint);
  });
  if (processes.empty() || ::poll(processes.data(), processes.size(), 0) <= 0) return;
  for (std::size_t i = 0; i < processes.size(); ++i) {
    if (processes[i].revents == 0) continue;
    endpoints[i]->break_off({Errc::peer_gone, ECONNRESET, "the peer's process has ended"});
    waiting_.unwatch(endpoints[i]->process());
    count_event();
  }
}

std::uint64_t Transport::next_time() const noexcept {
  const std::uint64_t timer = first_wake_ns();
  if (!some_stalled_ && !must_poll()) return timer;
  const std::uint64_t retry = time_after(kRetryInterval);
  return timer == 0 ? retry : std::min(timer, retry);
}

void Transport::look_at_clock() noexcept {
  const std::uint64_t now = now_ns();
  if (now >= look_ns_) {
    look_ns_ = time_after(kProcessInterval);
    check_processes();
  }
  run_timers(now);
}

std::size_t Transport::receive(std::size_t budget) noexcept {
  begin_round(budget);
  const bool busy = poll_network();
  idle_rounds_ = busy ? 0 : idle_rounds_ + 1;
  busy_rounds_ += busy ? 1 : 0;
  const bool look = busy ? busy_rounds_ % kBusyRoundsPerEventPoll == 0 : idle_rounds_ % kRoundsPerEventPoll == 1;
  if (look) look_at_clock();
  if (some_stalled_) [[unlikely]] {
    some_stalled_ = false;
    for_each_sending([](Endpoint& endpoint) { endpoint.resume(); });
    resume_network();
    post_pieces();
  }
  for (std::size_t left = refused_.size(); left != 0 && !refused_.empty(); --left) {
    RdmaOperation* const operation = refused_.front();
    refused_.erase(refused_.begin());  // first: a callback may disconnect, which drops others of the list
    if (!emulate(*operation)) refused_.push_back(operation);
  }
  if (some_broken_ && (idle_rounds_ > 1 || (look && now_ns() >= end_broken_ns_))) {
    some_broken_ = false;
    end_broken();
  }
  return event_count() + pipelined().progress();
}

bool Transport::arm_wake_up() noexcept {
  if (some_broken_ || !refused_.empty() || !arm_network()) return false;
  waiting_.set_clock(next_time());
  epoll_event event{};
  if (::epoll_wait(waiting_.fd(), &event, 1, 0) != 0) {
    idle_rounds_ = 0;  // the next progress() looks at timers and processes at once
    look_ns_ = 0;
    return false;
  }
  return pipelined().idle() || pipelined().progress() == 0;
}

}  // namespace opal::btl::rdm
