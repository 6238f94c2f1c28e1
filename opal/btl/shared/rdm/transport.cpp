// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/shared/rdm/transport.hpp"

#include <unistd.h>

#include <algorithm>

#include "opal/btl/shared/host.hpp"

namespace opal::btl::rdm {

Transport::Transport(const ModuleParameters& parameters, Parts parts, SendBuffers::Make make)
    : DeviceTransport(parameters, parts.attributes),
      settings_(parts.settings),
      send_buffers_(wire::message_size(std::max(parts.attributes.max_send,
                                                sizeof(wire::Hello) + wire::kMostName + sizeof(wire::AddressHead))),
                    parts.settings.send_buffers, std::move(make)),
      waiting_(std::move(parts.waiting)),
      address_(std::move(parts.address)),
      address_bytes_(encode(address_)),
      key_(parameters.secret.derive(wire::kConnectionKey, bytes_of(address_.head.token))),
      inline_size_(std::min(kMostInline, parts.inline_size)) {}

Address Transport::make_address(const ModuleParameters& parameters, std::uint32_t magic, std::string_view network,
                                std::uint32_t format, std::vector<std::byte> name) {
  const auto process = static_cast<std::uint32_t>(::getpid());
  Address address{{magic, 0, 0, parameters.id, fresh_nonce(), host_number("/proc/self/ns/pid"), process, format, {}},
                  std::move(name)};
  (void)network.copy(address.head.network.data(), address.head.network.size());
  return address;
}

/// Closes what this process alone uses.
void Transport::close_in_child() noexcept {
  for_each_sending([](Endpoint& endpoint) { endpoint.forget_process(); });
  waiting_.close_in_child();
}

// ---- Messages ---------------------------------------------------------------------------------------------------

Fragment Transport::alloc(btl::Endpoint& to, std::size_t size) noexcept {
  if (!accepts(to, size)) return {};
  SendBuffer* const buffer = send_buffers_.take();
  return buffer == nullptr ? Fragment{} : Fragment{to, {buffer->data + sizeof(wire::Frame), size}, buffer};
}

void Transport::free(Fragment& fragment) noexcept {
  send_buffers_.give_back(*static_cast<SendBuffer*>(fragment.slot()));
  fragment.disown();
}

}  // namespace opal::btl::rdm
