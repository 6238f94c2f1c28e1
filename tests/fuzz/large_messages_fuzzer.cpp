// SPDX-License-Identifier: Apache-2.0
// What a peer may send instead of the offers and ends of large messages.  Input: records of {u8 kind, u8 size, size
// bytes}; the kind chooses the message, and whether a valid handle and address are put into it, so that checks behind
// the first are reached too.  A handler never sees more than the offer's bytes, and a send ends at most once.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "opal/am/messages/large_wire.hpp"
#include "tests/am/scripted_transport.hpp"

namespace {

using opal::Tag;
namespace wire = opal::am::wire;

constexpr Tag kTag = opal::kUserTags.first;

struct Once : opal::Completion {
  Once() {
    fn = [](opal::Completion& self) noexcept {
      if (++static_cast<Once&>(self).calls != 1) std::abort();
    };
  }
  int calls = 0;
};

opal::config::Store small_limit() {
  opal::config::Store store;
  store.set("am_large_limit", "64K");
  store.set("log", "error");
  return store;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<std::byte> memory(512);
  Once sends[2];
  opal::test::ScriptedContext context{small_limit()};
  auto& module = context.module(0);
  const auto handle = *module.register_memory(memory.data(), memory.size(), opal::Rights::all);
  (void)context.context->set_handler(kTag, {[](void*, opal::btl::Delivery& delivery) noexcept {
                                              if (delivery.data.size() > (64U << 10)) std::abort();
                                            },
                                            nullptr, "fuzz"});
  opal::am::Endpoint& peer = context.connect();
  auto& route = module.endpoints.front();
  for (Once& send : sends) (void)peer.send(kTag, {}, memory, send);
  std::size_t place = 0;
  while (place + 2 <= size && !route.dead()) {
    const std::uint8_t kind = data[place];
    const std::size_t length = std::min<std::size_t>(data[place + 1], size - place - 2);
    std::vector<std::byte> message(length);
    if (length != 0) std::memcpy(message.data(), data + place + 2, length);
    place += 2 + length;
    if ((kind & 0x80) != 0 && length >= sizeof(wire::LargeOffer)) {  // an offer whose get is taken
      wire::LargeOffer offer{};
      std::memcpy(&offer, message.data(), sizeof offer);
      const auto header = static_cast<std::uint32_t>(length - sizeof offer);
      offer = {offer.name,
               reinterpret_cast<std::uint64_t>(memory.data()),
               offer.size % 600,
               header,
               (kind & 0x40) != 0 ? kTag : offer.tag,
               static_cast<std::uint16_t>(handle.bytes().size())};
      std::memcpy(message.data(), &offer, sizeof offer);
      message.insert(message.begin() + sizeof offer, handle.bytes().begin(), handle.bytes().end());
    }
    module.room = (kind & 0x20) != 0 ? 0 : 100;
    module.deliver(route, (kind & 1) != 0 ? wire::kLargeOffer : wire::kLargeEnd, message);
    if ((kind & 0x10) != 0) context.context->progress();
    if ((kind & 0x0e) == 0x0e) module.kill(route);
  }
  return 0;
}
