// SPDX-License-Identifier: Apache-2.0
// mpi_shim/p2p/receive.hpp — a receive request, and the unexpected message.
// Life: posted in its channel's matcher -> matched with a message -> for a rendezvous, fetches its data (Fetch) or has
// them pushed -> done.
// Owned by the Engine's pool; borrows the channel and the buffer.  Threads: under the Context's lock.
#pragma once
#include <array>
#include <cstdint>
#include <memory>

#include "mpi_shim/base/names.hpp"
#include "mpi_shim/p2p/channel.hpp"
#include "mpi_shim/p2p/data/buffer.hpp"
#include "mpi_shim/p2p/data/incoming.hpp"
#include "mpi_shim/request/request.hpp"

namespace mpi_shim::p2p {

class Engine;

/// An unexpected message, with a copy of its payload.
struct Unexpected final : match::Unexpected {
  explicit Unexpected(const Incoming& incoming) { assign(incoming); }
  Unexpected(const Unexpected&) = delete;
  Unexpected& operator=(const Unexpected&) = delete;

  /// Replaces the message by a copy of `incoming`.  Requires: it is not queued.
  void assign(const Incoming& incoming);
  /// Whether the payload is in a separate allocation.
  [[nodiscard]] bool is_large() const noexcept { return large_ != nullptr; }

  Incoming message;  ///< its payload points into small_ or large_

 private:
  std::array<std::byte, 64> small_;
  std::unique_ptr<std::byte[]> large_;
};

class Receive final : public Request, private match::PostedRecv {
 public:
  explicit Receive(Engine& engine) noexcept : Request(kActions, &engine), engine_(engine) {}

  /// Starts with a message that Engine::take() has already matched (MPI_Mrecv).
  void start_matched(std::unique_ptr<Unexpected> message) noexcept;

  /// The endpoint of the source of `request`.  Null: it is no receive, its source is a wildcard, or not connected.
  static am::Endpoint* sender_of(const Request& request) noexcept {
    return request.has_actions(kActions) ? static_cast<const Receive&>(request).sender() : nullptr;
  }

 private:
  friend class Engine;
  friend class Fetch;
  static const Actions kActions;

  void begin_receiving() noexcept;
  void put_away() noexcept;
  bool withdraw() noexcept;
  [[nodiscard]] am::Endpoint* sender() const noexcept {
    return wanted.source < 0 ? nullptr : channel_->peers[static_cast<std::size_t>(wanted.source)]->endpoint;
  }
  /// Receives the matched message: copies its data and ends, or starts the rendezvous.
  void accept(const Incoming& message) noexcept;
  void accept_eager(int source, int tag, ByteSpan data) noexcept;
  void accept_size(int source, int tag, std::uint64_t size) noexcept;
  void accept_data(ByteSpan data) noexcept;
  void begin_rendezvous(const Incoming& message) noexcept;
  /// Takes the first part of the data, from the offer.  Sends ClearToSend, upon which the sender pushes the rest.
  void ask_for_data(std::uint64_t send_id, ByteSpan first_part) noexcept;
  /// Copies data to the place after those received so far.
  void append(ByteSpan data) noexcept;
  /// Whether a piece of `size` bytes of pushed data is the next one.
  [[nodiscard]] bool follows(const wire::DataHeader& header, std::uint64_t size) const noexcept {
    return header.offset == received_ && size <= wanted_ - received_;
  }
  /// Where the next piece goes; null: it has to be unpacked, or is GPU memory.
  [[nodiscard]] std::byte* place_of_data() const noexcept {
    std::byte* const memory = buffer_.contiguous();
    return memory == nullptr || buffer_.on_gpu() ? nullptr : memory + received_;
  }
  /// Takes the next piece, `delivery`: `data` and what is in its place already.
  void on_data(ByteSpan data, const btl::Delivery& delivery) noexcept;
  void end(int error_class) noexcept;

  Engine& engine_;
  Channel* channel_ = nullptr;
  Buffer buffer_;
  datatype::DatatypeRef type_;    // a reference to the buffer's type if it is derived
  am::Endpoint* from_ = nullptr;  // the sender, once matched
  std::uint64_t id_ = 0;          // number in Engine::receiving_; 0: none
  std::uint64_t wanted_ = 0;      // bytes of the message that fit the buffer
  std::uint64_t received_ = 0;    // bytes of offered and pushed data so far
};

}  // namespace mpi_shim::p2p
