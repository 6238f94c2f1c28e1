// SPDX-License-Identifier: Apache-2.0
// mpi_shim/p2p/send.hpp — a send request, for every send that Engine::send_at_once() does not complete.
// Life: first message (eager data, or the offer of a rendezvous) -> an offer waits for an answer (Finished, or
// ClearToSend, upon which the rest of the data is pushed) -> done.
// Owned by the Engine's pool; borrows channel, peer and buffer.  Threads: under the Context's lock.
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
  synchronous,  ///< always a rendezvous; the offer carries a short message whole
  failed,       ///< sends kFailure instead of a message of a failed collective; the receive ends with MPI_ERR_OTHER
  aborted,      ///< as failed, because of a dead process; the receive ends with MPI_ERR_PROC_ABORTED
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
  /// The cancel action.  True: the first message was not sent yet, and the send is done.  False: too late, or it has
  /// sent Cancel to the receiver; then on_cancelled() or the normal answer ends the send.
  bool withdraw() noexcept;
  /// The resume function of Stalled.
  bool try_again() noexcept;
  Post post_first_message() noexcept;
  Post post_message(am::Endpoint& endpoint) noexcept;
  void set_offered(bool offered) noexcept;  // also counts in Peer::offered
  Post post_offer(am::Endpoint& endpoint) noexcept;
  /// How many bytes of the message an offer without a memory handle carries: up to the eager limit, if credit is left.
  [[nodiscard]] std::uint64_t first_part(const am::Endpoint& endpoint) const noexcept;
  [[nodiscard]] int first_outcome() const noexcept;
  [[nodiscard]] int why_failed() noexcept;
  /// Sends data until all are sent (then the send is done), the send has failed, or the transport is full (false).
  bool push() noexcept;
  void on_clear_to_send(const wire::ClearToSend& message) noexcept;
  [[nodiscard]] bool given_up() const noexcept;
  void on_cancelled() noexcept;
  void end(int error_class) noexcept;
  // Whether the send waits for this answer.  A peer may send any answer at any time, so the handlers check.
  [[nodiscard]] bool awaits_fetch() const noexcept { return step_ == Step::answer; }
  [[nodiscard]] bool awaits_cancelled() const noexcept { return step_ == Step::answer && cancelling_; }
  [[nodiscard]] wire::MatchHeader match_header() const noexcept {
    return wire::match_header(channel_->context, channel_->rank, tag_);
  }

  Engine& engine_;
  Channel* channel_ = nullptr;
  Peer* peer_ = nullptr;
  Buffer buffer_;
  datatype::DatatypeRef type_;  // a reference to the buffer's type if it is derived
  int tag_ = 0;
  Mode mode_ = Mode::standard;
  Step step_ = Step::first_message;
  bool offered_ = false;          // the first message was the offer of a rendezvous
  bool cancelling_ = false;       // Cancel was sent to the receiver
  std::uint64_t id_ = 0;          // number in Engine::sending_; 0: none
  am::ExposedMemory memory_;      // the registration that the receiver fetches from
  std::uint64_t receive_id_ = 0;  // the receiver's number of its Receive, from ClearToSend
  std::uint64_t pushed_ = 0;      // bytes sent by the offer and by push()
  std::uint64_t wanted_ = 0;      // the value of pushed_ at which push() ends
};

}  // namespace mpi_shim::p2p
