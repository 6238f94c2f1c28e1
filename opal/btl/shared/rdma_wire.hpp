// SPDX-License-Identifier: Apache-2.0
// opal/btl/shared/rdma_wire.hpp — the messages of the put/get emulation and of lent registrations.  Little endian; all
// of it comes from a peer: the sizes are checked on arrival, addresses and handles against the registration table.
#pragma once
#include <cstdint>
#include <type_traits>

#include "opal/btl/tag.hpp"

namespace opal::btl::wire {

inline constexpr Tag kPutPiece = kBtlTags.first + 0x10;
inline constexpr Tag kGetRequest = kBtlTags.first + 0x11;
inline constexpr Tag kGetPiece = kBtlTags.first + 0x12;
inline constexpr Tag kAtomicRequest = kBtlTags.first + 0x13;
inline constexpr Tag kLendRequest = kBtlTags.first + 0x14;
inline constexpr Tag kLentReturn = kBtlTags.first + 0x15;
inline constexpr Tag kMarker = kBtlTags.first + 0x16;  ///< of a checkpoint; payload: its round
inline constexpr Tag kReply = kBtlTags.first + kAnswerBit;
inline constexpr Tag kLent = kBtlTags.first + kAnswerBit + 1;
static_assert(is_answer(kReply) && is_answer(kLent) && !is_answer(kGetPiece));

/// A part of a put, followed by handle_size bytes of handle and then the data.  Every piece names the whole range, so
/// that the target needs no memory of earlier pieces to check it.
struct PutPiece {
  std::uint64_t operation;    ///< the initiator's name for it, comes back in the reply
  std::uint64_t base;         ///< first byte of the whole put at the target
  std::uint64_t total;        ///< bytes of the whole put
  std::uint64_t offset;       ///< of this piece in the whole
  std::uint64_t handle_size;  ///< <= MemoryHandle::kMaxSize
};
static_assert(sizeof(PutPiece) == 40 && std::has_unique_object_representations_v<PutPiece>, "wire layout v1");

/// Followed by handle_size bytes of handle.
struct GetRequest {
  std::uint64_t operation;
  std::uint64_t base;
  std::uint64_t total;
  std::uint64_t handle_size;
};
static_assert(sizeof(GetRequest) == 32 && std::has_unique_object_representations_v<GetRequest>, "wire layout v1");

/// Followed by the data; pieces of one get arrive in order.
struct GetPiece {
  std::uint64_t operation;
  std::uint64_t offset;
};
static_assert(sizeof(GetPiece) == 16 && std::has_unique_object_representations_v<GetPiece>, "wire layout v1");

/// Followed by handle_size bytes of handle.
struct AtomicRequest {
  std::uint64_t operation;
  std::uint64_t address;
  std::uint64_t operand;
  std::uint64_t compare;
  std::uint32_t op;    ///< AtomicOp
  std::uint32_t type;  ///< AtomicType
  std::uint64_t handle_size;
};
static_assert(sizeof(AtomicRequest) == 48 && std::has_unique_object_representations_v<AtomicRequest>, "wire layout v1");

/// The end of a put or an atomic, or the refusal of any of them.
struct Reply {
  std::uint64_t operation;
  std::uint64_t value;  ///< an atomic's old value
  std::uint64_t code;   ///< Errc, 0 = done
};
static_assert(sizeof(Reply) == 24 && std::has_unique_object_representations_v<Reply>, "wire layout v1");

/// Asks the owner of an address space to register a piece of it with its device for one transfer; followed by the bytes
/// of the address space's handle.  Names the whole range, so that nothing of it moves unless all of it may.
struct LendRequest {
  std::uint64_t operation;  ///< the initiator's transfer
  std::uint64_t base;       ///< of all of it
  std::uint64_t total;
  std::uint64_t address;  ///< of this piece
  std::uint64_t size;
  std::uint32_t rights;
  std::uint32_t piece;  ///< of the transfer
};
static_assert(sizeof(LendRequest) == 48 && std::has_unique_object_representations_v<LendRequest>, "wire layout v1");

/// The answer; where code is 0 followed by the bytes of a device's handle, which is good until the LentReturn.
struct Lent {
  std::uint64_t operation;
  std::uint64_t name;  ///< for the LentReturn
  std::uint32_t piece;
  std::uint32_t code;  ///< Errc; not_supported: the device could not, move it by messages
};
static_assert(sizeof(Lent) == 24 && std::has_unique_object_representations_v<Lent>, "wire layout v1");

struct LentReturn {
  std::uint64_t name;
};

}  // namespace opal::btl::wire
