// SPDX-License-Identifier: Apache-2.0
// The out-of-band channel: a rank and the launcher's daemon, which sleeps between messages as it does in a real job.
#include "opal/am/context.hpp"
#include "runtime/client/client.hpp"
#include "runtime/oob/link.hpp"
#include "runtime/tools/perf/tests/tests.hpp"

namespace opal::perf {
namespace {

constexpr int kLongestMove = 20'000;  // messages

/// Until the link is over `transport`; it begins on tcp, and moves when it has carried some messages.
Result<void> move_to(::runtime::oob::Link& link, const std::string& transport) {
  const std::byte content[8]{};
  for (int i = 0; i < kLongestMove; ++i) {
    if (link.endpoint().attributes().transport == transport) return {};
    OPAL_TRY(link.echo(content));
  }
  return Error{Errc::not_supported, 0, "oob_lat: the link to the launcher does not move to the transport asked for"};
}

Result<void> measure(::runtime::oob::Link& link, const Plan& plan, const Report& report) {
  for (const std::uint64_t size : plan.sizes) {
    const std::vector<std::byte> content(size, std::byte{0x5a});
    const Row row{.test = "oob_lat", .btl = std::string{link.endpoint().attributes().transport}, .size = size};
    OPAL_TRY(report_latency(row, plan, report, 2, [&] {
      const Result<void> echoed = link.echo(content);
      return echoed ? Error{} : echoed.error();
    }));
  }
  return {};
}

}  // namespace

Result<void> oob_lat(const std::vector<std::string>& transports, const Plan& plan, const Report& report) {
  OPAL_TRY_ASSIGN(const auto client, ::runtime::Client::open());
  if (client->singleton()) {
    return Error{Errc::not_supported, 0, "oob_lat measures the launcher: run it as opalrun -n 1 opal-perf oob_lat"};
  }
  if (client->rank() == 0) {
    for (const std::string& transport : transports) {
      config::Store store = config::Store::from_environment();
      store.set("am_transports", transport == "tcp" ? "tcp" : "tcp," + transport);
      OPAL_TRY_ASSIGN(const auto context, am::Context::open(store));
      OPAL_TRY_ASSIGN(const auto link, ::runtime::oob::Link::open(*context, client->rank()));
      OPAL_TRY(move_to(*link, transport));
      OPAL_TRY(measure(*link, plan, report));
    }
  }
  OPAL_TRY(client->fence());  // no rank leaves before the measurement is over
  return client->finalize();
}

}  // namespace opal::perf
