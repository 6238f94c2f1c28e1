// SPDX-License-Identifier: Apache-2.0
// Active messages: latency by ping-pong, rate and bandwidth by streams with a bounded number of messages in flight.
#include <limits>

#include "runtime/tools/perf/tests/tests.hpp"

namespace opal::perf {
namespace {

constexpr std::uint64_t kAnswerEvery = 64;  // messages per answer in a stream
constexpr std::uint64_t kWindow = 512;      // messages in flight in a stream

/// `size` counts the header, so that an 8-byte message is 8 bytes.
ByteSpan payload_of(Conversation& with, std::uint64_t size) {
  return {with.local(), size > sizeof(Header) ? size - sizeof(Header) : 0};
}

/// Sends until `most` messages are out or, seldom looked at, the time `end_ns` has come; returns how many, 0 when the
/// peer is gone.
std::uint64_t stream(Conversation& with, ByteSpan payload, std::uint64_t most, std::uint64_t end_ns) {
  const std::uint64_t base = with.answers();
  std::uint64_t wanted = 0;
  std::uint64_t sent = 0;
  with.begin_batch();
  for (bool last = false; !last;) {
    ++sent;
    const bool ask = sent % kAnswerEvery == 0 || sent == most;
    last = sent == most || (ask && now_ns() >= end_ns);
    if (!with.send(kStream, ask, payload)) break;
    if (ask) ++wanted;
    if (ask && wanted > kWindow / kAnswerEvery) with.await_answers(base + wanted - kWindow / kAnswerEvery);
  }
  with.end_batch();
  with.await_answers(base + wanted);
  return with.peer().dead() ? 0 : sent;
}

}  // namespace

Result<void> streams(Conversation& with, const Plan& plan, const Report& report, const std::string& test) {
  constexpr std::uint64_t kBatches = 20;
  constexpr std::uint64_t kForEver = std::numeric_limits<std::uint64_t>::max();
  for (const std::uint64_t size : plan.sizes) {
    if (size < sizeof(Header) || size > with.max_send()) continue;
    const ByteSpan payload = payload_of(with, size);
    const bool timed = plan.iterations == 0;
    const std::uint64_t most = timed ? kForEver : std::max<std::uint64_t>(1, plan.iterations / kBatches);
    const auto batch = [&] { return stream(with, payload, most, timed ? now_ns() + kBudgetNs / kBatches : kForEver); };
    if (batch() == 0) return with.peer().error();  // warm-up
    std::vector<double> rates;
    std::uint64_t operations = 0;
    const std::uint64_t begin = now_ns();
    while (rates.size() < kBatches && (!timed || rates.empty() || now_ns() - begin < 2 * kBudgetNs)) {
      const std::uint64_t start = now_ns();
      const std::uint64_t count = batch();
      if (count == 0) return with.peer().error();
      rates.push_back(static_cast<double>(now_ns() - start) / static_cast<double>(count));
      operations += count;
    }
    const double ns = statistics(rates).p50;
    Row row = row_for(test, with, plan, size);
    row.iterations = operations;
    row.messages_per_s = 1e9 / ns;
    row.bandwidth_Bps = static_cast<double>(size) * 1e9 / ns;
    if (test == "am_bw") row.memcpy_Bps = memcpy_Bps(size);
    report(row);
  }
  return {};
}

Result<void> ping_pong(Conversation& with, const Plan& plan, const Report& report, const std::string& test) {
  for (const std::uint64_t size : plan.sizes) {
    if (size < sizeof(Header) || size > with.max_send()) continue;
    const ByteSpan payload = payload_of(with, size);
    OPAL_TRY(report_latency(row_for(test, with, plan, size), plan, report, 2, [&] {
      const std::uint64_t answers = with.answers() + 1;
      const bool sent = with.send(kEcho, true, payload);
      with.await_answers(answers);
      return sent && !with.peer().dead() ? Error{} : with.peer().error();
    }));
  }
  return {};
}

}  // namespace opal::perf
