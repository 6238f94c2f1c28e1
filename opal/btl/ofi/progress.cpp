// SPDX-License-Identifier: Apache-2.0
// The module's progress(): completions, processes of peers, timers; and arming before a sleep.
#include <poll.h>
#include <rdma/fi_errno.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "opal/btl/ofi/module.hpp"
#include "opal/core/clock.hpp"
#include "opal/core/log.hpp"

namespace opal::btl::ofi {
namespace {

constexpr std::size_t kBatch = 16;
/// The clock is read every 32 rounds without a completion, and every 1024 rounds with completions.
constexpr std::uint32_t kRoundsPerLook = 32;
constexpr std::uint32_t kBusyRoundsPerLook = 1024;
constexpr std::chrono::milliseconds kProcessInterval{10};  // between two looks at the peers' processes
constexpr std::chrono::milliseconds kRetryInterval{1};     // a sleeper wakes to send what found no room
/// A sleeper wakes that often if the provider has no descriptor to wait for.
constexpr std::chrono::milliseconds kPollInterval{1};

}  // namespace

void Module::on_sent(SendBuffer& buffer, const Error& why) noexcept {
  Endpoint* const endpoint = buffer.slot < slots_.size() ? slots_[buffer.slot] : nullptr;
  send_buffers_.give_back(buffer);
  if (endpoint != nullptr && endpoint->key() == buffer.key) return endpoint->on_sent(why);
  send_buffers_.came_back();  // of an endpoint that has ended
}

void Module::on_message(ByteSpan message) noexcept {
  wire::Frame frame{};
  if (!read_object(message, frame)) return drop_stray("a message without a frame");
  const ByteSpan rest = message.subspan(sizeof frame);
  if (frame.size > rest.size()) return drop_stray("a message that is too short");
  const ByteSpan payload = rest.first(frame.size);
  if (frame.slot == wire::kNoSlot) {
    if (frame.kind == wire::Kind::hello) return on_hello(payload);
    return drop_stray("a message to no endpoint");
  }
  Endpoint* const endpoint = frame.slot < slots_.size() ? slots_[frame.slot] : nullptr;
  if (endpoint == nullptr || endpoint->key() != frame.key) {
    log::debug("btl.ofi", "dropped a late message to an endpoint that has ended");
    return;
  }
  endpoint->on_frame(frame, payload);
}

void Module::on_completion(const fi_cq_data_entry& entry) noexcept {
  auto* const operation = static_cast<Operation*>(entry.op_context);
  if (operation == nullptr) return;
  switch (operation->kind) {
    case Operation::Kind::send: return on_sent(static_cast<SendBuffer&>(*operation), {});
    case Operation::Kind::one_sided: return one_sided_.on_done(*operation, {});
    case Operation::Kind::receive:
      if (const ByteSpan message = receive_buffers_.message_of(entry); !message.empty()) on_message(message);
      return receive_buffers_.recycle(entry);
  }
}

/// Takes the completion with an error that the queue has reported.
void Module::on_failure(fid_cq* queue) noexcept {
  fi_cq_err_entry entry{};
  if (fi_cq_readerr(queue, &entry, 0) < 0) return;
  auto* const operation = static_cast<Operation*>(entry.op_context);
  log::debug("btl.ofi", "completion with error {} ({}), provider's {}", entry.err, library().strerror(entry.err),
             entry.prov_errno);
  if (operation == nullptr) return;  // of an fi_inject(); the next ping fails, too
  const Error why{Errc::peer_gone, entry.err == 0 ? EIO : entry.err, "ofi: the provider reported an error",
                  static_cast<std::uint64_t>(entry.prov_errno)};
  switch (operation->kind) {
    case Operation::Kind::send: return on_sent(static_cast<SendBuffer&>(*operation), why);
    case Operation::Kind::one_sided: return one_sided_.on_done(*operation, why);
    case Operation::Kind::receive:
      return receive_buffers_.recycle({entry.op_context, entry.flags, 0, entry.buf, entry.data});
  }
}

bool Module::poll_messages() noexcept {
  std::size_t early = 0;
  while (early < early_.size() && turns_ != 0) on_completion(early_[early++]);
  early_.erase(early_.begin(), early_.begin() + static_cast<std::ptrdiff_t>(early));
  std::array<fi_cq_data_entry, kBatch> batch;
  bool any = early != 0;
  while (turns_ != 0) {
    const std::size_t most = std::min(batch.size(), turns_);
    const auto count = fi_cq_read(messages_.completions.get(), batch.data(), most);
    if (count == -FI_EAGAIN || count == 0) return any;
    any = true;
    ++events_;
    if (count < 0) {
      if (count != -FI_EAVAIL) return any;
      on_failure(messages_.completions.get());
      continue;
    }
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) on_completion(batch[i]);
    if (static_cast<std::size_t>(count) < most) return any;
  }
  return true;
}

