// SPDX-License-Identifier: Apache-2.0
// What threads of one Context cost and gain: messages of 8 bytes per second from some threads of a sending Context to
// one or more receiving Contexts, each polled by some threads; all in one process, over shared memory.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "opal/core/clock.hpp"
#include "runtime/tools/perf/tests.hpp"

namespace opal::perf {
namespace {

constexpr Tag kTag = kUserTags.first;

struct Case {
  am::ThreadLevel level;
  unsigned senders;
  unsigned peers;    ///< sender i sends to peer i modulo their number
  unsigned pollers;  ///< threads that poll each peer
};

Result<std::unique_ptr<am::Context>> open(am::ThreadLevel level) {
  config::Store store = config::Store::from_environment();
  store.set("am_transports", "sm");
  am::Options options;
  options.threads = level;
  return am::Context::open(store, options);
}

/// A Context and those who poll it.
struct Receiver {
  void on_message(btl::Delivery&) noexcept {  // under its lock
    received.store(received.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  // There may be more threads than cores: who finds nothing gives its core away.
  void poll(const std::atomic<bool>& stop) noexcept {
    while (!stop.load(std::memory_order_relaxed)) {
      if (context->progress() == 0) std::this_thread::yield();
    }
  }
  std::unique_ptr<am::Context> context;
  alignas(kCacheLine) std::atomic<std::uint64_t> received{0};
};

/// Sends until it is told to stop; false when the endpoint failed.
bool send(am::Context& context, am::Endpoint& to, const std::atomic<bool>& stop) noexcept {
  const std::uint64_t word = 1;
  while (!stop.load(std::memory_order_relaxed)) {
    for (int i = 0; i < 64; ++i) {
      const Post post = to.send_inline(kTag, bytes_of(word), {});
      if (post == Post::failed) return false;
      if (post == Post::again && context.progress() == 0) std::this_thread::yield();
    }
  }
  return true;
}

std::uint64_t received(const std::vector<std::unique_ptr<Receiver>>& receivers) {
  std::uint64_t sum = 0;
  for (const auto& receiver : receivers) sum += receiver->received.load(std::memory_order_relaxed);
  return sum;
}

/// Messages per second, of several stretches of time.
Result<std::vector<double>> rates(const Case& what, std::chrono::milliseconds stretch) {
  OPAL_TRY_ASSIGN(const auto sender, open(what.level));
  std::vector<std::unique_ptr<Receiver>> receivers;
  std::vector<am::Endpoint*> routes;
  for (unsigned i = 0; i < what.peers; ++i) {
    auto receiver = std::make_unique<Receiver>();
    OPAL_TRY_ASSIGN(receiver->context, open(what.level));
    OPAL_TRY(receiver->context->set_handler(kTag, btl::bind<&Receiver::on_message>(*receiver, "count")));
    OPAL_TRY_ASSIGN(am::Endpoint* const route, sender->connect(receiver->context->address()));
    routes.push_back(route);
    receivers.push_back(std::move(receiver));
  }
  std::atomic<bool> stop{false};
  std::atomic<bool> failed{false};
  std::vector<std::thread> threads;
  for (const auto& receiver : receivers) {
    for (unsigned i = 0; i < what.pollers; ++i) threads.emplace_back([&] { receiver->poll(stop); });
  }
  for (unsigned i = 0; i < what.senders; ++i) {
    threads.emplace_back([&, route = routes[i % routes.size()]] {
      if (!send(*sender, *route, stop)) failed.store(true);
    });
  }
  std::vector<double> found;
  std::this_thread::sleep_for(stretch);  // boxes are granted, threads have their cores
  for (int i = 0; i < 5; ++i) {
    const std::uint64_t before = received(receivers);
    const std::uint64_t begin = now_ns();
    std::this_thread::sleep_for(stretch);
    found.push_back(static_cast<double>(received(receivers) - before) * 1e9 / static_cast<double>(now_ns() - begin));
  }
  stop.store(true);
  for (std::thread& thread : threads) thread.join();
  if (failed) return Error{Errc::peer_gone, 0, "threads: a send failed"};
  return found;
}

}  // namespace

Result<void> thread_rates(const Plan& plan, const Report& report) {
  using am::ThreadLevel;
  constexpr Case kCases[] = {{ThreadLevel::single, 1, 1, 1},   {ThreadLevel::multiple, 1, 1, 1},
                             {ThreadLevel::multiple, 2, 1, 1}, {ThreadLevel::multiple, 1, 1, 2},
                             {ThreadLevel::multiple, 2, 1, 2}, {ThreadLevel::multiple, 1, 2, 1},
                             {ThreadLevel::multiple, 2, 2, 1}, {ThreadLevel::multiple, 4, 4, 1}};
  const std::chrono::milliseconds stretch{plan.iterations != 0 ? plan.iterations : 100};
  for (const Case& what : kCases) {
    OPAL_TRY_ASSIGN(std::vector<double> found, rates(what, stretch));
    std::sort(found.begin(), found.end());
    Row row{.test = "threads", .btl = "sm", .size = sizeof(std::uint64_t), .iterations = found.size()};
    row.op = fmt::format("{}, to {} Context{} polled by {}", what.level == ThreadLevel::single ? "single" : "multiple",
                         what.peers, what.peers == 1 ? "" : "s", what.pollers);
    row.threads = what.senders;
    row.messages_per_s = found[found.size() / 2];
    report(row);
  }
  return {};
}

}  // namespace opal::perf
