// SPDX-License-Identifier: Apache-2.0
// mpi_shim/p2p/receive.hpp — a receive: waits in its channel's queue, takes one message, and, for a rendezvous, its
// data. Also the message that came before its receive was posted. Owned by the Engine's pool.  Threads: under the
// Context's lock.
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

/// A message that nobody has asked for yet, with a copy of its bytes.
struct Unexpected final : match::Unexpected {
  explicit Unexpected(const Incoming& incoming) { assign(incoming); }
  Unexpected(const Unexpected&) = delete;
  Unexpected& operator=(const Unexpected&) = delete;

  /// Becomes another message; it must not be queued.
  void assign(const Incoming& incoming);
  /// Whether it holds memory besides its own.
  [[nodiscard]] bool is_large() const noexcept { return large_ != nullptr; }

  Incoming message;  ///< its payload lies in `small` or `large`

 private:
  std::array<std::byte, 64> small_;
  std::unique_ptr<std::byte[]> large_;
};

class Receive final : public Request, private match::PostedRecv {
 public:
  explicit Receive(Engine& engine) noexcept : Request(kActions, &engine), engine_(engine) {}

  /// Starts with a message that matching has given out already (MPI_Mrecv).
  void start_matched(std::unique_ptr<Unexpected> message) noexcept;

  /// From whom the message of a request comes, if it is a receive that names somebody who is connected; else null.
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
  /// Takes the data of a matched message, at once or by a rendezvous.
  void accept(const Incoming& message) noexcept;
  void accept_eager(int source, int tag, ByteSpan data) noexcept;
  void accept_size(int source, int tag, std::uint64_t size) noexcept;
  void accept_data(ByteSpan data) noexcept;
  void begin_rendezvous(const Incoming& message) noexcept;
  /// Has the sender push the data.
  void ask_for_data(std::uint64_t send_id) noexcept;
  /// A piece of pushed data; false when it does not belong where the peer says.
  bool on_data(const wire::DataHeader& header, ByteSpan data) noexcept;
  void end_of_data() noexcept;
  void end(int error_class) noexcept;

  Engine& engine_;
  Channel* channel_ = nullptr;
  Buffer buffer_;
  datatype::DatatypeRef type_;    // keeps a derived type of the buffer
  am::Endpoint* from_ = nullptr;  // the sender, once matched
  std::uint64_t id_ = 0;          // in Engine::receiving_; 0: none
  std::uint64_t wanted_ = 0;      // bytes of the message that go into the buffer
  std::uint64_t received_ = 0;
  datatype::Cursor cursor_;  // where unpacking stands
};

}  // namespace mpi_shim::p2p
