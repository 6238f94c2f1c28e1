// SPDX-License-Identifier: Apache-2.0
#include "tests/portals4/outgoing.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace opal::test::portals4 {

void Outgoing::advance() {
  if (!socket_.is_valid() && (unsent_.empty() || !connect())) return;
  const Transfer sent = send_requests();
  const Transfer received = receive_responses();
  // What the target has answered before its end counts: responses are read first.
  if (received == Transfer::ended || (sent != Transfer::complete && sent != Transfer::again)) fail_all();
}

bool Outgoing::connect() {
  Descriptor socket = Descriptor::stream_socket();
  const Transfer result =
      target_.phys.nid == kNid && socket.is_valid() ? connect_to(socket, target_.phys.pid) : Transfer::ended;
  if (result == Transfer::complete) {
    socket_ = std::move(socket);
    return true;
  }
  if (result != Transfer::again) fail_all();
  return false;
}

Transfer Outgoing::send_requests() {
  while (!unsent_.empty()) {
    Operation& operation = unsent_.front();
    const Transfer result = send(socket_, reinterpret_cast<const std::byte*>(&operation.request), sizeof(wire::Request),
                                 operation.outgoing, wire::body_of(operation.request), sent_);
    if (result != Transfer::complete) return result;
    interface_.report_sent(operation, PTL_NI_OK);
    if (wire::has_response(operation.request)) awaited_.push_back(std::move(operation));
    unsent_.pop_front();
    sent_ = 0;
  }
  return Transfer::complete;
}

Transfer Outgoing::receive_responses() {
  while (true) {
    Transfer result = receive(socket_, reinterpret_cast<std::byte*>(&response_), sizeof response_, received_);
    if (result != Transfer::complete) return result;
    if (!is_acceptable()) return Transfer::ended;
    Operation& operation = awaited_.front();
    result = receive_body(operation);
    if (result != Transfer::complete) return result;
    const auto fail = is_discarding_ ? ptl_ni_fail_t{PTL_NI_SEGV} : static_cast<ptl_ni_fail_t>(response_.fail);
    interface_.report_response(operation, fail, response_.mlength, response_.remote_offset);
    awaited_.pop_front();
    received_ = body_done_ = 0;
    is_discarding_ = false;
  }
}

/// A process that does not keep to the format is taken for dead.
bool Outgoing::is_acceptable() const {
  if (response_.magic != wire::kResponseMagic || awaited_.empty()) return false;
  const wire::Request& request = awaited_.front().request;
  if (response_.id != request.id || response_.fail > PTL_NI_SEGV || response_.mlength > request.length) return false;
  const bool has_body = response_.fail == PTL_NI_OK && awaited_.front().destination != nullptr;
  return response_.body == (has_body ? response_.mlength : 0);
}

Transfer Outgoing::receive_body(Operation& operation) {
  if (!is_discarding_) {
    const Transfer result = receive(socket_, operation.incoming, response_.body, body_done_);
    if (result != Transfer::fault) return result;
    is_discarding_ = true;
  }
  std::array<std::byte, 16384> unwanted;
  while (body_done_ < response_.body) {
    std::size_t got = 0;
    const std::size_t size = std::min(unwanted.size(), response_.body - body_done_);
    const Transfer result = receive(socket_, unwanted.data(), size, got);
    body_done_ += got;
    if (result != Transfer::complete) return result;
  }
  return Transfer::complete;
}

void Outgoing::fail_all() {
  socket_.reset();
  sent_ = received_ = body_done_ = 0;
  is_discarding_ = false;
  for (const Operation& operation : std::exchange(awaited_, {})) {
    interface_.report_response(operation, PTL_NI_UNDELIVERABLE, 0, 0);
  }
  for (const Operation& operation : std::exchange(unsent_, {})) {
    interface_.report_sent(operation, PTL_NI_UNDELIVERABLE);
    if (wire::has_response(operation.request)) interface_.report_response(operation, PTL_NI_UNDELIVERABLE, 0, 0);
  }
}

}  // namespace opal::test::portals4
