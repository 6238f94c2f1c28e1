// SPDX-License-Identifier: Apache-2.0
// A connection from an initiator: this process is the target.
// It serves one request at a time, and reads the next one when the response is written.  So the messages of an
// initiator take effect in their order, and what the target has to keep is bounded.  The bytes of a put go straight to
// the memory of the entry.  Used by the progress thread only.
#pragma once

#include <cstddef>
#include <vector>

#include "tests/portals4/interface.hpp"

namespace opal::test::portals4 {

class Incoming {
 public:
  Incoming(Interface& interface, Descriptor socket);
  Incoming(const Incoming&) = delete;
  Incoming& operator=(const Incoming&) = delete;
  ~Incoming();

  const Descriptor& socket() const { return socket_; }
  bool is_writing() const { return step_ == Step::response; }

  /// Goes on as far as the socket allows.  False: the connection is over.
  bool advance();

 private:
  enum class Step { header, body, excess, response };
  Transfer receive_header();
  Transfer receive_body();
  Transfer receive_excess();
  Transfer send_response();
  bool is_acceptable() const;
  void execute();
  void finish(ptl_ni_fail_t fail);
  void next(Step step) {
    step_ = step;
    done_ = 0;
  }

  Interface& interface_;
  Descriptor socket_;
  Peer peer_;
  Step step_ = Step::header;
  std::size_t done_ = 0;    ///< bytes of this step
  std::size_t excess_ = 0;  ///< bytes of the body that have no place in the entry
  wire::Request request_;
  wire::Response response_;
  Delivery delivery_;
  std::vector<std::byte> values_;             ///< of an atomic operation: the operands, then the fetched values
  const std::byte* response_body_ = nullptr;  ///< response_.body bytes
};

}  // namespace opal::test::portals4
