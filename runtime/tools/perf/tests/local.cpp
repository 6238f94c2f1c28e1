// SPDX-License-Identifier: Apache-2.0
// The memory that a Context and its peers cost.
#include <unistd.h>

#include <fstream>
#include <memory>
#include <string>

#include "runtime/tools/perf/tests/tests.hpp"

namespace opal::perf {
namespace {

/// Resident bytes of this process.
std::uint64_t resident_bytes() {
  std::ifstream statm{"/proc/self/statm"};
  std::uint64_t total = 0;
  std::uint64_t resident = 0;
  statm >> total >> resident;
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

}  // namespace

Result<void> memory_per_peer(const std::vector<std::string>& transports, const Report& report) {
  constexpr std::uint64_t kPeers = 16;
  for (const std::string& transport : transports) {
    config::Store store = config::Store::from_environment();
    store.set("am_transports", transport);
    const auto open = [&]() -> Result<std::unique_ptr<am::Context>> { return am::Context::open(store); };
    OPAL_TRY_ASSIGN(auto warm, open());  // what the first Context of a process pays once
    warm.reset();
    const std::uint64_t before = resident_bytes();
    OPAL_TRY_ASSIGN(auto hub, open());
    Row context{.test = "mem", .btl = transport};
    context.size = resident_bytes() - std::min(before, resident_bytes());
    context.op = "resident bytes of one Context";
    context.iterations = 1;
    report(context);
    if (transport == "self") continue;
    std::vector<std::unique_ptr<am::Context>> peers;
    for (std::uint64_t i = 0; i < kPeers; ++i) {
      OPAL_TRY_ASSIGN(auto peer, open());
      peers.push_back(std::move(peer));
    }
    const std::uint64_t unconnected = resident_bytes();
    for (const auto& peer : peers) {
      OPAL_TRY(hub->connect(peer->address()));
    }
    const Deadline deadline = Deadline::after(std::chrono::milliseconds{200});
    while (!deadline.expired()) {
      hub->progress();
      for (const auto& peer : peers) peer->progress();
    }
    Row idle{.test = "mem", .btl = transport};
    idle.size = (resident_bytes() - std::min(unconnected, resident_bytes())) / kPeers;
    idle.op = "resident bytes per connected idle peer, both ends";
    idle.iterations = kPeers;
    report(idle);
  }
  return {};
}

}  // namespace opal::perf
