// SPDX-License-Identifier: Apache-2.0
// mpi_shim/p2p/send.hpp — a send that could not be done at once, or that the program wants to wait for.
// Life: first message out (eager data, or the offer of a rendezvous) -> for synchronous and rendezvous sends an answer
// (Matched, ClearToSend + pushing, Finished) -> done.  Owned by the Engine's pool.  Threads: under the Context's lock.
#pragma once
#include <cstdint>

#include "mpi_shim/base/names.hpp"
#include "mpi_shim/p2p/channel.hpp"
#include "mpi_shim/p2p/data/buffer.hpp"
#include "mpi_shim/p2p/stalled.hpp"
#include "mpi_shim/p2p/wire.hpp"
#include "mpi_shim/request/request.hpp"
#include "opal/am/endpoint.hpp"
#include "opal/am/region.hpp"

namespace mpi_shim::p2p {

class Engine;

enum class Mode : std::uint8_t {
  standard,
  synchronous,
  failed,   ///< no message, but in its place: the sender's collective failed; its receive ends with MPI_ERR_OTHER
  aborted,  ///< the same because of a dead process: with MPI_ERR_PROC_ABORTED
};

class Send final : public Request, private Stalled {
 public:
  explicit Send(Engine& engine) noexcept;

 private:
  friend class Engine;
  static const Actions kActions;
  enum class Step : std::uint8_t { first_message, answer, push };

  void begin_sending() noexcept;
  void put_away() noexcept;
  /// Ends a send that has not gone out; asks the receiver to forget one that waits for its receive.
  bool withdraw() noexcept;
  bool try_again() noexcept;
  Post post_first_message() noexcept;
  Post post_message(am::Endpoint& endpoint) noexcept;
  void set_offered(bool offered) noexcept;  // counted at the peer
  Post post_eager(am::Endpoint& endpoint) noexcept;
  Post post_offer(am::Endpoint& endpoint) noexcept;
  Post post_packed(am::Endpoint& endpoint, Tag tag, ByteSpan header) noexcept;
  [[nodiscard]] int first_outcome() const noexcept;
  [[nodiscard]] int why_failed() noexcept;
  /// Sends as much of the data as the transport takes; false: there is more.
  bool push() noexcept;
  void on_clear_to_send(const wire::ClearToSend& message) noexcept;
  [[nodiscard]] bool given_up() const noexcept;
  void on_cancelled() noexcept;
  void end(int error_class) noexcept;
  // Whether the receiver may answer now, and how: what a peer names is only its word.
  [[nodiscard]] bool awaits_match() const noexcept { return step_ == Step::answer && !offered_; }
  [[nodiscard]] bool awaits_fetch() const noexcept { return step_ == Step::answer && offered_; }
  [[nodiscard]] bool awaits_cancelled() const noexcept { return step_ == Step::answer && cancelling_; }
  [[nodiscard]] wire::MatchHeader match_header() const noexcept {
    return wire::match_header(channel_->context, channel_->rank, tag_);
  }

  Engine& engine_;
  Channel* channel_ = nullptr;
  Peer* peer_ = nullptr;
  Buffer buffer_;
  datatype::DatatypeRef type_;  // keeps a derived type of the buffer
  int tag_ = 0;
  Mode mode_ = Mode::standard;
  Step step_ = Step::first_message;
  bool offered_ = false;
  bool cancelling_ = false;   // the receiver has been asked to forget it
  std::uint64_t id_ = 0;      // in Engine::sending_; 0: none
  am::ExposedMemory memory_;  // what the receiver fetches from
  datatype::Cursor cursor_;   // where pushing a non-contiguous buffer stands
  std::uint64_t receive_id_ = 0;
  std::uint64_t pushed_ = 0;
  std::uint64_t wanted_ = 0;
};

}  // namespace mpi_shim::p2p
