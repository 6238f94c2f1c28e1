// SPDX-License-Identifier: Apache-2.0
#include "tests/am/scripted_transport.hpp"

#include <cstdlib>

namespace opal::test {

constinit const btl::Component kFast{
    .name = "fast", .summary = "scripted", .exclusivity = 20, .vars = nullptr, .open = &open_scripted<kFast>};
constinit const btl::Component kSlow{
    .name = "slow", .summary = "scripted", .exclusivity = 10, .vars = nullptr, .open = &open_scripted<kSlow>};
constinit const btl::Component kAbsent{.name = "absent",
                                       .summary = "scripted",
                                       .exclusivity = 30,
                                       .vars = nullptr,
                                       .usable = [](const config::Store&) noexcept -> Result<void> {
                                         return Error{Errc::os, 2, "open(/dev/absent)"};
                                       },
                                       .open = &open_scripted<kAbsent>};

ScriptedContext::ScriptedContext(const config::Store& store, am::Observer* observer, am::ThreadLevel threads) {
  registry.add(kFast);
  registry.add(kSlow);
  registry.add(kAbsent);
  auto opened = am::Context::open(store, {.threads = threads, .observer = observer, .registry = &registry});
  if (!opened) std::abort();
  context = std::move(*opened);
}

am::Endpoint& ScriptedContext::connect(const std::vector<std::string>& transports) {
  am::Address address{PeerId::random(), {}};
  for (const std::string& name : transports) address.transports.push_back({name, {}});
  auto endpoint = context->connect(am::encode(address));
  if (!endpoint) std::abort();
  return **endpoint;
}

}  // namespace opal::test
