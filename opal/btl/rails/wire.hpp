// SPDX-License-Identifier: Apache-2.0
// opal/btl/rails/wire.hpp — what rails say to each other, as messages of the transport below.  Little endian.
//   Each side's first message on each route is `hello`.  Address: AddressHead | count x { u16 size | size bytes }.
//   Handle: u8 count | SoftwareHandle | count x { u8 size | size bytes }.
#pragma once
#include <cstdint>
#include <type_traits>

#include "opal/btl/tag.hpp"

namespace opal::btl::rails::wire {

inline constexpr std::uint32_t kMagic = 0x72727830;
inline constexpr std::uint16_t kVersion = 1;
inline constexpr Tag kTag = kBtlTags.first + 0x40;  ///< in the handler table of the rails alone

enum class Kind : std::uint8_t {
  hello = 1,  ///< Hello, then the sender's address
  message,    ///< numbered, with the tag of the layer above
  taken,      ///< nothing but Envelope::taken
  down,       ///< the sender no longer uses Envelope::rail
  goodbye,    ///< the sender has disconnected
};

struct Envelope {
  std::uint32_t number;  ///< of a message, counted round
  std::uint32_t taken;   ///< messages of the other side that were handled, counted round
  Tag tag;
  Kind kind;
  std::uint8_t rail;
  std::uint32_t reserved;
};
static_assert(sizeof(Envelope) == 16 && std::has_unique_object_representations_v<Envelope>, "wire layout v1");

struct Hello {
  std::uint64_t from;  ///< the sender's endpoint, a random number
  std::uint64_t to;    ///< the receiver's, if it is known; else 0
};
static_assert(sizeof(Hello) == 16 && std::has_unique_object_representations_v<Hello>, "wire layout v1");

struct AddressHead {
  std::uint32_t magic;
  std::uint16_t version;
  std::uint16_t count;
};
static_assert(sizeof(AddressHead) == 8 && std::has_unique_object_representations_v<AddressHead>, "wire layout v1");

}  // namespace opal::btl::rails::wire
