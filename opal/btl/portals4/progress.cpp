// SPDX-License-Identifier: Apache-2.0
// Messages over Portals: sends, events, and arming before a sleep.
#include <algorithm>
#include <cerrno>

#include "opal/btl/portals4/module.hpp"
#include "opal/core/clock.hpp"
#include "opal/core/log.hpp"

namespace opal::btl::portals4 {
namespace {

constexpr std::uint64_t kNoNumber = ~std::uint64_t{0};  // of a Hello, which belongs to no endpoint of the receiver

}  // namespace

// ---- Sending ----------------------------------------------------------------------------------------------------

Flow& Module::flow_of(std::uint32_t slot, std::uint32_t key) {
  while (flows_.size() <= slot) flows_.emplace_back(key);
  Flow& flow = flows_[slot];
  if (flow.key() == key) return flow;
  for (SendBuffer* const buffer : flow.give_up()) on_sent(*buffer, {});  // of an endpoint that has ended
  flow = Flow{key};
  return flow;
}

bool Module::post(SendBuffer& buffer, const Name& to, std::uint64_t number) noexcept {
  const int result =
      interface().library().put(objects().memory(), offset_of(buffer.data), buffer.size, PTL_ACK_REQ, to.process(),
                                to.message_entry, 0, 0, static_cast<Operation*>(&buffer), number);
  if (result == PTL_OK) {
    ++in_flight_;
    return true;
  }
  on_stalled();
  if (result != PTL_NO_SPACE) {
    log::once(log::Level::error, "btl.portals4 put", "btl.portals4", "a message is not sent: {}",
              to_string(error_of(result, "PtlPut")));
  }
  return false;
}

bool Module::transmit(rdm::Endpoint& to, rdm::SendBuffer& buffer, std::size_t size) noexcept {
  auto& own = static_cast<SendBuffer&>(buffer);
  rdm::wire::Frame frame{};
  (void)read_object(ByteSpan{own.data, sizeof frame}, frame);
  own.size = size;
  const bool numbered = frame.slot != rdm::wire::kNoSlot;
  Flow& flow = flow_of(to.slot(), to.key());
  if (numbered && flow.blocked()) {
    on_stalled();
    return false;
  }
  own.number = numbered ? flow.next_number() : kNoNumber;
  if (!post(own, name_of(to.address()), own.number)) return false;
  if (numbered) flow.on_posted();
  return true;
}

void Module::on_sent_event(SendBuffer& buffer, const ptl_event_t& event) noexcept {
  --in_flight_;
  const bool numbered = buffer.number != kNoNumber;
  const rdm::Endpoint* const endpoint = endpoint_of({buffer.slot, buffer.key, 0, 0, rdm::wire::Kind::message, 0});
  Flow* const flow = numbered && endpoint != nullptr ? &flow_of(buffer.slot, buffer.key) : nullptr;
  if (event.ni_fail_type == PTL_NI_PT_DISABLED && flow != nullptr) {
    flow->on_refused(buffer);
    return repeat(buffer.slot);
  }
  if (flow != nullptr) flow->on_ended();
  const std::uint32_t slot = buffer.slot;
  const bool no_room = event.ni_fail_type == PTL_NI_PT_DISABLED;  // a Hello, which is repeated in any case
  if (event.ni_fail_type == PTL_NI_OK || no_room) {
    on_sent(buffer, {});
  } else {
    on_sent(buffer, {Errc::peer_gone, ECONNRESET, "portals4: the interface does not reach the peer",
                     static_cast<std::uint64_t>(event.ni_fail_type)});
  }
  if (flow != nullptr) repeat(slot);
}

/// Sends refused messages of the endpoint in `slot` again, as far as their order allows.
void Module::repeat(std::uint32_t slot) noexcept {
  Flow& flow = flows_[slot];
  while (SendBuffer* const buffer = flow.to_repeat()) {
    const rdm::Endpoint* const endpoint = endpoint_of({slot, flow.key(), 0, 0, rdm::wire::Kind::message, 0});
    if (endpoint == nullptr) return;  // flow_of() gives them up
    if (!post(*buffer, name_of(endpoint->address()), buffer->number)) return;
    flow.on_repeated();
  }
}

void Module::resume_network() noexcept {
  for (std::uint32_t slot = 0; slot < flows_.size(); ++slot) repeat(slot);
}

// ---- Receiving --------------------------------------------------------------------------------------------------

void Module::on_put(ByteSpan message, std::uint64_t number) noexcept {
  rdm::wire::Frame frame{};
  if (!read_object(message, frame) || frame.slot == rdm::wire::kNoSlot) return on_message(message);
  rdm::Endpoint* const endpoint = endpoint_of(frame);
  if (endpoint == nullptr) return on_message(message);  // which drops it
  const std::uint32_t slot = endpoint->slot();
  const std::uint32_t key = endpoint->key();
  switch (flow_of(slot, key).on_arrival(number, message)) {
    case Flow::Arrival::early: return;
    case Flow::Arrival::wrong: return endpoint->on_protocol_error("a message with a wrong number", number);
    case Flow::Arrival::in_order: on_message(message);
  }
  // The message may have ended the endpoint.
  while (endpoint_of(frame) != nullptr) {
    const std::vector<std::byte> due = flow_of(slot, key).take_due();
    if (due.empty()) return;
    on_message(due);
  }
}

void Module::on_arrival(const ptl_event_t& event) noexcept {
  if (event.type == PTL_EVENT_PT_DISABLED) {
    disabled_ = true;
    return;
  }
  if (event.type != PTL_EVENT_PUT) return;
  const ByteSpan message = ReceiveBuffers::message_of(event);
  if (event.ni_fail_type != PTL_NI_OK) {
    log::debug("btl.portals4", "dropped a message whose sender ended amid it");
  } else if (message.empty()) {
    drop_stray("a message that is too long");
  } else {
    on_put(message, event.hdr_data);
  }
  if (receive_buffers_.recycle(event)) out_of_buffers_ = true;
}

// ---- Events -----------------------------------------------------------------------------------------------------

/// False: there is no event.
bool Module::next_event(WakeUp::Event& event) noexcept {
  if (!early_.empty()) {
    event = early_.front();
    early_.pop_front();
    return true;
  }
  if (wake_up_->armed()) return false;
  if (wake_up_->take(event)) return true;
  for (const bool arrival : {true, false}) {
    const int result = interface().library().eq_get(arrival ? objects().arrivals() : objects().ends(), &event.event);
    if (result == PTL_EQ_DROPPED && !arrival) {
      log::once(log::Level::error, "btl.portals4 lost", "btl.portals4", "events of own operations were lost");
    }
    if (result != PTL_OK && result != PTL_EQ_DROPPED) continue;
    event.arrival = arrival;
    return true;
  }
  return false;
}

void Module::on_event(const WakeUp::Event& event) noexcept {
  if (event.arrival) return on_arrival(event.event);
  auto* const operation = static_cast<Operation*>(event.event.user_ptr);
  if (operation == nullptr) return;
  if (operation->kind == Operation::Kind::one_sided) return one_sided_.on_event(*operation, event.event);
  on_sent_event(static_cast<SendBuffer&>(*operation), event.event);
}

bool Module::poll_network() noexcept {
  if (memory_.some_stale()) [[unlikely]]
    memory_.revoke_stale();
  bool any = false;
  WakeUp::Event event;
  while (may_run() && next_event(event)) {
    any = true;
    count_event();
    on_event(event);
    if (out_of_buffers_) [[unlikely]]
      out_of_buffers_ = !receive_buffers_.post_idle(interface(), objects());
  }
  if (disabled_ && !out_of_buffers_) [[unlikely]] {
    const int result = interface().library().pt_enable(interface().handle(), objects().message_entry());
    if (result == PTL_OK) disabled_ = false;
  }
  return any;
}

void Module::wait_for_ends() noexcept {
  wake_up_->disarm();
  const Deadline deadline = Deadline::after(rdm::kCloseTimeout);
  WakeUp::Event event;
  while (in_flight_ + one_sided_.in_flight() != 0 && !deadline.expired()) {
    if (next_event(event) && !event.arrival) on_event(event);
  }
  if (in_flight_ + one_sided_.in_flight() == 0) return;
  log::warn("btl.portals4", "{} operations have not ended; their memory descriptor and queues stay",
            in_flight_ + one_sided_.in_flight());
  objects_.abandon();
}

void Module::collect_events() noexcept {
  wake_up_->disarm();
  std::deque<WakeUp::Event> kept;
  const auto waits_for = [&](const WakeUp::Event& event) {
    const auto* const operation = static_cast<const Operation*>(event.event.user_ptr);
    return !event.arrival && operation != nullptr && operation->kind == Operation::Kind::one_sided &&
           OneSided::waits_for(*operation);
  };
  WakeUp::Event event;
  while (next_event(event)) {
    if (waits_for(event)) {
      on_event(event);
    } else {
      kept.push_back(event);
    }
  }
  early_ = std::move(kept);
}

bool Module::arm_network() noexcept {
  if (!early_.empty() || memory_.some_stale() || disabled_ || out_of_buffers_) return false;
  WakeUp::Event event;
  if (next_event(event)) {
    early_.push_back(event);
    return false;
  }
  return wake_up_->arm();
}

}  // namespace opal::btl::portals4
