// SPDX-License-Identifier: Apache-2.0
// mpi_shim/rma/message_access.hpp — the origin's side of an access that the target's process executes.  The origin
// sends pieces as active messages: the blocks of the target's memory, and the data.  The target answers each piece,
// with the old data if the access fetches.  So the target needs to know no datatypes.
// Accesses to one target are sent in the order of the calls, as the standard requires for accumulates.  At most
// kMostInFlight pieces per target are in flight, which limits the queue of answers at the target.
// Owned by the ObjectPool of Windows, which reuses it when the request is complete and released.
// Threads: under the Context's lock.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

#include "mpi_shim/base/names.hpp"
#include "mpi_shim/op/kernel.hpp"
#include "mpi_shim/p2p/data/buffer.hpp"
#include "mpi_shim/request/request.hpp"
#include "mpi_shim/rma/target/target.hpp"
#include "mpi_shim/rma/wire.hpp"

namespace mpi_shim::rma {

class Window;
class Windows;

class MessageAccess final : public Request {
 public:
  explicit MessageAccess(Windows& windows) noexcept;

  /// Sets the operation and the memory at the target; `there` has the target's addresses.  `counted`: see
  /// target/attention.hpp.  Next the caller calls from() or from_pair(), and into(), as far as the operation needs
  /// them, and then start().
  void prepare(Window& window, Target& target, wire::Action action, op::OpKind op, const p2p::Buffer& there,
               bool counted);
  /// Sets the data to send.  GPU memory is copied now; host memory must not change until the access is complete.
  void from(const p2p::Buffer& origin);
  /// Sets the buffer for the data that the target has before the operation.
  void into(const p2p::Buffer& result);
  /// Sets the operands of a compare-and-swap, the new value and the one to compare with, and copies them.
  void from_pair(ByteSpan values) noexcept;

  /// Sends pieces of the accesses in the target's queue, until kMostInFlight are in flight.  If the transport
  /// is full, progress calls it again.
  static void pump(Window& window, Target& target) noexcept;

  /// Handles the answer to one piece; `data`: the old bytes if the access fetches.  May end the access.
  void on_reply(const wire::AccessReply& reply, ByteSpan data) noexcept;
  [[nodiscard]] bool is_to(const am::Endpoint& from) const noexcept { return target_->peer->endpoint == &from; }
  [[nodiscard]] Target& target() const noexcept { return *target_; }
  /// Ends the access with an error; answers that still arrive are dropped.
  void fail(int error_class) noexcept;

 private:
  static const Actions kActions;
  static constexpr std::uint32_t kMostInFlight = 32;  // pieces per target and window
  static constexpr std::uint64_t kLeastPiece = 256;   // bytes; room for the header, some Blocks, and an element

  void begin_sending() noexcept;
  void put_away() noexcept;
  Post send_piece() noexcept;
  /// Makes the next piece, which fits `room` bytes: blocks_ and header_, and long_head_ if it has several Blocks.
  void make_piece(std::uint64_t room) noexcept;
  /// Sets blocks_ to those of the next piece.  Without its header, which has the first of them, the piece fits `room`
  /// bytes.  Returns its data bytes.
  std::uint32_t collect_blocks(std::uint64_t room) noexcept;
  /// Appends a run to blocks_.  True: it has an entry of its own.
  bool append(const wire::Blocks& run);
  /// Removes the last `bytes` bytes from blocks_, which may become longer by one entry.
  void cut(std::uint64_t bytes) noexcept;
  void end() noexcept;

  Windows& windows_;
  Window* window_ = nullptr;
  Target* target_ = nullptr;
  wire::AccessHeader header_{};
  const std::byte* contiguous_ = nullptr;  // the memory at the target if it is contiguous
  datatype::Cursor there_;                 // if it is not: at what is not sent yet
  std::vector<wire::Blocks> blocks_;   // of the next piece, empty until it is made; keeps its capacity, as long_head_
  std::vector<std::byte> long_head_;   // header_ and the blocks after the first, if there are such
  datatype::DatatypeRef type_;         // of the memory at the target, as result_type_
  p2p::Buffer origin_;                 // the data to send, in host memory
  std::vector<std::byte> on_host_;     // the copy of data that are in GPU memory; keeps its capacity
  datatype::DatatypeRef origin_type_;  // keeps a derived type alive, as result_type_
  p2p::Buffer result_;
  datatype::DatatypeRef result_type_;
  std::array<std::byte, 64> pair_{};  // the operands of a compare-and-swap
  std::uint64_t bytes_ = 0;           // of the target's memory that the access covers
  std::uint64_t room_ = 0;            // of the piece that is made
  std::uint64_t sent_ = 0;            // of bytes_
  std::uint64_t answered_ = 0;        // of bytes_
  std::uint32_t unit_ = 1;            // the size of a piece is a multiple: it consists of whole elements
  bool counted_ = false;              // the last piece gets kCounted
};

}  // namespace mpi_shim::rma