/// Breaks off the endpoints of processes on this host that have ended.
void Module::check_processes() noexcept {
  std::vector<pollfd> processes;
  std::vector<Endpoint*> endpoints;
  const auto add_one = [&](Endpoint& endpoint) {
    if (endpoint.process() < 0 || endpoint.broken()) return;
    processes.push_back({endpoint.process(), POLLIN, 0});
    endpoints.push_back(&endpoint);
  };
  for (const auto& [peer, endpoint] : living()) add_one(*endpoint);
  for (const auto& endpoint : leaving()) add_one(*endpoint);
  if (processes.empty() || ::poll(processes.data(), processes.size(), 0) <= 0) return;
  for (std::size_t i = 0; i < processes.size(); ++i) {
    if (processes[i].revents == 0) continue;
    endpoints[i]->break_off({Errc::peer_gone, ECONNRESET, "ofi: the peer's process has ended"});
    waiting_.unwatch(endpoints[i]->process());
    ++events_;
  }
}

std::uint64_t Module::next_time() const noexcept {
  std::uint64_t next = first_wake_ns();
  const auto consider = [&](std::chrono::milliseconds interval) {
    const std::uint64_t at = time_after(interval);
    if (next == 0 || at < next) next = at;
  };
  if (some_stalled_ || !receive_buffers_.idle()) consider(kRetryInterval);
  if (messages_.wait_fd < 0 || one_sided_.must_poll()) consider(kPollInterval);
  return next;
}

void Module::look_at_clock() noexcept {
  const std::uint64_t now = now_ns();
  if (now >= look_ns_) {
    look_ns_ = time_after(kProcessInterval);
    check_processes();
  }
  run_timers(now);
}

std::size_t Module::receive(std::size_t budget) noexcept {
  turns_ = std::max<std::size_t>(budget, 1);
  events_ = 0;
  if (memory_.some_stale()) [[unlikely]]
    memory_.revoke_stale();
  const bool messages = poll_messages();
  const bool busy = one_sided_.poll() || messages;
  quiet_ = busy ? 0 : quiet_ + 1;
  busy_rounds_ += busy ? 1 : 0;
  const bool look = busy ? busy_rounds_ % kBusyRoundsPerLook == 0 : quiet_ % kRoundsPerLook == 1;
  if (look) look_at_clock();
  if (!receive_buffers_.idle()) [[unlikely]]
    receive_buffers_.post_idle();
  if (some_stalled_) [[unlikely]] {
    some_stalled_ = false;
    for (const auto& [peer, endpoint] : living()) endpoint->resume();
    for (const auto& endpoint : leaving()) endpoint->resume();
    one_sided_.resume();
  }
  if (!refused_.empty()) [[unlikely]]
    std::erase_if(refused_, [this](RdmaOperation* operation) { return emulate_now(*operation); });
  if (some_broken_ && quiet_ > 1) {
    some_broken_ = false;
    end_broken();
  }
  return events_ + (native_ ? pipelined_.progress() : 0);
}

bool Module::arm_wake_up() noexcept {
  if (!early_.empty() || some_broken_ || memory_.some_stale() || !refused_.empty()) return false;
  std::array<fi_cq_data_entry, kBatch> batch;
  const auto count = fi_cq_read(messages_.completions.get(), batch.data(), batch.size());
  if (count > 0) early_.assign(batch.begin(), batch.begin() + count);
  if (count != -FI_EAGAIN && count != 0) return false;
  fid* queue = &messages_.completions->fid;
  if (messages_.wait_fd >= 0 && fi_trywait(device_.fabric(), &queue, 1) != FI_SUCCESS) return false;
  if (!one_sided_.arm()) return false;
  waiting_.set_clock(next_time());
  epoll_event event{};
  if (::epoll_wait(waiting_.fd(), &event, 1, 0) != 0) {
    quiet_ = 0;  // the next progress() looks at timers and processes at once
    look_ns_ = 0;
    return false;
  }
  return !native_ || pipelined_.idle() || pipelined_.progress() == 0;
}

}  // namespace opal::btl::ofi
