// SPDX-License-Identifier: Apache-2.0
// mpi_shim/rma/wire.hpp — every byte that two MPI processes exchange for windows, besides puts and gets of the
// transports.  Same-architecture peers only: fields are in host order.  `window` is the number of the window's
// communicator, `rank` the sender's there; ids name something of the process that made the id.
#pragma once
#include <cstdint>
#include <type_traits>

#include "mpi_shim/base/names.hpp"

namespace mpi_shim::rma::wire {

inline constexpr Tag kFirst = kMpiTags.first + 0x20;
inline constexpr Tag kPost = kFirst;             ///< Signal: the sender has exposed its memory to the receiver
inline constexpr Tag kComplete = kFirst + 1;     ///< Signal: the sender's accesses to the receiver are over
inline constexpr Tag kLock = kFirst + 2;         ///< LockRequest: answered by Granted or Refused, some time
inline constexpr Tag kGranted = kFirst + 3;      ///< Signal
inline constexpr Tag kUnlock = kFirst + 4;       ///< LockRequest: gives back what was granted; answered by Unlocked
inline constexpr Tag kUnlocked = kFirst + 5;     ///< Signal
inline constexpr Tag kType = kFirst + 6;         ///< TypeHeader, part of a description
inline constexpr Tag kAccess = kFirst + 7;       ///< AccessHeader, data; answered by AccessReply
inline constexpr Tag kAccessReply = kFirst + 8;  ///< AccessReply, data
inline constexpr Tag kRefused = kFirst + 9;      ///< Signal: a process died with the lock
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

/// Part of the description of a datatype (datatype/construction/description.hpp) that accesses will name by `slot`.
struct TypeHeader {
  std::uint32_t slot;
  std::uint32_t reserved;
  std::uint64_t total;   ///< bytes of the description
  std::uint64_t offset;  ///< of this part; parts come in order
};

enum class Action : std::uint8_t {
  transfer,      ///< bytes as they are: MPI_Put, MPI_Get
  update,        ///< element by element with `op`
  compare_swap,  ///< data: the new value, then the one to compare with
};

/// One piece of an access to the receiver's memory; pieces of one access come in order.
struct AccessHeader {
  std::uint32_t window;
  std::int32_t rank;
  std::uint64_t id;
  std::int64_t displacement;  ///< bytes from the window's base; in a dynamic window the address
  std::uint64_t count;        ///< instances of the datatype
  std::uint64_t offset;       ///< of this piece in the packed data of all of them
  std::uint64_t bytes;        ///< of this piece
  std::uint32_t type;         ///< handle of a predefined datatype, or kTypeSlot + slot
  Action action;
  std::uint8_t op;       ///< op::OpKind of an update
  std::uint8_t stores;   ///< not 0: `bytes` of data follow
  std::uint8_t fetches;  ///< not 0: the reply brings what was there before
};
static_assert(sizeof(AccessHeader) == 56, "layout v1");

inline constexpr std::uint32_t kTypeSlot = 0x400;  ///< above every predefined handle
inline constexpr std::uint32_t kTypeSlots = 64;    ///< descriptions that a process keeps of each peer

/// Answers one piece.  When it fetched, its bytes as they were before follow.
struct AccessReply {
  std::uint64_t id;
  std::uint64_t offset;
  std::uint64_t bytes;
  std::uint32_t error;  ///< an MPI error class
  std::uint32_t reserved;
};

static_assert(std::has_unique_object_representations_v<Signal> &&
                  std::has_unique_object_representations_v<LockRequest> &&
                  std::has_unique_object_representations_v<TypeHeader> &&
                  std::has_unique_object_representations_v<AccessHeader> &&
                  std::has_unique_object_representations_v<AccessReply>,
              "no padding: these go out as bytes");

}  // namespace mpi_shim::rma::wire
