// SPDX-License-Identifier: Apache-2.0
// Opening and closing a shared-memory module, waiting, and the round of progress().
#include "opal/btl/sm/module.hpp"

#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>

#include "opal/btl/shared/rdma_emulation.hpp"
#include "opal/btl/sm/single_copy/cma.hpp"
#include "opal/core/sync/asymmetric_fence.hpp"
#include "opal/core/log.hpp"

namespace opal::btl::sm {
namespace {

constexpr std::size_t kLeastFromFifo = 8;  // per round, however busy the boxes are
constexpr std::size_t kMostFromBox = 32;   // per round and peer: a busy one must not starve the others

Attributes attributes_of(const Config& config) {
  Attributes attributes;
  attributes.transport = "sm";
  attributes.exclusivity = kExclusivity;
  attributes.max_send = config.max_send.bytes;
  attributes.eager = config.eager.bytes;
  attributes.latency_ns = 100;
  attributes.bandwidth_Bps = 10'000'000'000;
  return attributes;
}

Result<void> check(const Config& config) {
  if (config.eager >= config.max_send) {
    return Error{Errc::invalid_argument, 0, "btl_sm_eager must be below btl_sm_max_send", config.eager.bytes};
  }
  if (config.small_fragment >= config.max_send) {
    return Error{Errc::invalid_argument, 0, "btl_sm_max_send must be above the size of a small fragment",
                 config.small_fragment.bytes};
  }
  // A quarter of the segment is for small fragments, the rest for large ones: two of each keep a stream going.
  if (config.segment_size.bytes / 4 < 3 * config.small_fragment.bytes ||
      config.segment_size.bytes < 4 * config.max_send.bytes) {
    return Error{Errc::invalid_argument, 0, "btl_sm_segment_size is too small for four messages of btl_sm_max_send",
                 config.segment_size.bytes};
  }
  return {};
}

/// btl_sm_large_get; nothing for `auto`.
Result<std::optional<Way>> parse_way(const std::string& name) {
  if (name == "auto") return std::optional<Way>{};
  if (name == "alone") return std::optional{Way::alone};
  if (name == "cooperative") return std::optional{Way::cooperative};
  if (name == "pipelined") return std::optional{Way::pipelined};
  log::error("btl.sm", "btl_sm_large_get: \"{}\" is none of auto, alone, cooperative, pipelined", name);
  return Error{Errc::invalid_argument, 0, "btl_sm_large_get: allowed are auto, alone, cooperative and pipelined"};
}

}  // namespace

Module::Module(const Host& host, Parts parts)
    : MessageTransport(host, parts.attributes),
      config_(parts.config),
      forced_way_(parts.forced_way),
      inbox_(std::move(parts.inbox)),
      doorbell_(std::move(parts.doorbell)),
      local_(config_, host.id, inbox_.fd(), host.registrations, doorbell_.get(), std::move(parts.order),
             std::move(parts.devices), parts.fences),
      by_index_(wire::kMaxPeers) {}

Result<std::unique_ptr<Module>> Module::open(const Host& host, const Config& config) {
  OPAL_TRY_ASSIGN(Parts parts, Parts::make(host, config));
  return open(host, std::move(parts));
}

Result<std::unique_ptr<Module>> Module::open(const Host& host, const Config& config, MechanismOrder order,
                                             KernelDevices devices) {
  OPAL_TRY_ASSIGN(Parts parts, Parts::make(host, config, std::move(order), std::move(devices)));
  return open(host, std::move(parts));
}

Result<std::unique_ptr<Module>> Module::open(const Host& host, Parts parts) {
  std::unique_ptr<Module> module{new Module{host, std::move(parts)}};
  OPAL_TRY(module->start());
  return module;
}

Result<Module::Parts> Module::Parts::make(const Host& host, const Config& config) {
  OPAL_TRY_ASSIGN(MechanismOrder order, MechanismOrder::parse(config.single_copy));
  KernelDevices devices = KernelDevices::open(order);
  return make(host, config, std::move(order), std::move(devices));
}

Result<Module::Parts> Module::Parts::make(const Host& host, const Config& config, MechanismOrder order,
                                          KernelDevices devices) {
  OPAL_TRY(check(config));
  OPAL_TRY_ASSIGN(const std::optional<Way> forced_way, parse_way(config.large_get));
  if (order.has(MechanismKind::cma)) CmaMechanism::invite_peers();
  OPAL_TRY_ASSIGN(Inbox inbox, Inbox::create(host.id, config.fifo_slots));
  Fd doorbell{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  if (!doorbell) return Error{Errc::os, errno, "eventfd(sm doorbell)"};
  return Parts{attributes_of(config),
               config,
               std::move(order),
               std::move(devices),
               forced_way,
               std::move(inbox),
               std::move(doorbell),
               !host.cores_shared && accept_remote_fences()};
}

Result<void> Module::start() {
  // One for all modules of the Context: it finds out from the sender which it is for.
  if (host().handlers.find(wire::kPull) == nullptr) {
    OPAL_TRY(host().handlers.set(wire::kPull, {&Module::on_pull_request, nullptr, "sm pull request"}));
  }
  const PeerId door = PeerId::random();
  OPAL_TRY_ASSIGN(address_, Address::here(host().id, door));
  OPAL_TRY_ASSIGN(connections_, ConnectionManager::start(local_, door, doorbell_.get()));
  return {};
}

Module::~Module() {
  if (connections_ != nullptr && connections_->inherited())
    return;  // what it would end is the parent's, in shared memory
  // Completions may post; everything they could reach must be dead first.
  for (const auto& endpoint : endpoints_) {
    if (!endpoint->dead()) fail(*endpoint, {Errc::canceled, 0, "sm: the module is being closed"});
  }
  for (const auto& endpoint : endpoints_) {
    if (endpoint->told_) continue;
    abandon_pulls(*endpoint, endpoint->error());
    emulation().endpoint_gone(*endpoint, endpoint->error());
  }
}

std::size_t Module::progress(std::size_t budget) noexcept {
  if (in_progress_) return 0;
  in_progress_ = true;
  std::size_t count = 0;
  if (connections_->has_events()) [[unlikely]]
    count += handle_connection_events();
  if (inbox_.is_notified()) [[unlikely]]
    answer_notifications();
  for (std::size_t i = 0; i < boxes_.size(); ++i) {  // handlers may add boxes
    Endpoint& from = *boxes_[i];
    if (!from.box_in_.ready()) continue;
    from.box_heard_ = round_;
    count += receive_from_box(from, std::clamp<std::size_t>(budget, 1, kMostFromBox));
  }
  if (!inbox_.fifo().empty()) count += poll_fifo(std::max(budget - std::min(count, budget), kLeastFromFifo));
  if (!blocked_.empty()) [[unlikely]]
    check_blocked();
  if (!pulling_.empty() || !feeding_.empty()) count += progress_pulls();
  if (count != 0) look_who_waits_for_room();
  if (unsettled_) [[unlikely]]
    count += settle();
  count += emulation().progress();
  if (++round_ % kSweepRounds == 0) [[unlikely]] {
    inbox_.fifo().heal();
    park_some();
  }
  if (armed_ && count != 0) [[unlikely]]
    disarm();
  in_progress_ = false;
  return count;
}

bool Module::has_work() const noexcept {
  if (connections_->has_events() || inbox_.is_notified() || !inbox_.fifo().empty() || !leaving_.empty() ||
      !failed_.empty())
    return true;
  if (pulls_have_work() || room_has_come()) return true;
  return std::any_of(boxes_.begin(), boxes_.end(), [](const Endpoint* from) { return from->box_in_.ready(); });
}

bool Module::arm() noexcept {
  eventfd_t old_rings = 0;  // for what we look for below, or have seen already
  if (::eventfd_read(doorbell_.get(), &old_rings) != 0 && errno == EBADF) lose_descriptors();
  // What it cannot send now is among what announce_starved() tells the peers.
  if (!emulation().arm()) return false;
  if (++sleep_ == 0) sleep_ = 1;
  armed_ = true;
  inbox_.sleeping().store(sleep_, std::memory_order_relaxed);
  announce_starved();
  // Every sender now either sees that we sleep, or has published what we look for next; every receiver sees what we
  // wait for, or has made the room that we look for.
  receiver_fence(local_.fences());
  inbox_.fifo().heal();
  if (!has_work()) return true;
  disarm();
  return false;
}

/// The program has closed descriptors that are not its own: no peer can wake us, nor see that we are there.
void Module::lose_descriptors() noexcept {
  const Error why{Errc::os, EBADF, "sm: the program has closed this transport's descriptors"};
  log::once(log::Level::error, "sm descriptors closed", "btl.sm", "{}; nothing reaches local peers any more",
            to_string(why));
  for (const auto& endpoint : endpoints_) fail(*endpoint, why);
}

void Module::disarm() noexcept {
  armed_ = false;
  withdraw_announced();
  inbox_.sleeping().store(0, std::memory_order_relaxed);
}

}  // namespace opal::btl::sm
