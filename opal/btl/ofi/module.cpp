// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/ofi/module.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "opal/btl/component.hpp"
#include "opal/btl/ofi/device/offers.hpp"
#include "opal/core/log.hpp"

namespace opal::btl::ofi {
namespace {

Attributes attributes_of(const Device& device, const Config& config, bool native) {
  const fi_info& info = device.info();
  const bool software = is_software(device.provider());
  Attributes attributes;
  attributes.transport = "ofi";
  attributes.max_send =
      std::min<std::size_t>(config.max_send.bytes, info.ep_attr->max_msg_size - 2 * sizeof(rdm::wire::Frame));
  attributes.eager = attributes.max_send;
  attributes.own_handles = native;
  attributes.latency_ns = software ? 20'000 : 2'500;
  return attributes;
}

bool wants_native(const Device& device, const Config& config) {
  if (!device.has(FI_RMA) || config.rma == "messages") return false;
  if (config.rma == "native") return true;
  if (is_software(device.provider())) return false;
  if (!device.keeps_registrations()) return true;
  log::once(log::Level::info, "btl.ofi keeps", "btl.ofi",
            "put and get go as messages: libfabric keeps registrations after their end, so that peers would access "
            "memory that is no longer exposed; FI_MR_CACHE_MAX_COUNT=0 turns that off");
  return false;
}

}  // namespace

Result<std::unique_ptr<Module>> Module::open(const ModuleParameters& parameters, const Config& config) {
  OPAL_TRY_ASSIGN(Device device, Device::open(config));
  const bool native = wants_native(device, config);
  const Attributes attributes = attributes_of(device, config, native);
  OPAL_TRY_ASSIGN(Waiting waiting, Waiting::create());
  OPAL_TRY_ASSIGN(FabricEndpoint fabric, device.open_endpoint());
  OPAL_TRY(Device::enable(fabric));
  OPAL_TRY_ASSIGN(ReceiveBuffers buffers,
                  ReceiveBuffers::create(device, fabric, rdm::wire::message_size(attributes.max_send),
                                         config.receive_memory.bytes));
  if (fabric.wait_fd >= 0) OPAL_TRY(waiting.watch(fabric.wait_fd));
  OPAL_TRY_ASSIGN(auto name, Device::name_of(fabric, rdm::wire::kMostName));
  log::debug("btl.ofi", "provider {}, domain {}, put and get {}", device.provider(), device.domain_name(),
             native ? "by the provider" : "by messages");
  Parts parts{
      .attributes = attributes,
      .settings = config.settings,
      .address = make_address(parameters, kMagic, device.provider(), device.info().addr_format, std::move(name)),
      .waiting = std::move(waiting),
      .inline_size = device.info().tx_attr->inject_size};
  std::unique_ptr<Module> module{
      new Module{parameters, config, std::move(parts), std::move(device), std::move(fabric), std::move(buffers)}};
  module->receive_buffers_.post_missing();
  return module;
}

Module::Module(const ModuleParameters& parameters, const Config& config, Parts parts, Device device,
               FabricEndpoint messages, ReceiveBuffers receive_buffers)
    : Transport(parameters, std::move(parts),
                [this](const Mapping& memory, std::uint32_t count, auto& buffers) -> Result<void> {
                  OPAL_TRY_ASSIGN(MemoryRegion region, device_.register_buffers(memory));
                  void* const descriptor = region == nullptr ? nullptr : fi_mr_desc(region.get());
                  for (std::uint32_t i = 0; i < count; ++i) buffers.push_back(&buffers_.emplace_back(descriptor));
                  if (region != nullptr) regions_.push_back(std::move(region));
                  return {};
                }),
      config_(config),
      device_(std::move(device)),
      receive_buffers_(std::move(receive_buffers)),
      messages_(std::move(messages)),
      memory_(device_, messages_, parameters.registrations),
      one_sided_(*this) {}

Module::~Module() {
  end_all();
  if (inherited()) return;  // no call of libfabric (objects.hpp), whose descriptors stay open in the child
  wait_for_leaving(rdm::kCloseTimeout);
}

std::string Module::describe_network() const {
  return fmt::format("libfabric's {}, domain {}", device_.provider(), device_.domain_name());
}

Result<std::uint64_t> Module::reach(const rdm::Address& address) {
  const std::string name{reinterpret_cast<const char*>(address.name.data()), address.name.size()};
  if (const auto known = reached_.find(name); known != reached_.end()) return known->second;
  fi_addr_t added = FI_ADDR_UNSPEC;
  const int count = fi_av_insert(device_.addresses(), name.data(), 1, &added, 0, nullptr);
  if (count != 1) return count < 0 ? error_of(count, "fi_av_insert") : Error{Errc::unreachable, 0, "fi_av_insert"};
  reached_.emplace(name, added);
  return added;
}

// ---- Component --------------------------------------------------------------------------------------------------

const Component& component() noexcept {
  static constexpr Component kComponent{
      .name = "ofi",
      .summary = kSummary,
      .exclusivity = kExclusivity,
      .vars = &kGroup,
      .usable = [](const config::Store& store) noexcept -> Result<void> {
        OPAL_TRY_ASSIGN(const Config config, store.load(kGroup));
        return provider_present(config);
      },
      .open = [](const ModuleParameters& parameters, const config::Store& store) -> Result<Modules> {
        OPAL_TRY_ASSIGN(Config config, store.load(kGroup));
        config.settings.connect_timeout = parameters.connect_timeout;
        return only(Module::open(parameters, config));
      },
  };
  return kComponent;
}

}  // namespace opal::btl::ofi
