// SPDX-License-Identifier: Apache-2.0
// The connection to a target: this process is the initiator.
// It connects when there is an operation.  If the connection fails or ends, all operations in flight end with
// PTL_NI_UNDELIVERABLE, and the next operation connects anew.  Used by the progress thread only.
#pragma once

#include <cstddef>

#include "tests/portals4/interface.hpp"

namespace opal::test::portals4 {

class Outgoing {
 public:
  Outgoing(Interface& interface, ptl_process_t target) : interface_{interface}, target_{target} {}

  void enqueue(Operation operation) { unsent_.push_back(std::move(operation)); }
  /// Goes on as far as the socket allows.
  void advance();

  const Descriptor& socket() const { return socket_; }
  bool is_writing() const { return socket_.is_valid() && !unsent_.empty(); }
  /// The target had no room for a connection: advance() tries again.
  bool is_waiting_to_connect() const { return !socket_.is_valid() && !unsent_.empty(); }

 private:
  bool connect();
  Transfer send_requests();
  Transfer receive_responses();
  bool is_acceptable() const;
  Transfer receive_body(Operation& operation);
  void fail_all();

  Interface& interface_;
  ptl_process_t target_;
  Descriptor socket_;
  Queue<Operation> unsent_;
  std::size_t sent_ = 0;      ///< bytes of the first of them
  Queue<Operation> awaited_;  ///< sent, without their response
  wire::Response response_;
  std::size_t received_ = 0;  ///< bytes of response_
  std::size_t body_done_ = 0;
  bool is_discarding_ = false;  ///< the rest of a body whose place is not accessible
};

}  // namespace opal::test::portals4
