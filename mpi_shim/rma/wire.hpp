// SPDX-License-Identifier: Apache-2.0
// mpi_shim/rma/wire.hpp — the formats of all active messages between processes for windows.  Fields are in host byte
// order: both processes must have the same architecture.  In all messages `window` is the id of the window's
// communicator, `rank` the rank of the sender in it, and `id` the number that the origin has given to an access.
#pragma once
#include <cstdint>
#include <type_traits>

#include "mpi_shim/base/names.hpp"

namespace mpi_shim::rma::wire {

inline constexpr Tag kFirst = kMpiTags.first + 0x20;
inline constexpr Tag kPost = kFirst;             ///< Signal: the sender has exposed its memory to the receiver
inline constexpr Tag kComplete = kFirst + 1;     ///< Signal: the sender's accesses to the receiver are over
inline constexpr Tag kLock = kFirst + 2;         ///< LockRequest: answered later by kGranted or kRefused
inline constexpr Tag kGranted = kFirst + 3;      ///< Signal: answers kLock; the receiver of the Signal has the lock
inline constexpr Tag kUnlock = kFirst + 4;       ///< LockRequest: releases a granted lock; answered by kUnlocked
inline constexpr Tag kUnlocked = kFirst + 5;     ///< Signal: answers kUnlock
inline constexpr Tag kAccess = kFirst + 6;       ///< AccessHeader, Blocks, data; answered by kAccessReply
inline constexpr Tag kAccessReply = kFirst + 7;  ///< AccessReply, then data
inline constexpr Tag kRefused = kFirst + 8;      ///< Signal: answers kLock; a process failed while it held the lock
inline constexpr Tag kLast = kRefused;

struct Signal {
  std::uint32_t window;
  std::int32_t rank;
};

struct LockRequest {
  std::uint32_t window;
  std::int32_t rank;
  std::uint32_t exclusive;  ///< 0: shared
  std::uint32_t reserved;
};

enum class Action : std::uint8_t {
  transfer,      ///< bytes as they are: MPI_Put, MPI_Get
  update,        ///< element by element with `op`
  compare_swap,  ///< data: the new value, then the one to compare with
};

/// `count` blocks of the receiver's memory, `stride` bytes apart.
struct Blocks {
  std::uint64_t displacement;  ///< of the first: bytes from the window's base; in a dynamic window the address
  std::uint64_t stride;        ///< modulo 2^64, as is `displacement`
  std::uint32_t bytes;         ///< of one block
  std::uint32_t count;
};

/// One piece of an access to the receiver's memory; the pieces of one access arrive in order.  `more` Blocks follow,
/// then the data in the order of the blocks.  The bytes of an update are whole elements; a block
/// may hold a part of one.
struct AccessHeader {
  std::uint32_t window;
  std::int32_t rank;
  std::uint64_t id;
  std::uint32_t bytes;  ///< of all blocks together
  std::uint32_t more;
  Action action;
  std::uint8_t op;       ///< op::OpKind of an update
  std::uint8_t element;  ///< datatype::Element of an update
  std::uint8_t flags;    ///< kStores, kFetches, kCounted
  std::uint32_t reserved;
  Blocks first;

  [[nodiscard]] bool has(std::uint8_t flag) const noexcept { return (flags & flag) != 0; }
};
inline constexpr std::uint8_t kStores = 1;   ///< `bytes` of data follow; for compare_swap 2 * bytes
inline constexpr std::uint8_t kFetches = 2;  ///< the reply carries the bytes as they were before
inline constexpr std::uint8_t kCounted = 4;  ///< the sender has counted the message (target/attention.hpp)
static_assert(sizeof(AccessHeader) == 56 && sizeof(Blocks) == 24, "layout v2");

/// Answers one piece; `id` and `bytes` are those of its AccessHeader.  If the piece fetches and `error` is MPI_SUCCESS,
/// `bytes` of data follow.
struct AccessReply {
  std::uint64_t id;
  std::uint32_t bytes;
  std::uint32_t error;  ///< an MPI error class
};

static_assert(std::has_unique_object_representations_v<Signal> &&
                  std::has_unique_object_representations_v<LockRequest> &&
                  std::has_unique_object_representations_v<Blocks> &&
                  std::has_unique_object_representations_v<AccessHeader> &&
                  std::has_unique_object_representations_v<AccessReply>,
              "no padding: these go out as bytes");

}  // namespace mpi_shim::rma::wire
