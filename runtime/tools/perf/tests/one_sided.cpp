// SPDX-License-Identifier: Apache-2.0
// Put, get and atomics: latency of one at a time, bandwidth with several in flight.
#include <array>

#include "runtime/tools/perf/tests/tests.hpp"

namespace opal::perf {
namespace {

bool is_put(const std::string& test) { return test.starts_with("put"); }

Post post(Conversation& with, bool put, std::uint64_t size, Completion& completion) {
  return put ? with.peer().put(with.local(), with.remote_address(), with.remote_key(), size, completion)
             : with.peer().get(with.local(), with.remote_address(), with.remote_key(), size, completion);
}

/// Operations in flight, each with its own completion.
struct Window {
  static constexpr std::size_t kDepth = 16;
  struct Slot : Completion {
    bool busy = false;
  };
  Window() {
    for (Slot& slot : slots) slot.fn = [](Completion& self) noexcept { static_cast<Slot&>(self).busy = false; };
  }
  Error error() const {
    for (const Slot& slot : slots) {
      if (!slot.ok()) return slot.error;
    }
    return {};
  }
  std::array<Slot, kDepth> slots;
};

bool run(Conversation& with, bool put, std::uint64_t size, std::uint64_t count, Window& window) {
  for (std::uint64_t i = 0; i < count; ++i) {
    Window::Slot& slot = window.slots[i % Window::kDepth];
    while (slot.busy) with.progress();
    Post posted = Post::again;
    while ((posted = post(with, put, size, slot)) == Post::again) with.progress();
    slot.busy = posted == Post::queued;
    if (!slot.ok()) return false;
  }
  for (Window::Slot& slot : window.slots) {
    while (slot.busy) with.progress();
  }
  return window.error().code == Errc{};
}

}  // namespace

Result<void> one_sided_latency(Conversation& with, const Plan& plan, const Report& report, const std::string& test) {
  for (const std::uint64_t size : plan.sizes) {
    OPAL_TRY(report_latency(row_for(test, with, plan, size), plan, report, 1, [&] {
      return with.post_and_wait([&](Completion& completion) { return post(with, is_put(test), size, completion); });
    }));
  }
  return {};
}

Result<void> one_sided_bandwidth(Conversation& with, const Plan& plan, const Report& report, const std::string& test) {
  const bool put = is_put(test);
  for (const std::uint64_t size : plan.sizes) {
    Window window;
    constexpr std::uint64_t kStretchNs = 2'000'000;  // run() waits for all operations at its end: make it rare
    const Samples samples = sample(
        plan.iterations, [&](std::uint64_t count) { return run(with, put, size, count, window); }, kStretchNs);
    if (window.error().code != Errc{}) return window.error();
    Row row = row_for(test, with, plan, size);
    row.iterations = samples.operations;
    row.bandwidth_Bps = static_cast<double>(size) * static_cast<double>(samples.operations) * 1e9 / samples.total_ns;
    row.memcpy_Bps = memcpy_Bps(size);
    report(row);
  }
  return {};
}

Result<void> atomic_latency(Conversation& with, const Plan& plan, const Report& report, const std::string& test) {
  const std::pair<const char*, AtomicOp> operations[] = {{"add", AtomicOp::add},
                                                         {"compare_swap", AtomicOp::compare_swap}};
  for (const auto& [name, op] : operations) {
    std::uint64_t old = 0;
    const AtomicRequest request{op, AtomicType::u64, with.remote_address(), &with.remote_key(), 1, 0, &old};
    Row row = row_for(test, with, plan, 8);
    row.op = name;
    OPAL_TRY(report_latency(row, plan, report, 1, [&] {
      return with.post_and_wait([&](Completion& completion) { return with.peer().atomic(request, completion); });
    }));
  }
  return {};
}

}  // namespace opal::perf
