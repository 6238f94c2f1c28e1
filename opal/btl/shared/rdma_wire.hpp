// SPDX-License-Identifier: Apache-2.0
// opal/btl/shared/rdma_wire.hpp — the messages of the emulation of put, get and atomics, and of lent registrations.
// Little endian.  The receiver checks sizes on arrival, and addresses and handles against its RegistrationTable.
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
inline constexpr Tag kMarker = kBtlTags.first + 0x16;  ///< of a checkpoint; payload: its round, u64
inline constexpr Tag kReply = kBtlTags.first + kAnswerBit;
inline constexpr Tag kLent = kBtlTags.first + kAnswerBit + 1;
static_assert(is_answer(kReply) && is_answer(kLent) && !is_answer(kGetPiece));

/// A part of a put, followed by handle_size bytes of handle and then the data.  Every piece carries the range of the
/// whole put, so that the target keeps no state between pieces.  The pieces of one put arrive in order.  The target
/// answers the last piece and every refused one; the first Reply ends the operation, and the initiator drops later
/// ones.
struct PutPiece {
  std::uint64_t operation;    ///< RdmaOperations::name_of() at the initiator; returned in the Reply
  std::uint64_t base;         ///< first byte of the whole put at the target
  std::uint64_t total;        ///< bytes of the whole put
  std::uint64_t offset;       ///< of this piece from `base`
  std::uint64_t handle_size;  ///< <= MemoryHandle::kMaxSize
};
static_assert(sizeof(PutPiece) == 40 && std::has_unique_object_representations_v<PutPiece>, "wire layout v1");

/// Requests a get; followed by handle_size bytes of handle.  The members are those of PutPiece.
struct GetRequest {
  std::uint64_t operation;
  std::uint64_t base;
  std::uint64_t total;
  std::uint64_t handle_size;
};
static_assert(sizeof(GetRequest) == 32 && std::has_unique_object_representations_v<GetRequest>, "wire layout v1");

/// A part of a get, followed by its data.  The pieces of one get are sent in order.
struct GetPiece {
  std::uint64_t operation;
  std::uint64_t offset;
};
static_assert(sizeof(GetPiece) == 16 && std::has_unique_object_representations_v<GetPiece>, "wire layout v1");

/// Requests an atomic; followed by handle_size bytes of handle.
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

/// The target's answer: the end of a put or an atomic, or an error of any operation.
struct Reply {
  std::uint64_t operation;
  std::uint64_t value;  ///< old value of an atomic; else 0
  std::uint64_t code;   ///< Errc; 0: success
};
static_assert(sizeof(Reply) == 24 && std::has_unique_object_representations_v<Reply>, "wire layout v1");

/// Requests that the target registers one piece of a transfer with its device; followed by the bytes of the handle of
/// the target's address space.  The target checks the range of the whole transfer for each piece.
struct LendRequest {
  std::uint64_t operation;  ///< RdmaOperations::name_of() of the transfer at the initiator
  std::uint64_t base;       ///< of the whole transfer
  std::uint64_t total;      ///< of the whole transfer, bytes
  std::uint64_t address;    ///< of this piece
  std::uint64_t size;       ///< of this piece, bytes
  std::uint32_t rights;     ///< Rights: remote_read or remote_write
  std::uint32_t piece;      ///< number of the piece; returned in Lent
};
static_assert(sizeof(LendRequest) == 48 && std::has_unique_object_representations_v<LendRequest>, "wire layout v1");

/// The answer to LendRequest.  If `code` is 0, the bytes of a device's handle follow; it is valid until the LentReturn.
struct Lent {
  std::uint64_t operation;
  std::uint64_t name;  ///< the target's name of the loan, for LentReturn
  std::uint32_t piece;
  std::uint32_t code;  ///< Errc; not_supported: the initiator moves the piece by messages
};
static_assert(sizeof(Lent) == 24 && std::has_unique_object_representations_v<Lent>, "wire layout v1");

/// Ends the loan of a registration.
struct LentReturn {
  std::uint64_t name;  ///< Lent::name
};

}  // namespace opal::btl::wire
