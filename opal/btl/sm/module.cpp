// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/sm/module.hpp"

#include <sys/eventfd.h>

#include <cerrno>
#include <utility>

#include "opal/btl/component.hpp"
#include "opal/btl/shared/rdma_emulation.hpp"
#include "opal/btl/shared/registrations/claims.hpp"
#include "opal/btl/sm/single_copy/cma.hpp"
#include "opal/core/log.hpp"
#include "opal/core/sync/asymmetric_fence.hpp"

namespace opal::btl::sm {
namespace {

Attributes attributes_of(const Config& config) {
  Attributes attributes;
  attributes.transport = "sm";
  attributes.max_send = config.max_send.bytes;
  attributes.eager = config.eager.bytes;
  attributes.latency_ns = 100;
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
  // A quarter of the segment is for small fragments, three quarters for large ones.  A stream needs two of each size.
  if (config.segment_size.bytes / 4 < 3 * config.small_fragment.bytes ||
      config.segment_size.bytes < 4 * config.max_send.bytes) {
    return Error{Errc::invalid_argument, 0, "btl_sm_segment_size is too small for four messages of btl_sm_max_send",
                 config.segment_size.bytes};
  }
  return {};
}

/// The mode that btl_sm_large_get names; none for `auto`.
std::optional<TransferMode> mode_of(const std::string& name) noexcept {
  if (name == "alone") return TransferMode::alone;
  if (name == "cooperative") return TransferMode::cooperative;
  if (name == "pipelined") return TransferMode::pipelined;
  return std::nullopt;
}

}  // namespace

Module::Module(const ModuleParameters& parameters, Parts parts)
    : MessageTransport(parameters, parts.attributes),
      config_(parts.config),
      doorbell_(std::move(parts.doorbell)),
      local_(config_, parameters.id, parts.inbox.fd(), parameters.registrations, doorbell_.get(),
             std::move(parts.order), std::move(parts.devices), parts.fences),
      connections_(*this, config_, *this, deferred_work_),
      receiver_(std::move(parts.inbox), config_, parts.fences, parameters.handlers, connections_, deferred_work_),
      sender_(config_, connections_, receiver_.back_pressure()),
      initiator_(config_, TransferModes{config_, parts.forced_mode}, parameters.cores_shared, receiver_.fast_boxes(),
                 connections_, emulation(), operations()),
      target_(parameters.registrations, connections_) {}

Result<std::unique_ptr<Module>> Module::open(const ModuleParameters& parameters, const Config& config,
                                             std::optional<KernelDevices> devices) {
  OPAL_TRY_ASSIGN(Parts parts, Parts::make(parameters, config, std::move(devices)));
  std::unique_ptr<Module> module{new Module{parameters, std::move(parts)}};
  OPAL_TRY(module->start());
  return module;
}

Result<Module::Parts> Module::Parts::make(const ModuleParameters& parameters, const Config& config,
                                          std::optional<KernelDevices> devices) {
  OPAL_TRY_ASSIGN(MechanismOrder order, MechanismOrder::parse(config.single_copy));
  if (!devices) devices = KernelDevices::open(order);
  OPAL_TRY(check(config));
  if (order.has(MechanismKind::cma)) CmaMechanism::permit_peers();
  OPAL_TRY_ASSIGN(Inbox inbox, Inbox::create(parameters.id, config.fifo_slots));
  Fd doorbell{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  if (!doorbell) return Error{Errc::os, errno, "eventfd(sm doorbell)"};
  return Parts{attributes_of(config),     config,
               std::move(order),          std::move(*devices),
               mode_of(config.large_get), std::move(inbox),
               std::move(doorbell),       !parameters.cores_shared && accept_remote_fences()};
}

Result<void> Module::start() {
  // One handler for all modules of the Context: it finds the module by the sender's endpoint.
  if (parameters().handlers.find(wire::kHelpRequest) == nullptr) {
    OPAL_TRY(parameters().handlers.set(wire::kHelpRequest, {&Module::on_help_request, nullptr, "sm help request"}));
  }
  return connections_.start(local_, doorbell_.get(), receiver_.inbox().fifo());
}

Module::~Module() {
  if (connections_.inherited()) return;  // the operations and the shared memory are the parent's
  // Completions may post, so every endpoint fails first.
  const auto& endpoints = connections_.endpoints();
  for (const auto& endpoint : endpoints) {
    if (!endpoint->dead()) connections_.fail(*endpoint, {Errc::canceled, 0, "sm: the module is being closed"});
  }
  for (const auto& endpoint : endpoints) {
    if (!endpoint->ending.reported) end_operations(*endpoint, endpoint->error());
  }
}

// ---- Connections

Result<btl::Endpoint*> Module::connect(const PeerId& peer, ByteSpan address) {
  return connections_.connect(peer, address);
}

void Module::disconnect(btl::Endpoint& peer) noexcept {
  // In a forked child: the transfers, the claim words in shared memory and the completions are its parent's.
  if (connections_.inherited()) return;
  constexpr Error kWhy{Errc::canceled, 0, "sm: disconnected"};
  auto& endpoint = static_cast<Endpoint&>(peer);
  connections_.fail(endpoint, kWhy);
  end_operations(endpoint, kWhy);
  connections_.disconnect(endpoint);
}

void Module::on_new(Endpoint& endpoint) noexcept { receiver_.add(endpoint); }

void Module::drain(Endpoint& endpoint) noexcept { receiver_.drain_fast_box(endpoint); }

void Module::end_operations(Endpoint& endpoint, const Error& why) noexcept {
  receiver_.forget(endpoint);
  target_.abandon(endpoint);
  initiator_.abandon(endpoint, why);
  abandon(endpoint, why);
  if (!endpoint.ending.reported) emulation().endpoint_gone(endpoint, why);
}

std::uint64_t Module::extensions(const btl::Endpoint& peer) noexcept {
  return static_cast<const Endpoint&>(peer).link().extensions;
}

void Module::expect_file(const btl::Endpoint& from) noexcept {
  connections_.manager().expect_file(static_cast<const Endpoint&>(from).link().id);
}

void Module::give_file(const btl::Endpoint& to, const SoftwareHandle& region, const FileNote& note, int file) noexcept {
  connections_.manager().give_file(static_cast<const Endpoint&>(to).link().id, region, note, file);
}

// ---- Messages

Post Module::send_inline(btl::Endpoint& to, Tag tag, ByteSpan header, ByteSpan payload) noexcept {
  auto& peer = static_cast<Endpoint&>(to);
  if (peer.send_lock == nullptr && Sender::try_send_concurrent(peer, tag, header, payload) == Post::done) [[likely]]
    return Post::done;
  // peer.module() is this module.  Used instead of `this`, so that no register holds `this` during the attempt above.
  return static_cast<Module&>(peer.module()).sender_.send_slow(peer, tag, header, payload);
}

Post Module::send_beside(btl::Endpoint& to, Tag tag, ByteSpan header, ByteSpan payload) noexcept {
  return Sender::try_send_concurrent(static_cast<Endpoint&>(to), tag, header, payload);
}

Fragment Module::alloc(btl::Endpoint& to, std::size_t size) noexcept {
  return sender_.alloc(static_cast<Endpoint&>(to), size);
}

Post Module::send(Fragment& fragment, Tag tag) noexcept { return sender_.send(fragment, tag); }

void Module::free(Fragment& fragment) noexcept { Sender::free(fragment); }

// ---- One-sided: resolves the target once, then tries a helped transfer, single copy, and messages, in this order.

Post Module::transfer(RdmaOperation::Kind kind, btl::Endpoint& to, std::byte* here, const MemoryHandle* local,
                      std::uint64_t remote_address, const MemoryHandle& remote, std::uint64_t size,
                      Completion& completion) noexcept {
  auto& peer = static_cast<Endpoint&>(to);
  if (peer.dead()) return refuse(completion, peer.error());
  const auto target = peer.memory().resolve(remote, remote_address, size, right_for(kind));
  if (!target) return refuse(completion, target.error());
  if (initiator_.start(kind, peer, here, *target, completion)) return Post::queued;
  const CopyOutcome outcome = initiator_.copy_alone(kind, peer, here, *target);
  if (outcome.ok()) return Post::done;
  if (outcome.error.code != Errc::not_supported) return refuse(completion, outcome.error);
  return MessageTransport::transfer(kind, to, here + outcome.copied, local, remote_address + outcome.copied, remote,
                                    size - outcome.copied, completion);
}

Post Module::atomic(btl::Endpoint& to, const AtomicRequest& request, Completion& completion) noexcept {
  auto& peer = static_cast<Endpoint&>(to);
  const std::size_t size = size_of(request.type);
  if (peer.memory().shared != nullptr && !peer.dead() && request.remote_address % size == 0 &&
      is_supported(request.op, request.type)) {
    const auto target = peer.memory().resolve(*request.remote, request.remote_address, size, Rights::remote_atomic);
    if (target && target->access == Target::Access::mapped) {
      // The target executes the same instruction for messages, so all atomics on this memory are atomic to each other.
      const std::uint64_t old =
          execute_atomic(request.op, request.type, target->mapped, request.operand, request.compare);
      if (request.result != nullptr) *request.result = old;
      return Post::done;
    }
  }
  return MessageTransport::atomic(to, request, completion);
}

Result<void> Module::check_remote(btl::Endpoint& to, const MemoryHandle& remote, std::uint64_t address,
                                  std::uint64_t size, Rights wanted) noexcept {
  const auto& peer = static_cast<Endpoint&>(to);
  if (peer.dead()) return peer.error();
  OPAL_TRY_ASSIGN(const SoftwareHandle region, SoftwareHandle::decode(remote));
  return peer.memory().check(region, address, size, wanted);
}

/// Handler of wire::kHelpRequest.
void Module::on_help_request(void* /*unused*/, Delivery& delivery) noexcept {
  auto* const module = dynamic_cast<Module*>(&delivery.from.module());
  if (module == nullptr) {  // the handler serves every transport of the Context, but only sm has helped transfers
    log::once(log::Level::warn, "sm help request elsewhere", "btl.sm",
              "help request of {}, which is not connected through shared memory, dropped",
              to_string(delivery.from.peer()));
    return;
  }
  module->target_.on_request(static_cast<Endpoint&>(delivery.from), delivery.data);
}

// ---- Progress and waiting

std::size_t Module::progress(std::size_t budget) noexcept {
  if (in_progress_) return 0;
  in_progress_ = true;
  std::size_t count = 0;
  if (connections_.has_events()) [[unlikely]]
    count += connections_.take_events();
  receiver_.poll(budget, count);
  if (initiator_.is_active() || target_.is_active()) count += initiator_.progress() + target_.progress();
  if (count != 0) receiver_.return_credits();
  if (deferred_work_) [[unlikely]]
    count += do_deferred_work();
  count += emulation().progress();
  receiver_.end_progress();
  if (armed_ && count != 0) [[unlikely]]
    disarm();
  in_progress_ = false;
  return count;
}

std::size_t Module::progress_from(btl::Endpoint& awaited, std::size_t budget) noexcept {
  auto& from = static_cast<Endpoint&>(awaited);
  if (in_progress_ || armed_ || from.receiving.state != ReceivingHalf::FastBox::polled) [[unlikely]]
    return 0;
  in_progress_ = true;
  const std::size_t count = receiver_.poll_from(from, budget);
  in_progress_ = false;
  return count;
}

std::size_t Module::do_deferred_work() noexcept {
  std::size_t count = connections_.finish();
  BackPressure& back_pressure = receiver_.back_pressure();
  if (back_pressure.has_sleepers()) back_pressure.wake_sleepers();
  const bool more = attend(count);
  deferred_work_ = more || back_pressure.has_sleepers() || connections_.has_unfinished();
  return count;
}

bool Module::has_work() noexcept {
  return connections_.has_events() || receiver_.has_messages() || connections_.has_ended() || initiator_.has_work() ||
         target_.has_work() || receiver_.back_pressure().has_credit();
}

bool Module::arm() noexcept {
  eventfd_t old_rings = 0;  // clears earlier rings; their messages were received, or has_work() below sees them
  if (::eventfd_read(doorbell_.get(), &old_rings) != 0 && errno == EBADF) lose_descriptors();
  // Messages that the emulation cannot send now lack a credit, which announce() writes for the peers.
  if (!emulation().arm()) return false;
  if (++sleep_ == 0) sleep_ = 1;
  armed_ = true;
  receiver_.inbox().sleeping().store(sleep_, std::memory_order_relaxed);
  receiver_.back_pressure().announce();
  // After the fence, has_work() sees each published message, or its sender sees `sleeping`.  And has_work() sees each
  // returned credit, or its receiver sees the announcement.
  receiver_fence(local_.fences());
  receiver_.inbox().fifo().heal();
  if (!has_work()) return true;
  disarm();
  return false;
}

/// The program has closed descriptors of this transport.  Peers can neither wake this process nor see that it lives, so
/// all endpoints fail.
void Module::lose_descriptors() noexcept {
  const Error why{Errc::os, EBADF, "sm: the program has closed this transport's descriptors"};
  log::once(log::Level::error, "sm descriptors closed", "btl.sm", "{}; nothing reaches local peers any more",
            to_string(why));
  for (const auto& endpoint : connections_.endpoints()) connections_.fail(*endpoint, why);
}

void Module::disarm() noexcept {
  armed_ = false;
  receiver_.back_pressure().withdraw();
  receiver_.inbox().sleeping().store(0, std::memory_order_relaxed);
}

// ---- Component --------------------------------------------------------------------------------------------------

const Component& component() noexcept {
  static constexpr Component kComponent{
      .name = "sm",
      .summary = "Shared memory between processes of one host",
      .exclusivity = kExclusivity,
      .vars = &kGroup,
      // Errors: os (/proc cannot be read, so that the module has no address).
      .usable = [](const config::Store&) noexcept -> Result<void> {
        OPAL_TRY(Address::here({}, {}));
        return {};
      },
      .open = [](const ModuleParameters& parameters, const config::Store& store) -> Result<Modules> {
        OPAL_TRY_ASSIGN(const Config config, store.load(kGroup));
        return only(Module::open(parameters, config));
      },
  };
  return kComponent;
}

}  // namespace opal::btl::sm
