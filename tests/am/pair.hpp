// SPDX-License-Identifier: Apache-2.0
// tests/am/pair.hpp — two Contexts of one process over one real transport, and what their handlers saw.
#pragma once
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "opal/am/context.hpp"
#include "tests/harness/process.hpp"
#include "tests/harness/transports.hpp"

namespace opal::test {

inline constexpr Tag kTag = kUserTags.first;

/// Transports of this machine that reach at least so far; the default: those that join two Contexts of this process.
inline std::vector<std::string> joining_transports(btl::Reach reach = btl::Reach::process) {
  return transports_reaching(reach);
}

/// A Context that counts the messages of kTag and remembers its peers.
struct Side final : am::Observer {
  explicit Side(const std::string& transports, am::ThreadLevel threads = am::ThreadLevel::single,
                const std::optional<Secret>& secret = {}, config::Store store = {}) {
    store.set("am_transports", transports);
    auto opened = am::Context::open(
        store, {.threads = threads, .observer = this, .registry = &all_transports(), .secret = secret});
    EXPECT_TRUE(opened);
    context = std::move(*opened);
    EXPECT_TRUE(context->set_handler(kTag, btl::bind<&Side::on_message>(*this, "test")));
  }
  void on_message(btl::Delivery& delivery) noexcept {
    ++messages;
    bytes += delivery.data.size();
    from = &am::sender(delivery);
  }
  void on_peer_connected(am::Endpoint& peer) noexcept override { connected.push_back(&peer); }
  void on_peer_failed(am::Endpoint&, const Error&) noexcept override { ++failed; }

  std::atomic<std::size_t> messages{0};
  std::atomic<std::size_t> bytes{0};
  am::Endpoint* from = nullptr;
  std::vector<am::Endpoint*> connected;
  int failed = 0;
  std::unique_ptr<am::Context> context;
};

/// Progresses all contexts until `condition` or 20 s; whether it came true.
template <class Condition, class... Contexts>
[[nodiscard]] bool pump(Condition condition, Contexts&... contexts) {
  const Deadline deadline = Deadline::after(std::chrono::seconds{20});
  while (!condition()) {
    (contexts.progress(), ...);
    if (deadline.expired()) return false;
  }
  return true;
}

struct Flag : Completion {
  Flag() {
    fn = [](Completion& self) noexcept { ++static_cast<Flag&>(self).calls; };
  }
  int calls = 0;
};

/// Posts until it is taken and, if queued, waits for its end.  Returns its error.
template <class Operation, class... Contexts>
Error finish(Operation operation, Contexts&... contexts) {
  Flag flag;
  Post post = Post::again;
  EXPECT_TRUE(pump([&] { return (post = operation(flag)) != Post::again; }, contexts...));
  if (post == Post::queued) {
    EXPECT_TRUE(pump([&] { return flag.calls != 0; }, contexts...));
  }
  EXPECT_LE(flag.calls, 1);
  return flag.error;
}

/// Runs `wait`, which waits for `context` without a limit, on a thread, and `change` when that thread sleeps.  True if
/// `wait` ends within 20 s.
template <class Wait, class Change>
[[nodiscard]] bool is_woken_by(am::Context& context, Wait wait, Change change) {
  std::atomic<pid_t> id{0};
  std::atomic<bool> ended{false};
  std::jthread sleeper{[&] {
    id = ::gettid();
    wait();
    ended = true;
  }};
  while (!ended && (id == 0 || state_of(id) != 'S')) std::this_thread::yield();
  change();
  const Deadline deadline = Deadline::after(std::chrono::seconds{20});
  while (!ended && !deadline.expired()) std::this_thread::yield();
  const bool woken = ended;
  context.wake_sleepers();  // ends the thread if `change` did not
  return woken;
}

}  // namespace opal::test
