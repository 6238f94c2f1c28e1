// SPDX-License-Identifier: Apache-2.0
// Put, get and atomics: latency of one at a time, bandwidth with several in flight.
#include <array>

#include "runtime/tools/perf/tests/floor.hpp"
#include "runtime/tools/perf/tests/sampling.hpp"
#include "runtime/tools/perf/tests/tests.hpp"

namespace opal::perf {
namespace {

enum class Direction { put, get };

Post post(Conversation& with, Direction direction, std::uint64_t size, Completion& completion) {
  return direction == Direction::put
             ? with.peer().put(with.local(), with.remote_address(), with.remote_key(), size, completion)
             : with.peer().get(with.local(), with.remote_address(), with.remote_key(), size, completion);
}

Row row_for(const char* test, Conversation& with, std::uint64_t size, std::uint64_t iterations, const Plan& plan) {
  Row row{.test = test, .btl = std::string{with.peer().attributes().transport}, .size = size, .iterations = iterations};
  row.floor_ns = plan.floor_ns;
  return row;
}

Result<void> latency(Conversation& with, const Plan& plan, const Report& report, const char* test,
                     Direction direction) {
  for (const std::uint64_t size : plan.sizes) {
    Error error{};
    const Samples samples = sample(plan.iterations, [&](std::uint64_t count) {
      for (std::uint64_t i = 0; i < count && error.code == Errc{}; ++i) {
        error = with.finish([&](Completion& completion) { return post(with, direction, size, completion); });
      }
      return error.code == Errc{};
    });
    if (error.code != Errc{}) return error;
    Row row = row_for(test, with, size, samples.operations, plan);
    row.latency = statistics(samples.ns);
    report(row);
  }
  return {};
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

bool run(Conversation& with, Direction direction, std::uint64_t size, std::uint64_t count, Window& window) {
  for (std::uint64_t i = 0; i < count; ++i) {
    Window::Slot& slot = window.slots[i % Window::kDepth];
    while (slot.busy) with.progress();
    Post answer = Post::again;
    while ((answer = post(with, direction, size, slot)) == Post::again) with.progress();
    slot.busy = answer == Post::queued;
    if (!slot.ok()) return false;
  }
  for (Window::Slot& slot : window.slots) {
    while (slot.busy) with.progress();
  }
  return window.error().code == Errc{};
}

Result<void> bandwidth(Conversation& with, const Plan& plan, const Report& report, const char* test,
                       Direction direction) {
  for (const std::uint64_t size : plan.sizes) {
    Window window;
    constexpr std::uint64_t kStretchNs = 2'000'000;  // at its end the window runs empty
    const Samples samples = sample(
        plan.iterations, [&](std::uint64_t count) { return run(with, direction, size, count, window); }, kStretchNs);
    if (window.error().code != Errc{}) return window.error();
    Row row = row_for(test, with, size, samples.operations, plan);
    row.bandwidth_Bps = static_cast<double>(size) * static_cast<double>(samples.operations) * 1e9 / samples.total_ns;
    row.memcpy_Bps = memcpy_Bps(size);
    report(row);
  }
  return {};
}

}  // namespace

Result<void> put_lat(Conversation& with, const Plan& plan, const Report& report) {
  return latency(with, plan, report, "put_lat", Direction::put);
}
Result<void> get_lat(Conversation& with, const Plan& plan, const Report& report) {
  return latency(with, plan, report, "get_lat", Direction::get);
}
Result<void> put_bw(Conversation& with, const Plan& plan, const Report& report) {
  return bandwidth(with, plan, report, "put_bw", Direction::put);
}
Result<void> get_bw(Conversation& with, const Plan& plan, const Report& report) {
  return bandwidth(with, plan, report, "get_bw", Direction::get);
}

Result<void> atomic_lat(Conversation& with, const Plan& plan, const Report& report) {
  const std::pair<const char*, AtomicOp> operations[] = {{"add", AtomicOp::add},
                                                         {"compare_swap", AtomicOp::compare_swap}};
  for (const auto& [name, op] : operations) {
    std::uint64_t old = 0;
    Error error{};
    const AtomicRequest request{op, AtomicType::u64, with.remote_address(), &with.remote_key(), 1, 0, &old};
    const Samples samples = sample(plan.iterations, [&](std::uint64_t count) {
      for (std::uint64_t i = 0; i < count && error.code == Errc{}; ++i) {
        error = with.finish([&](Completion& completion) { return with.peer().atomic(request, completion); });
      }
      return error.code == Errc{};
    });
    if (error.code != Errc{}) return error;
    Row row = row_for("atomic_lat", with, 8, samples.operations, plan);
    row.latency = statistics(samples.ns);
    row.op = name;
    report(row);
  }
  return {};
}

}  // namespace opal::perf
