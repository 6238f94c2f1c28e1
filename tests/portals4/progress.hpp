// SPDX-License-Identifier: Apache-2.0
// The progress thread of an interface: all sockets are its own, and it serves requests while the program does not call.
// It never blocks on one socket: it waits for all of them, and for the operations that the program submits.
#pragma once

#include <poll.h>

#include <future>
#include <list>
#include <map>
#include <mutex>
#include <vector>

#include "tests/portals4/incoming.hpp"
#include "tests/portals4/outgoing.hpp"

namespace opal::test::portals4 {

/// Handlers of fork(): between hold and release the progress thread is in poll().  A child may hang in its first
/// allocation if a thread of its parent was in the allocator: the one of AddressSanitizer is not prepared for fork().
void hold_progress();
void release_progress();

class Progress {
 public:
  Progress(Interface& interface, Descriptor listener) : interface_{interface}, listener_{std::move(listener)} {}

  /// Sets `started`, and returns when the interface ends.
  void run(std::promise<void> started);

 private:
  void start_submitted(Queue<Operation>& operations);
  int wait_for_sockets(std::unique_lock<std::mutex>& working);
  void accept_connections();
  void advance_connections();

  Interface& interface_;
  Descriptor listener_;
  std::map<std::pair<ptl_nid_t, ptl_pid_t>, Outgoing> outgoing_;
  std::list<Incoming> incoming_;
  std::vector<pollfd> polled_;  ///< wake descriptor, listener, outgoing with a socket, incoming
  std::vector<Outgoing*> polled_outgoing_;
  std::vector<Outgoing*> started_;  ///< by start_submitted()
  bool is_short_of_descriptors_ = false;
};

}  // namespace opal::test::portals4
