// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/verbs/module.hpp"

#include "opal/btl/component.hpp"
#include "opal/btl/rails/module.hpp"
#include "opal/btl/shared/rdma_emulation.hpp"
#include "opal/btl/shared/registrations/memory_limits.hpp"
#include "opal/core/log.hpp"

namespace opal::btl::verbs {
namespace {

Attributes attributes_of(const Config& config) {
  Attributes attributes;
  attributes.transport = "verbs";
  attributes.max_send = config.max_send.bytes;
  attributes.eager = config.max_send.bytes;
  attributes.own_handles = true;
  attributes.latency_ns = 1'500;
  return attributes;
}

bool wants_device_atomics(const Device& device, const Config& config) noexcept {
  if (config.atomics == "device") return device.attributes().atomic_cap != IBV_ATOMIC_NONE;
  return config.atomics == "auto" && device.attributes().atomic_cap == IBV_ATOMIC_GLOB;
}

std::uint64_t message_memory(const Device& device, const Config& config) noexcept {
  if (config.message_memory.bytes != 0) return config.message_memory.bytes;
  // The driver siw applies the limit to root, too.
  const std::uint64_t lockable = lockable_memory(!device.iwarp());
  return lockable == UINT64_MAX ? lockable : lockable / 2;
}

std::uint64_t pin_limit(const Device& device, const Config& config) noexcept {
  if (device.iwarp()) return 0;  // peers do not access memory through an iWARP device
  return config.pin_limit.bytes != 0 ? config.pin_limit.bytes : usable_memory() / 2;
}

}  // namespace

Result<std::unique_ptr<Module>> Module::open(const ModuleParameters& parameters, const Config& config,
                                             std::size_t rail) {
  OPAL_TRY_ASSIGN(Listener listener, Listener::open(config.devices, rail));
  OPAL_TRY_ASSIGN(Device device, Device::open(listener.device.c_str(), config));
  OPAL_TRY_ASSIGN(Waiting waiting, Waiting::create());
  for (const int fd : {device.channel()->fd, device.context()->async_fd, listener.channel->fd}) {
    OPAL_TRY(waiting.watch(fd));
  }
  ibv_port_attr port{};
  OPAL_TRY(
      check(ibv_query_port(device.context(), listener.id->port_num, &port), "ibv_query_port", listener.id->port_num));
  const SocketAddress& socket = listener.socket;
  const wire::Address address{wire::kMagic,  wire::kWireVersion, socket.port_number(),
                              parameters.id, fresh_nonce(),      socket.ip};
  log::debug("btl.verbs", "device {} at {}", listener.device, to_string(socket));
  std::unique_ptr<Module> module{
      new Module{parameters, config, std::move(listener), std::move(device), std::move(waiting), address}};
  module->largest_request_ = std::min<std::uint64_t>(config.max_request.bytes, port.max_msg_sz);
  return module;
}

Module::Module(const ModuleParameters& parameters, const Config& config, Listener listener, Device device,
               Waiting waiting, const wire::Address& address)
    : DeviceTransport(parameters, attributes_of(config)),
      config_(config),
      listener_(std::move(listener)),
      device_(std::move(device)),
      waiting_(std::move(waiting)),
      address_(address),
      key_(parameters.secret.derive(wire::kConnectionKey, bytes_of(address.token))),
      receive_buffers_(sizeof(wire::Frame) + config.max_send.bytes),
      send_buffers_(sizeof(wire::Frame) + config.max_send.bytes),
      message_memory_(message_memory(device_, config)),
      most_sends_(config.send_buffers),
      reserve_(device_.iwarp() ? Endpoint::kReserve : 0),
      device_atomics_(wants_device_atomics(device_, config)),
      memory_(device_, config.on_demand, parameters.registrations, pin_limit(device_, config), device_atomics_) {}

/// The kernel keeps the queue pairs while any process has a descriptor of the device open; peers would not see the
/// parent's end.  So the child closes its descriptors.
void Module::close_in_child() noexcept {
  listener_.channel.reset();
  device_.close_in_child();
  waiting_.close_in_child();
}

Module::~Module() {
  if (!inherited()) listener_.id.reset();
  end_all();
  wait_for_leaving(kCloseTimeout);
}

// ---- Messages ---------------------------------------------------------------------------------------------------

Fragment Module::alloc(btl::Endpoint& to, std::size_t size) noexcept {
  if (!accepts(to, size)) return {};
  Buffer* buffer = take_send_buffer();
  return buffer == nullptr ? Fragment{} : Fragment{to, {buffer->data + sizeof(wire::Frame), size}, buffer};
}

void Module::free(Fragment& fragment) noexcept {
  give_back(*static_cast<Buffer*>(fragment.slot()));
  fragment.disown();
}

// ---- Memory, puts, gets and atomics -------------------------------------------------------------------------------

Result<MemoryHandle> Module::register_memory(void* base, std::uint64_t size, Rights rights) {
  if (gone_.code != Errc{}) return gone_;
  return memory_.add(base, size, rights);
}

Module::Way Module::way_to(Endpoint& endpoint) noexcept {
  OneSidedQueue* const queue = endpoint.one_sided_queue();
  if (queue == nullptr) return Way::messages;
  return queue->ready() ? Way::device : Way::later;
}

bool Module::has_atomic(AtomicOp op, AtomicType type) const noexcept {
  return device_atomics_ && (type == AtomicType::i64 || type == AtomicType::u64) &&
         (op == AtomicOp::add || op == AtomicOp::compare_swap);
}

void Module::start(RdmaOperation& operation) noexcept {
  static_cast<Endpoint*>(operation.to)->one_sided_queue()->start(operation);
}

void Module::finish(RdmaOperation& operation, const Error& why) noexcept {
  count_event();
  operations().finish(operation, why);
}

Post Module::flush(btl::Endpoint* to, Completion& completion) noexcept {
  post_collected();
  return DeviceTransport::flush(to, completion);
}

// ---- Component --------------------------------------------------------------------------------------------------

namespace {

Result<Modules> open_devices(const ModuleParameters& parameters, const config::Store& store) {
  OPAL_TRY_ASSIGN(Config config, store.load(kGroup));
  config.connect_timeout = parameters.connect_timeout;
  const auto open_rail = [&](const ModuleParameters& below, std::size_t rail) -> Result<std::unique_ptr<btl::Module>> {
    OPAL_TRY_ASSIGN(auto module, Module::open(below, config, rail));
    return std::unique_ptr<btl::Module>{std::move(module)};
  };
  OPAL_TRY_ASSIGN(Modules modules, rails::open_rails(parameters, config.rails, open_rail));
  if (auto* const joined = dynamic_cast<rails::Module*>(modules.front().get()); joined != nullptr) {
    for (const auto& rail : joined->rails()) {
      static_cast<Module&>(*rail).set_other_rails(
          [joined](const btl::Endpoint& endpoint) { return joined->has_other_route(endpoint); });
    }
  }
  return modules;
}

}  // namespace

const Component& component() noexcept {
  static constexpr Component kComponent{
      .name = "verbs",
      .summary = kSummary,
      .exclusivity = kExclusivity,
      .vars = &kGroup,
      .usable = [](const config::Store&) noexcept { return devices_present(); },
      .open = &open_devices,
  };
  return kComponent;
}

}  // namespace opal::btl::verbs
