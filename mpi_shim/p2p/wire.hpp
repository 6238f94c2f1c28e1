// SPDX-License-Identifier: Apache-2.0
// mpi_shim/p2p/wire.hpp — the wire format of point-to-point messages.
// The active-message tag is the kind of a message, so an eager message carries only what matching needs.
// Fields are in host byte order: peers have the same architecture.
// send_id and receive_id are numbers of the TransferTable of the sender and of the receiver.  The peer returns them in
// its later messages of the transfer.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "mpi_shim/base/names.hpp"
#include "opal/btl/tag.hpp"

namespace mpi_shim::p2p::wire {

// The comment of a tag names the content of the message: a struct of this file, then what follows it.
// Tags from kClearToSend on have opal::kAnswerBit: sm reserves buffers for them (opal/btl/tag.hpp).
inline constexpr Tag kEager = kMpiTags.first;           ///< MatchHeader, data
inline constexpr Tag kRendezvous = kMpiTags.first + 1;  ///< RendezvousHeader, memory handle or first part of the data;
                                                        ///< the receiver answers with kClearToSend or kFinished
inline constexpr Tag kClearToSend =
    kMpiTags.first + opal::kAnswerBit;              ///< ClearToSend: the receiver asks the sender to push the data
inline constexpr Tag kData = kMpiTags.first + 2;    ///< DataHeader, data: one pushed piece
inline constexpr Tag kFinished = kClearToSend + 1;  ///< Answer: the receiver has fetched the data by get
inline constexpr Tag kCredit = kClearToSend + 2;    ///< Credit: returns unexpected-message credit to the sender

inline constexpr Tag kCancel = kMpiTags.first + 3;   ///< Cancel: drop this send's message unless it was matched
inline constexpr Tag kCancelled = kClearToSend + 4;  ///< Answer: the message is dropped.  None if it was matched before

/// Report and text (process/deadlock.cpp), to rank 0: what a blocked process waits for.
inline constexpr Tag kWaiting = kMpiTags.first + 4;

/// MatchHeader, Failure.  A rank whose collective has failed sends it instead of the message; it ends the receive.
inline constexpr Tag kFailure = kMpiTags.first + 5;

inline constexpr Tag kWake = kClearToSend + 3;  ///< no data: wakes a receiver that sleeps for an event in shared memory

/// The fields that matching compares.
struct MatchHeader {
  std::uint32_t context;  ///< Channel::context
  std::int32_t source;    ///< the sender's rank in that channel
  std::int32_t tag;
};
/// Why the sender sends kFailure instead of a message.
struct Failure {
  std::uint32_t error;  ///< MPI_ERR_PROC_ABORTED; anything else counts as MPI_ERR_OTHER
};
static_assert(sizeof(MatchHeader) == 12, "an 8-byte MPI_Send is 20 bytes on the wire");

/// Makes a header by one 8-byte and one 4-byte store.  opal/core/copy.hpp copies its 12 bytes by loads of the same
/// widths.  A load that spans two recent stores cannot be forwarded from the store buffer: some 20 cycles more.
inline MatchHeader match_header(std::uint32_t context, int source, int tag) noexcept {
  const std::uint64_t first = context | std::uint64_t{static_cast<std::uint32_t>(source)} << 32;
  MatchHeader header;
  std::memcpy(&header, &first, sizeof first);
  header.tag = tag;
  return header;
}
static_assert(offsetof(MatchHeader, source) == 4 && offsetof(MatchHeader, tag) == 8);

struct RendezvousHeader {
  MatchHeader match;
  std::uint32_t reserved;
  std::uint64_t send_id;
  std::uint64_t size;     ///< bytes of the whole message
  std::uint64_t address;  ///< of the message in the sender's memory if a memory handle follows; else 0, and then
                          ///< the first part of the data follows, which may be empty
};
static_assert(sizeof(RendezvousHeader) == 40 && offsetof(RendezvousHeader, size) == 24, "layout v1");

/// The data of kCancelled and kFinished.
struct Answer {
  std::uint64_t send_id;
};

struct Cancel {
  std::uint64_t send_id;
  std::uint32_t context;
  std::uint32_t reserved;
};

struct ClearToSend {
  std::uint64_t send_id;
  std::uint64_t receive_id;
  std::uint64_t
      size;  ///< bytes that the receiver takes of the message, those in the offer included: fewer than the message has
             ///< if the receive buffer is shorter.  If the offer had them all, this message ends the send
};

struct DataHeader {
  std::uint64_t receive_id;
  std::uint64_t offset;  ///< of this piece in the message, bytes; pieces are sent in order
};

struct Credit {
  /// Peer::received: the sum of Peer::cost() of all eager messages and first parts of offers that receives have taken
  /// from this sender.
  std::uint64_t received;
};

static_assert(std::has_unique_object_representations_v<MatchHeader> &&
                  std::has_unique_object_representations_v<RendezvousHeader> &&
                  std::has_unique_object_representations_v<Cancel> &&
                  std::has_unique_object_representations_v<ClearToSend> &&
                  std::has_unique_object_representations_v<DataHeader> &&
                  std::has_unique_object_representations_v<Answer>,
              "no padding: these go out as bytes");

}  // namespace mpi_shim::p2p::wire
