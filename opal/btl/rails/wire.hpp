// SPDX-License-Identifier: Apache-2.0
// opal/btl/rails/wire.hpp — the messages of the rails module, each one message of a rail's transport.  Little endian.
//   Message: Envelope | payload.  The first message of each side on each connection is `hello`.
//   Address: AddressHead | count x { u16 size | size bytes }, the addresses of the rails in order.
//   Handle:  u8 size | SoftwareHandle | count x { u8 size | size bytes }; size 0: that rail has no registration.
#pragma once
#include <cstdint>
#include <type_traits>

#include "opal/btl/tag.hpp"

namespace opal::btl::rails::wire {

inline constexpr std::uint32_t kMagic = 0x72727830;
inline constexpr std::uint16_t kVersion = 2;
inline constexpr Tag kTag = kBtlTags.first + 0x40;  ///< in the handler table of the rails, not in the Context's

enum class Kind : std::uint8_t {
  hello = 1,  ///< payload: Hello, then the sender's address
  message,    ///< payload of the layer above, with Envelope::number and Envelope::tag
  taken,      ///< no payload: carries Envelope::taken
  down,       ///< the sender's `connection` on `rail` has ended; the receiver ends its side and answers `fenced`
  fenced,     ///< answer to `down`: nothing of that connection, or of an earlier one, arrives any more
  goodbye,    ///< the sender has disconnected
};

struct Envelope {
  std::uint32_t number;  ///< of a message, from 0, modulo 2^32
  std::uint32_t taken;   ///< number of the receiver's messages that the sender has handled, modulo 2^32
  Tag tag;
  Kind kind;
  std::uint8_t rail;         ///< of `connection`
  std::uint32_t connection;  ///< number of a connection on `rail`; hello, down: the sender counts; fenced: the receiver
};
static_assert(sizeof(Envelope) == 16 && std::has_unique_object_representations_v<Envelope>, "wire layout v2");

struct Hello {
  std::uint64_t from;  ///< session of the sender's endpoint: a random number, not 0
  std::uint64_t to;    ///< session of the receiver's endpoint; 0: the sender does not know it
};
static_assert(sizeof(Hello) == 16 && std::has_unique_object_representations_v<Hello>, "wire layout v2");

struct AddressHead {
  std::uint32_t magic;
  std::uint16_t version;
  std::uint16_t count;
};
static_assert(sizeof(AddressHead) == 8 && std::has_unique_object_representations_v<AddressHead>, "wire layout v2");

}  // namespace opal::btl::rails::wire
