// SPDX-License-Identifier: Apache-2.0
// Active messages: latency by ping-pong, rate and bandwidth by streams with a bounded number of messages in flight.
#include "runtime/tools/perf/floor.hpp"
#include "runtime/tools/perf/sampling.hpp"
#include "runtime/tools/perf/tests.hpp"

namespace opal::perf {
namespace {

constexpr std::uint64_t kAnswerEvery = 64;  // messages per answer in a stream
constexpr std::uint64_t kWindow = 512;      // messages in flight in a stream

/// `size` counts the header, so that an 8-byte message is 8 bytes.
ByteSpan payload_of(Conversation& with, std::uint64_t size) {
  return {with.local(), size > sizeof(Header) ? size - sizeof(Header) : 0};
}

bool stream(Conversation& with, ByteSpan payload, std::uint64_t count) {
  const std::uint64_t base = with.answers();
  std::uint64_t wanted = 0;
  for (std::uint64_t i = 1; i <= count; ++i) {
    const bool ask = i % kAnswerEvery == 0 || i == count;
    if (!with.send(kStream, ask, payload)) return false;
    if (ask) ++wanted;
    if (ask && wanted > kWindow / kAnswerEvery) with.await_answers(base + wanted - kWindow / kAnswerEvery);
  }
  with.await_answers(base + wanted);
  return !with.peer().dead();
}

Result<void> streams(Conversation& with, const Plan& plan, const Report& report, const char* test, bool as_rate) {
  for (const std::uint64_t size : plan.sizes) {
    if (size < sizeof(Header) || size > with.max_send()) continue;
    const ByteSpan payload = payload_of(with, size);
    const std::uint64_t iterations =
        plan.iterations != 0 ? plan.iterations : std::max<std::uint64_t>(2000, (256ULL << 20) / (size + 256));
    constexpr std::uint64_t kBatches = 20;
    std::vector<double> rates;
    std::uint64_t operations = 0;
    for (std::uint64_t batch = 0; batch <= kBatches; ++batch) {
      const std::uint64_t count = std::max<std::uint64_t>(1, iterations / kBatches);
      const std::uint64_t start = now_ns();
      if (!stream(with, payload, count)) return with.peer().error();
      if (batch == 0) continue;  // warm-up
      rates.push_back(static_cast<double>(now_ns() - start) / static_cast<double>(count));
      operations += count;
    }
    const double ns = statistics(rates).p50;
    Row row{
        .test = test, .btl = std::string{with.peer().attributes().transport}, .size = size, .iterations = operations};
    row.messages_per_s = 1e9 / ns;
    row.bandwidth_Bps = static_cast<double>(size) * 1e9 / ns;
    row.floor_ns = plan.floor_ns;
    if (!as_rate) row.memcpy_Bps = memcpy_Bps(size);
    report(row);
  }
  return {};
}

}  // namespace

Result<void> am_lat(Conversation& with, const Plan& plan, const Report& report) {
  for (const std::uint64_t size : plan.sizes) {
    if (size < sizeof(Header) || size > with.max_send()) continue;
    const ByteSpan payload = payload_of(with, size);
    Samples samples = sample(plan.iterations, [&](std::uint64_t count) {
      for (std::uint64_t i = 0; i < count; ++i) {
        const std::uint64_t answers = with.answers() + 1;
        if (!with.send(kEcho, true, payload)) return false;
        with.await_answers(answers);
      }
      return !with.peer().dead();
    });
    if (with.peer().dead()) return with.peer().error();
    for (double& ns : samples.ns) ns /= 2;
    Row row{.test = "am_lat",
            .btl = std::string{with.peer().attributes().transport},
            .size = size,
            .iterations = samples.operations};
    row.latency = statistics(samples.ns);
    row.floor_ns = plan.floor_ns;
    report(row);
  }
  return {};
}

Result<void> am_rate(Conversation& with, const Plan& plan, const Report& report) {
  return streams(with, plan, report, "am_rate", true);
}

Result<void> am_bw(Conversation& with, const Plan& plan, const Report& report) {
  return streams(with, plan, report, "am_bw", false);
}

}  // namespace opal::perf
