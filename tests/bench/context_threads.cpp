// SPDX-License-Identifier: Apache-2.0
// context_threads [MILLISECONDS]: what threads of one Context, and of a Context each, cost and gain.  Prints the
// messages of 8 bytes per second from some threads to one or more receiving Contexts, each polled by some threads; all
// in one process, over shared memory.  MILLISECONDS: of each of the five samples of a stream (100).
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "opal/am/context.hpp"
#include "opal/core/clock.hpp"

namespace opal::am {
namespace {

constexpr Tag kTag = kUserTags.first;

struct Case {
  ThreadLevel level;
  unsigned senders;
  unsigned contexts;  ///< number of sending Contexts: sender i uses Context i % contexts
  unsigned peers;     ///< number of receiving Contexts: sender i sends to peer i % peers
  unsigned pollers;   ///< threads that poll each peer
};

Result<std::unique_ptr<Context>> open(ThreadLevel level) {
  config::Store store = config::Store::from_environment();
  store.set("am_transports", "sm");
  Options options;
  options.threads = level;
  return Context::open(store, options);
}

/// A Context and the threads that poll it.
struct Receiver {
  void on_message(btl::Delivery&) noexcept {  // under its lock
    received.store(received.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  // There may be more threads than cores: a thread that finds nothing yields.
  void poll(const std::atomic<bool>& stop) noexcept {
    while (!stop.load(std::memory_order_relaxed)) {
      if (context->progress() == 0) std::this_thread::yield();
    }
  }
  std::unique_ptr<Context> context;
  alignas(kCacheLine) std::atomic<std::uint64_t> received{0};
};

/// Sends until `stop` is set; returns false when the endpoint has failed.
bool send(Context& context, Endpoint& to, const std::atomic<bool>& stop) noexcept {
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

/// The senders and their receivers.  Threads that use it are to end first.
struct Ways {
  Result<void> open(const Case& what) {
    for (unsigned i = 0; i < what.contexts; ++i) {
      OPAL_TRY_ASSIGN(auto sender, am::open(what.level));
      senders.push_back(std::move(sender));
    }
    for (unsigned i = 0; i < what.peers; ++i) {
      auto receiver = std::make_unique<Receiver>();
      OPAL_TRY_ASSIGN(receiver->context, am::open(what.level));
      OPAL_TRY(receiver->context->set_handler(kTag, btl::bind<&Receiver::on_message>(*receiver, "count")));
      receivers.push_back(std::move(receiver));
    }
    for (unsigned i = 0; i < what.senders; ++i) {
      OPAL_TRY_ASSIGN(Endpoint* const route,
                      senders[i % what.contexts]->connect(receivers[i % what.peers]->context->address()));
      routes.push_back(route);
    }
    return {};
  }
  std::vector<std::unique_ptr<Receiver>> receivers;
  std::vector<std::unique_ptr<Context>> senders;
  std::vector<Endpoint*> routes;  // by sending thread
};

/// Messages per second, of several stretches of time.
Result<std::vector<double>> rates(const Case& what, std::chrono::milliseconds stretch) {
  Ways ways;
  OPAL_TRY(ways.open(what));
  const auto& receivers = ways.receivers;
  std::atomic<bool> stop{false};
  std::atomic<bool> failed{false};
  std::vector<std::thread> threads;
  for (const auto& receiver : receivers) {
    for (unsigned i = 0; i < what.pollers; ++i) threads.emplace_back([&] { receiver->poll(stop); });
  }
  for (unsigned i = 0; i < what.senders; ++i) {
    threads.emplace_back([&, i] {
      if (!send(*ways.senders[i % what.contexts], *ways.routes[i], stop)) failed.store(true);
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

/// Messages per second that threads put into the boxes of a peer each, which are emptied between the bursts.
Result<std::vector<double>> burst_rates(const Case& what) {
  const unsigned senders = what.senders;
  constexpr std::uint64_t kBurst = 1000;  // a quarter of a box; two threads may share one
  constexpr int kBursts = 200;
  Ways ways;
  OPAL_TRY(ways.open(what));
  const auto& receivers = ways.receivers;
  const auto& routes = ways.routes;
  std::uint64_t sent = 0;
  const auto empty_boxes = [&] {
    while (received(receivers) < sent) {
      for (const auto& receiver : receivers) receiver->context->progress();
    }
  };
  const std::uint64_t word = 1;
  for (int i = 0; i < 100; ++i) {  // until there are boxes
    for (Endpoint* route : routes) sent += route->send_inline(kTag, bytes_of(word), {}) == Post::done ? 1 : 0;
    empty_boxes();
  }
  std::atomic<int> burst{0};  // the one to send, by a thread that has not
  std::atomic<unsigned> ready{0};
  std::atomic<bool> failed{false};
  std::vector<std::uint64_t> began(senders);
  std::vector<std::uint64_t> ended(senders);
  std::vector<std::thread> threads;
  const auto yield_until = [](const auto& condition) {
    for (int polls = 0; !condition(); ++polls) {
      if (polls > 1000) std::this_thread::yield();
    }
  };
  for (unsigned i = 0; i < senders; ++i) {
    threads.emplace_back([&, i] {
      for (int mine = 1; mine <= kBursts; ++mine) {
        yield_until([&] { return burst.load(std::memory_order_acquire) == mine; });
        began[i] = now_ns();
        for (std::uint64_t n = 0; n < kBurst; ++n) {
          if (routes[i]->send_inline(kTag, bytes_of(word), {}) != Post::done) failed.store(true);
        }
        ended[i] = now_ns();
        ready.fetch_add(1, std::memory_order_release);
      }
    });
  }
  std::vector<double> found;
  for (int number = 1; number <= kBursts; ++number) {
    ready.store(0, std::memory_order_relaxed);
    burst.store(number, std::memory_order_release);
    yield_until([&] { return ready.load(std::memory_order_acquire) == senders; });
    const std::uint64_t took =
        *std::max_element(ended.begin(), ended.end()) - *std::min_element(began.begin(), began.end());
    found.push_back(static_cast<double>(senders * kBurst) * 1e9 / static_cast<double>(took));
    sent += senders * kBurst;
    if (!failed) empty_boxes();
  }
  for (std::thread& thread : threads) thread.join();
  if (failed) return Error{Errc::busy, 0, "threads: a box did not hold a burst"};
  return found;
}

void print(const Case& what, const char* how, double rate) {
  fmt::print("{:>12.0f} messages/s  {}, {} thread{}, {} Context{} to {}{}\n", rate,
             what.level == ThreadLevel::single ? "single" : "multiple", what.senders, what.senders == 1 ? "" : "s",
             what.contexts, what.contexts == 1 ? "" : "s", what.peers, how);
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

Result<void> measure(std::chrono::milliseconds stretch) {
  constexpr Case kCases[] = {{ThreadLevel::single, 1, 1, 1, 1},   {ThreadLevel::multiple, 1, 1, 1, 1},
                             {ThreadLevel::multiple, 2, 1, 1, 1}, {ThreadLevel::multiple, 1, 1, 1, 2},
                             {ThreadLevel::multiple, 2, 1, 1, 2}, {ThreadLevel::multiple, 1, 1, 2, 1},
                             {ThreadLevel::multiple, 2, 1, 2, 1}, {ThreadLevel::multiple, 4, 1, 4, 1},
                             {ThreadLevel::single, 2, 2, 2, 1},   {ThreadLevel::multiple, 2, 2, 2, 1}};
  constexpr Case kBursts[] = {{ThreadLevel::single, 1, 1, 1, 0},   {ThreadLevel::multiple, 1, 1, 1, 0},
                              {ThreadLevel::multiple, 2, 1, 1, 0}, {ThreadLevel::multiple, 2, 1, 2, 0},
                              {ThreadLevel::multiple, 2, 2, 2, 0}, {ThreadLevel::single, 2, 2, 2, 0}};
  for (const Case& what : kCases) {
    OPAL_TRY_ASSIGN(const std::vector<double> found, rates(what, stretch));
    print(what, what.pollers == 1 ? "" : ", polled by two", median(found));
  }
  for (const Case& what : kBursts) {
    OPAL_TRY_ASSIGN(const std::vector<double> found, burst_rates(what));
    // A burst has a chance to run undisturbed.
    print(what, ", the best burst", *std::max_element(found.begin(), found.end()));
  }
  return {};
}

}  // namespace
}  // namespace opal::am

int main(int argc, char** argv) {
  const int milliseconds = argc > 1 ? std::atoi(argv[1]) : 100;
  const auto done = opal::am::measure(std::chrono::milliseconds{milliseconds});
  if (!done) fmt::print(stderr, "context_threads: {}\n", opal::to_string(done.error()));
  return done ? 0 : 1;
}
