// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/ofi/module.hpp"

#include <algorithm>

#include "opal/btl/ofi/device/offers.hpp"
#include "opal/core/clock.hpp"
#include "opal/core/log.hpp"

namespace opal::btl::ofi {
namespace {

Attributes attributes_of(const Device& device, const Config& config, bool native) {
  const fi_info& info = device.info();
  const bool software = is_software(device.provider());
  const bool has_link = info.nic != nullptr && info.nic->link_attr != nullptr && info.nic->link_attr->speed != 0;
  Attributes attributes;
  attributes.transport = "ofi";
  attributes.exclusivity = kExclusivity;
  attributes.max_send =
      std::min<std::size_t>(config.max_send.bytes, info.ep_attr->max_msg_size - 2 * sizeof(wire::Frame));
  attributes.eager = attributes.max_send;
  attributes.own_handles = native;
  attributes.latency_ns = software ? 20'000 : 2'500;
  attributes.bandwidth_Bps = has_link ? info.nic->link_attr->speed / 8 : software ? 2'000'000'000 : 12'500'000'000;
  return attributes;
}

bool wants_native(const Device& device, const Config& config) {
  if (!device.has(FI_RMA) || config.rma == "messages") return false;
  return config.rma == "native" || !is_software(device.provider());
}

}  // namespace

std::uint64_t Module::time_after(std::chrono::milliseconds time) noexcept {
  return now_ns() + static_cast<std::uint64_t>(std::chrono::nanoseconds{time}.count());
}

Result<std::unique_ptr<Module>> Module::open(const ModuleParameters& parameters, const Config& config) {
  OPAL_TRY_ASSIGN(Device device, Device::open(config));
  const bool native = wants_native(device, config);
  const Attributes attributes = attributes_of(device, config, native);
  OPAL_TRY_ASSIGN(Waiting waiting, Waiting::create());
  OPAL_TRY_ASSIGN(FabricEndpoint fabric, device.open_endpoint());
  OPAL_TRY(Device::enable(fabric));
  OPAL_TRY_ASSIGN(
      ReceiveBuffers buffers,
      ReceiveBuffers::create(device, fabric, wire::message_size(attributes.max_send), config.receive_memory.bytes));
  if (fabric.wait_fd >= 0) OPAL_TRY(waiting.watch(fabric.wait_fd));
  Address address{};
  OPAL_TRY_ASSIGN(address.name, Device::name_of(fabric, wire::kMostName));
  address.head.id = parameters.id;
  address.head.token = fresh_nonce();
  address.head.host = this_host();
  address.head.process = static_cast<std::uint32_t>(::getpid());
  address.head.format = device.info().addr_format;
  address.head.provider = provider_name(device.provider());
  log::debug("btl.ofi", "provider {}, domain {}, put and get {}", device.provider(), device.domain_name(),
             native ? "by the provider" : "by messages");
  std::unique_ptr<Module> module{new Module{parameters, config, attributes, native, std::move(device),
                                            std::move(fabric), std::move(buffers), std::move(waiting),
                                            std::move(address)}};
  module->receive_buffers_.post_idle();
  return module;
}

Module::Module(const ModuleParameters& parameters, const Config& config, const Attributes& attributes, bool native,
               Device device, FabricEndpoint messages, ReceiveBuffers receive_buffers, Waiting waiting, Address address)
    : ConnectedTransport(parameters, attributes),
      config_(config),
      device_(std::move(device)),
      book_(device_.addresses()),
      send_buffers_(device_,
                    wire::message_size(std::max(attributes.max_send,
                                                sizeof(wire::Hello) + wire::kMostName + sizeof(wire::AddressHead))),
                    config.send_buffers),
      receive_buffers_(std::move(receive_buffers)),
      waiting_(std::move(waiting)),
      address_(std::move(address)),
      address_bytes_(encode(address_)),
      key_(connection_key(parameters.secret, address_.head.token)),
      inline_size_(std::min(kMostInline, device_.info().tx_attr->inject_size)),
      native_(native),
      messages_(std::move(messages)),
      memory_(device_, messages_, parameters.registrations),
      pipelined_(*this, emulation(), operations()),
      one_sided_(*this) {}

/// Closes what this process alone uses.  libfabric's descriptors stay open in the child: they are the library's.
void Module::close_in_child() noexcept {
  for (const auto& [peer, endpoint] : living()) endpoint->forget_process();
  for (const auto& endpoint : leaving()) endpoint->forget_process();
  waiting_.close_in_child();
}

/// In a forked child: no call of libfabric, which would change what the parent uses.
void Module::abandon() noexcept {
  one_sided_.abandon();
  memory_.abandon();
  messages_.abandon();
  receive_buffers_.abandon();
  send_buffers_.abandon();
  device_.abandon();
}

Module::~Module() {
  end_all();
  if (inherited()) {
    abandon();
    return;
  }
  wait_for_leaving(kCloseTimeout);
}

// ---- Messages ---------------------------------------------------------------------------------------------------

void Module::deliver(Endpoint& from, Tag tag, ByteSpan data) noexcept {
  if (turns_ != 0) --turns_;
  ++events_;
  Delivery delivery{from, tag, data};
  parameters().handlers.dispatch(delivery);
}

Post Module::send_inline(btl::Endpoint& to, Tag tag, ByteSpan header, ByteSpan payload) noexcept {
  return static_cast<Endpoint&>(to).send_inline(tag, header, payload);
}

Fragment Module::alloc(btl::Endpoint& to, std::size_t size) noexcept {
  if (!accepts(to, size)) return {};
  SendBuffer* const buffer = send_buffers_.take();
  return buffer == nullptr ? Fragment{} : Fragment{to, {buffer->data + sizeof(wire::Frame), size}, buffer};
}

Post Module::send(Fragment& fragment, Tag tag) noexcept {
  auto& to = static_cast<Endpoint&>(fragment.to());
  const Post post = to.send_buffer(tag, *static_cast<SendBuffer*>(fragment.slot()), fragment.data().size());
  if (post == Post::failed) {
    free(fragment);
  } else if (post == Post::done) {
    fragment.disown();
  }
  return post;
}

void Module::free(Fragment& fragment) noexcept {
  send_buffers_.give_back(*static_cast<SendBuffer*>(fragment.slot()));
  fragment.disown();
}

}  // namespace opal::btl::ofi
