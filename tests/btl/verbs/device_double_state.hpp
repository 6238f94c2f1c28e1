// SPDX-License-Identifier: Apache-2.0
// tests/btl/verbs/device_double_state.hpp — what the two halves of the device double share: device_double.cpp is
// libibverbs, connection_manager_double.cpp is librdmacm.  Private to them.  Threads: under Locked.
#pragma once
#include <infiniband/verbs.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

#include "tests/btl/verbs/device_double.hpp"

namespace opal::test::verbs_double {

constexpr const char* kName = "double0";  // of the device and of its network interface

/// A descriptor that is readable while a queue has entries.
class Signal {
 public:
  Signal() : fd_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}
  ~Signal() { ::close(fd_); }
  Signal(const Signal&) = delete;
  Signal& operator=(const Signal&) = delete;
  [[nodiscard]] int fd() const noexcept { return fd_; }
  void set(bool on) const noexcept {
    std::uint64_t value = 1;
    const ssize_t done = on ? ::write(fd_, &value, sizeof value) : ::read(fd_, &value, sizeof value);
    (void)done;
  }

 private:
  int fd_;
};

struct Pair;
struct Region;

struct Device {
  std::recursive_mutex lock;
  ibv_device device{};
  Counts counts;
  std::map<std::uint32_t, Pair*> pairs;
  std::map<std::uint32_t, Region*> regions;  // by key
  std::uint32_t next = 100;                  // the number of a queue pair, or a key
  bool port_error = false;                   // to be reported
};

/// The one device.  Never destroyed: it outlives the modules of static objects.
Device& device();

struct Locked : std::lock_guard<std::recursive_mutex> {
  Locked() : std::lock_guard<std::recursive_mutex>(device().lock) {}
};

/// The next event of a channel; -1 and EAGAIN: there is none.
template <class Channel, class Event>
int take_event(Channel& channel, Event& event) {
  if (channel.events.empty()) {
    errno = EAGAIN;
    return -1;
  }
  event = std::move(channel.events.front());
  channel.events.pop_front();
  if (channel.events.empty()) channel.signal.set(false);
  return 0;
}

}  // namespace opal::test::verbs_double
