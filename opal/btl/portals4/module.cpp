// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/portals4/module.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "opal/btl/component.hpp"
#include "opal/core/log.hpp"

namespace opal::btl::portals4 {
namespace {

constexpr std::size_t kArrivals = 8192;  // events of arriving messages; flow control covers the rest

Attributes attributes_of(const Interface& interface, const Config& config) {
  Attributes attributes;
  attributes.transport = "portals4";
  attributes.max_send =
      std::min<std::size_t>(config.max_send.bytes, interface.limits().max_msg_size - 2 * sizeof(rdm::wire::Frame));
  attributes.eager = attributes.max_send;
  attributes.own_handles = true;
  attributes.latency_ns = 2'000;
  return attributes;
}

}  // namespace

Result<std::unique_ptr<Module>> Module::open(const ModuleParameters& parameters, const Config& config) {
  OPAL_TRY_ASSIGN(const Interface* const interface, Interface::open(config.library));
  const Attributes attributes = attributes_of(*interface, config);
  OPAL_TRY_ASSIGN(Waiting waiting, Waiting::create());
  OPAL_TRY_ASSIGN(ReceiveBuffers buffers,
                  ReceiveBuffers::create(rdm::wire::message_size(attributes.max_send), config.receive_memory.bytes));
  const std::size_t ends = 2 * (config.settings.send_buffers + OneSided::kDepth);
  OPAL_TRY_ASSIGN(Objects objects, Objects::create(*interface, kArrivals, ends));
  OPAL_TRY_ASSIGN(auto wake_up, WakeUp::create(*interface, objects));
  OPAL_TRY(waiting.watch(wake_up->fd()));
  const ptl_process_t& process = interface->process();
  const Name name{process.phys.nid, process.phys.pid, objects.message_entry(), objects.memory_entry()};
  const ByteSpan bytes = bytes_of(name);
  Parts parts{.attributes = attributes,
              .settings = config.settings,
              .address = make_address(parameters, kMagic, "portals4", 0, {bytes.begin(), bytes.end()}),
              .waiting = std::move(waiting)};
  std::unique_ptr<Module> module{new Module{parameters, config, std::move(parts), *interface, std::move(objects),
                                            std::move(buffers), std::move(wake_up)}};
  if (!module->receive_buffers_.post_idle(module->interface(), module->objects())) {
    return Error{Errc::limit_reached, 0, "portals4: the interface has no room for receive buffers"};
  }
  return module;
}

Module::Module(const ModuleParameters& parameters, const Config& config, Parts parts, const Interface& interface,
               Objects objects, ReceiveBuffers receive_buffers, std::unique_ptr<WakeUp> wake_up)
    : Transport(parameters, std::move(parts),
                [this](const Mapping&, std::uint32_t count, std::vector<rdm::SendBuffer*>& buffers) -> Result<void> {
                  for (std::uint32_t i = 0; i < count; ++i) buffers.push_back(&buffers_.emplace_back());
                  return {};
                }),
      interface_(interface),
      objects_(std::move(objects)),
      max_request_(std::min<std::uint64_t>(config.max_request.bytes, interface.limits().max_msg_size)),
      receive_buffers_(std::move(receive_buffers)),
      wake_up_(std::move(wake_up)),
      memory_(interface_, objects_, parameters.registrations),
      one_sided_(*this) {}

void Module::close_in_child() noexcept {
  Transport::close_in_child();
  wake_up_->abandon();
}

Module::~Module() {
  end_all();
  if (inherited()) {  // no call of Portals, which would change what the parent uses
    objects_.abandon();
    return;
  }
  wait_for_leaving(rdm::kCloseTimeout);
  wait_for_ends();
  wake_up_.reset();
  memory_.unlink_all();
  if (!receive_buffers_.unlink(interface())) objects_.abandon();
}

std::string Module::describe_network() const {
  const ptl_process_t& process = interface().process();
  return fmt::format("Portals 4, nid {}, pid {}", process.phys.nid, process.phys.pid);
}

Result<std::uint64_t> Module::reach(const rdm::Address& address) {
  if (address.name.size() != sizeof(Name)) return Error{Errc::protocol, 0, "address: not one of Portals 4"};
  return std::uint64_t{0};  // transmit() takes the name
}

// ---- Component --------------------------------------------------------------------------------------------------

const Component& component() noexcept {
  static constexpr Component kComponent{
      .name = "portals4",
      .summary = kSummary,
      .exclusivity = kExclusivity,
      .vars = &kGroup,
      .usable = [](const config::Store& store) noexcept -> Result<void> {
        OPAL_TRY_ASSIGN(const Config config, store.load(kGroup));
        OPAL_TRY(Interface::open(config.library));
        return {};
      },
      .open = [](const ModuleParameters& parameters, const config::Store& store) -> Result<Modules> {
        OPAL_TRY_ASSIGN(Config config, store.load(kGroup));
        config.settings.connect_timeout = parameters.connect_timeout;
        return only(Module::open(parameters, config));
      },
  };
  return kComponent;
}

}  // namespace opal::btl::portals4
