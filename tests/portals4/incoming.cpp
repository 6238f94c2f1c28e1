// SPDX-License-Identifier: Apache-2.0
#include "tests/portals4/incoming.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "tests/portals4/atomics.hpp"

namespace opal::test::portals4 {
namespace {

constexpr int kMessagesInARow = 64;  // then other connections have their turn

}  // namespace

Incoming::Incoming(Interface& interface, Descriptor socket)
    : interface_{interface}, socket_{std::move(socket)}, peer_{peer_of(socket_)} {}

Incoming::~Incoming() {
  if (delivery_.entry != nullptr) finish(PTL_NI_UNDELIVERABLE);  // the initiator is gone in the middle of a message
}

bool Incoming::advance() {
  for (int messages = 0; messages < kMessagesInARow;) {
    Transfer result = Transfer::ended;
    switch (step_) {
      case Step::header: result = receive_header(); break;
      case Step::body: result = receive_body(); break;
      case Step::excess: result = receive_excess(); break;
      case Step::response: result = send_response(); break;
    }
    if (result == Transfer::again) return true;
    if (result != Transfer::complete) return false;
    if (step_ == Step::header) ++messages;  // stops between messages only: there, the socket tells that more is to do
  }
  return true;
}

Transfer Incoming::receive_header() {
  const Transfer result = receive(socket_, reinterpret_cast<std::byte*>(&request_), sizeof request_, done_);
  if (result != Transfer::complete) return result;
  if (!is_acceptable()) return Transfer::ended;
  delivery_ = interface_.begin_delivery(request_, peer_);
  const std::uint64_t body = wire::body_of(request_);
  const std::uint64_t accepted = delivery_.entry == nullptr ? 0 : std::min(delivery_.mlength, body);
  excess_ = body - accepted;
  values_.resize(wire::is_atomic(request_.kind) ? accepted : 0);
  next(Step::body);
  return Transfer::complete;
}

/// A process that does not keep to the format is cut off.
bool Incoming::is_acceptable() const {
  if (request_.magic != wire::kRequestMagic || request_.kind > wire::Kind::swap) return false;
  if (request_.acknowledge > 1 || request_.length > wire::kMaxLength) return false;
  if (!wire::is_atomic(request_.kind)) return true;
  return request_.length <= wire::kMaxAtomicLength &&
         is_valid_atomic(request_.kind, request_.operation, request_.datatype, request_.length);
}

Transfer Incoming::receive_body() {
  const std::size_t size = wire::body_of(request_) - excess_;
  if (size != 0) {
    std::byte* const to = wire::is_atomic(request_.kind) ? values_.data() : delivery_.memory();
    const Transfer result = receive(socket_, to, size, done_);
    if (result == Transfer::fault) {
      delivery_.fail = PTL_NI_SEGV;
      excess_ += size - done_;
    } else if (result != Transfer::complete) {
      return result;
    }
  }
  next(Step::excess);
  return Transfer::complete;
}

Transfer Incoming::receive_excess() {
  std::array<std::byte, 16384> unwanted;
  while (excess_ != 0) {
    std::size_t got = 0;
    const Transfer result = receive(socket_, unwanted.data(), std::min(excess_, unwanted.size()), got);
    excess_ -= got;
    if (result != Transfer::complete) return result;
  }
  execute();
  return Transfer::complete;
}

void Incoming::execute() {
  const bool is_placed = delivery_.entry != nullptr;
  response_ = {};
  response_.id = request_.id;
  response_.remote_offset = is_placed ? delivery_.offset : request_.remote_offset;
  response_body_ = nullptr;
  if (is_placed && wire::is_atomic(request_.kind)) {
    apply_atomic(request_, delivery_.memory(), values_.data(), values_.size());
  }
  if (is_placed && delivery_.fail == PTL_NI_OK) {
    response_.mlength = delivery_.mlength;
    if (request_.kind == wire::Kind::get) response_body_ = delivery_.memory();
    if (wire::is_fetching(request_.kind)) response_body_ = values_.data();
    if (request_.kind == wire::Kind::get || wire::is_fetching(request_.kind)) response_.body = delivery_.mlength;
  }
  response_.fail = delivery_.fail;
  // A get ends when its bytes have left the entry, all others before the initiator learns of it.
  if (is_placed && request_.kind != wire::Kind::get) finish(delivery_.fail);
  next(wire::has_response(request_) ? Step::response : Step::header);
}

Transfer Incoming::send_response() {
  const Transfer result = send(socket_, reinterpret_cast<const std::byte*>(&response_), sizeof response_,
                               response_body_, response_.body, done_);
  if (result != Transfer::complete) return result;
  if (delivery_.entry != nullptr) finish(delivery_.fail);
  next(Step::header);
  return Transfer::complete;
}

void Incoming::finish(ptl_ni_fail_t fail) {
  delivery_.fail = fail;
  interface_.end_delivery(delivery_, request_, peer_);
  delivery_.entry = nullptr;
}

}  // namespace opal::test::portals4
