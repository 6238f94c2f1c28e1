// SPDX-License-Identifier: Apache-2.0
// opal/btl/sim/event_queue.hpp — the events of the fabric in the order of simulated time: a binary heap.  Events of the
// same time are in the order of their numbers, so the order is total and a run repeats exactly.
// Owned and locked by the fabric.  Does not own the packets.
#pragma once
#include <cstdint>
#include <queue>
#include <vector>

namespace opal::btl::sim {

struct Packet;

struct Event {
  std::uint64_t time;  ///< simulated, in ns
  std::uint64_t age;   ///< number of the event, in the order of push(); put_off() keeps it
  Packet* packet;
};

class EventQueue {
 public:
  void push(std::uint64_t time, Packet& packet) { put_off({time, next_++, &packet}, time); }
  /// Queues a popped event again for `time`, with its old number.
  void put_off(const Event& event, std::uint64_t time) { heap_.push({time, event.age, event.packet}); }
  [[nodiscard]] bool empty() const noexcept { return heap_.empty(); }
  [[nodiscard]] const Event& first() const noexcept { return heap_.top(); }  ///< Requires: !empty()
  Event pop() noexcept {
    const Event event = heap_.top();
    heap_.pop();
    return event;
  }

 private:
  struct Later {
    bool operator()(const Event& a, const Event& b) const noexcept {
      return a.time != b.time ? a.time > b.time : a.age > b.age;
    }
  };
  std::priority_queue<Event, std::vector<Event>, Later> heap_;
  std::uint64_t next_ = 0;
};

}  // namespace opal::btl::sim
