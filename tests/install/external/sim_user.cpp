// SPDX-License-Identifier: Apache-2.0
// A program that tests its own protocol over a simulated fabric: two Contexts of one process, time in its own hands,
// and the death of one host, which the other finds out when it sends.
#include <cstdio>

#include "opal/am/context.hpp"
#include "opal/btl/sim/component.hpp"
#include "opal/btl/sim/fabric.hpp"

namespace {

namespace sim = opal::btl::sim;

struct Peer final : opal::am::Observer {
  void on_message(opal::btl::Delivery& delivery) noexcept { messages += delivery.data.size() == 8 ? 1 : 0; }
  void on_peer_failed(opal::am::Endpoint& /*peer*/, const opal::Error& /*why*/) noexcept override { ++failed; }
  int messages = 0;
  int failed = 0;
  std::unique_ptr<opal::am::Context> context;
};

opal::Result<void> open(Peer& peer, const opal::btl::Registry& registry, const sim::Config& config) {
  opal::config::Store store;
  store.set("am_transports", "sim");
  store.set("btl_sim_fabric", config.fabric);
  OPAL_TRY_ASSIGN(peer.context, opal::am::Context::open(store, {.observer = &peer, .registry = &registry}));
  return peer.context->set_handler(opal::kUserTags.first, opal::btl::bind<&Peer::on_message>(peer, "count"));
}

/// Until nothing is under way any more.
void run_out(sim::Fabric& fabric, Peer& a, Peer& b) {
  do {
    for (sim::NodeId node = 0; fabric.next_ready(node);) {
      while ((node == 0 ? a : b).context->progress() != 0) {
      }
    }
  } while (fabric.step());
}

opal::Result<bool> run() {
  sim::Config config;
  config.fabric = "two hosts";
  config.loss = 0.3;  // of packets, which devices send again
  OPAL_TRY_ASSIGN(const auto fabric, sim::Fabric::drive(config));
  opal::btl::Registry registry = opal::btl::Registry::with_builtins();
  registry.add(sim::component());
  Peer a;
  Peer b;
  OPAL_TRY(open(a, registry, config));  // node 0
  OPAL_TRY(open(b, registry, config));  // node 1
  OPAL_TRY_ASSIGN(opal::am::Endpoint* const to_b, a.context->connect(b.context->address()));
  const std::uint64_t value = 42;
  for (int i = 0; i < 10; ++i) {
    if (to_b->send_or_queue(opal::kUserTags.first, opal::bytes_of(value), {}) != opal::Post::done) return to_b->error();
  }
  run_out(*fabric, a, b);
  const bool heard = b.messages == 10 && a.failed == 0;

  fabric->crash(1, sim::Crash::host);
  (void)to_b->send_or_queue(opal::kUserTags.first, opal::bytes_of(value), {});
  run_out(*fabric, a, b);
  return heard && b.messages == 10 && a.failed == 1;
}

}  // namespace

int main() {
  const auto right = run();
  if (!right) std::fprintf(stderr, "sim_user: %s\n", to_string(right.error()).c_str());
  if (right && *right) std::puts("sim_user: right");
  return right && *right ? 0 : 1;
}
