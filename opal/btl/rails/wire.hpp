// SPDX-License-Identifier: Apache-2.0
// opal/btl/rails/wire.hpp — what rails say to each other, as messages of the transport below.  Little endian.
//   Each side's first message on each route is `hello`.  Address: AddressHead | count x { u16 size | size bytes }.
//   Handle: u8 size | SoftwareHandle | count x { u8 size | size bytes }; size 0: that rail does not know the memory.
#pragma once
#include <cstdint>
#include <type_traits>

#include "opal/btl/tag.hpp"

namespace opal::btl::rails::wire {

inline constexpr std::uint32_t kMagic = 0x72727830;
inline constexpr std::uint16_t kVersion = 2;
inline constexpr Tag kTag = kBtlTags.first + 0x40;  ///< in the handler table of the rails alone

enum class Kind : std::uint8_t {
  hello = 1,  ///< Hello, then the sender's address
  message,    ///< numbered, with the tag of the layer above
  taken,      ///< nothing but Envelope::taken
  down,     ///< the sender's connection Envelope::made on Envelope::rail has ended: let nothing of it through any more
  fenced,   ///< the answer: nothing does
  goodbye,  ///< the sender has disconnected
};

struct Envelope {
  std::uint32_t number;  ///< of a message, counted round
  std::uint32_t taken;   ///< messages of the other side that were handled, counted round
  Tag tag;
  Kind kind;
  std::uint8_t rail;   ///< down, fenced
  std::uint32_t made;  ///< hello: counts the sender's connections on this rail; down, fenced: which is meant
};
static_assert(sizeof(Envelope) == 16 && std::has_unique_object_representations_v<Envelope>, "wire layout v2");

struct Hello {
  std::uint64_t from;  ///< the sender's endpoint, a random number
  std::uint64_t to;    ///< the receiver's, if it is known; else 0
};
static_assert(sizeof(Hello) == 16 && std::has_unique_object_representations_v<Hello>, "wire layout v2");

struct AddressHead {
  std::uint32_t magic;
  std::uint16_t version;
  std::uint16_t count;
};
static_assert(sizeof(AddressHead) == 8 && std::has_unique_object_representations_v<AddressHead>, "wire layout v2");

}  // namespace opal::btl::rails::wire
