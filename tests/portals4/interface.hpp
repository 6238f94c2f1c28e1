// SPDX-License-Identifier: Apache-2.0
// The network interface of a process: limits, objects by handle, event queues, and the operations not yet sent.
// One mutex guards all of it.  Functions named _locked require it; the entry points hold it while they use the members.
// The progress thread (progress.hpp) takes it for short steps, never during a system call on a socket.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "tests/portals4/objects.hpp"

namespace opal::test::portals4 {

inline constexpr ptl_nid_t kNid = 1;
inline constexpr ptl_handle_ni_t kInterfaceHandle = 0x10000001;
inline constexpr int kMaxPtIndex = 63;

class Interface {
 public:
  /// Reads the environment, listens under the pid of this process and starts the progress thread.
  /// Null: the name is taken, or the system has no descriptors.
  static std::shared_ptr<Interface> open();
  ~Interface();

  /// Ends the progress thread and all connections, and wakes those that wait for events.  Called once.
  void close();

  /// Hands an operation to the progress thread.
  void submit_locked(Operation operation);

  // Called by the progress thread only.
  /// Moves the submitted operations to `operations`.  False: the thread has to end.
  bool take_submitted(Queue<Operation>& operations);
  const Descriptor& wake_descriptor() const { return wake_; }

  /// At the initiator: the body has left its memory, or never will.  Ends an operation that has no response.
  void report_sent(const Operation& operation, ptl_ni_fail_t fail);
  /// At the initiator: ends an operation that has a response.
  void report_response(const Operation& operation, ptl_ni_fail_t fail, std::uint64_t mlength, std::uint64_t offset);

  /// At the target: finds the entry for a message and takes its place there, or rejects it.
  Delivery begin_delivery(const wire::Request& request, Peer initiator);
  /// At the target: gives the events of a delivery that has an entry, and releases the entry.
  void end_delivery(const Delivery& delivery, const wire::Request& request, Peer initiator);

  void push_locked(EventQueue* queue, const ptl_event_t& event);
  PortalEntry* portal_locked(ptl_pt_index_t index);
  /// Takes an entry out of its list, and forgets it when no message uses it.
  void unlink_locked(MatchEntry& entry);
  /// Disables a portal table entry.  If it is announced, PTL_EVENT_PT_DISABLED follows the active messages.
  enum class Announce { no, yes };
  void disable_locked(PortalEntry& portal, Announce announce);
  ptl_handle_any_t new_handle_locked(ptl_handle_any_t kind) { return kind << 28 | (next_handle_++ & 0x0fffffff); }

  template <class Object>
  using Table = std::unordered_map<ptl_handle_any_t, std::shared_ptr<Object>>;

  ptl_ni_limits_t limits{};
  ptl_pid_t pid = 0;
  ptl_uid_t uid = 0;
  std::mutex mutex;
  std::condition_variable changed;  ///< an event arrived, a queue was freed, or a message ended
  Table<EventQueue> queues;
  Table<MemoryDescriptor> descriptors;
  Table<MatchEntry> entries;
  std::array<PortalEntry, kMaxPtIndex + 1> portals;

 private:
  Interface() = default;
  Delivery place_locked(PortalEntry& portal, std::shared_ptr<MatchEntry> entry, const wire::Request& request,
                        Peer initiator);
  void announce_disabled_locked(PortalEntry& portal);

  Descriptor wake_;
  Queue<Operation> submitted_;
  bool is_woken_ = false;
  bool is_ending_ = false;
  ptl_handle_any_t next_handle_ = 1;
  std::thread thread_;
};

}  // namespace opal::test::portals4
