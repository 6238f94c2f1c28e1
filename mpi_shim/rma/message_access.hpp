// SPDX-License-Identifier: Apache-2.0
// mpi_shim/rma/message_access.hpp — an access that the target's process carries out: the data go there in pieces as
// active messages, each answered, with what was there before if that is wanted.  Accesses to one target are sent one
// after the other, so that accumulates keep the order that the standard promises; only some pieces are under way at a
// time, so that the answers of no target pile up.
// Owned by the pool of Windows.  Threads: under the Context's lock.
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

  /// What happens at the target, whose addresses `there` has; to be followed by from() and into() as needed.
  void prepare(Window& window, Target& target, wire::Action action, op::OpKind op, const p2p::Buffer& there);
  /// The data to send.
  void from(const p2p::Buffer& origin);
  /// Where to put what is there before.
  void into(const p2p::Buffer& result);
  /// The data of a compare-and-swap, copied (SwapValues::both()).
  void from_pair(ByteSpan values) noexcept;

  /// Sends pieces of the accesses that wait for `target`, as far as it goes; progress goes on when the transport is
  /// full.
  static void pump(Window& window, Target& target) noexcept;

  void on_reply(const wire::AccessReply& reply, ByteSpan data) noexcept;
  [[nodiscard]] bool is_to(const am::Endpoint& from) const noexcept { return target_->peer->endpoint == &from; }
  [[nodiscard]] Target& target() const noexcept { return *target_; }
  void fail(int error_class) noexcept;

 private:
  static const Actions kActions;
  static constexpr std::uint32_t kMostInFlight = 32;  // pieces, for each target

  void begin_sending() noexcept;
  void put_away() noexcept;
  enum class Sent : std::uint8_t { piece, later, failed };
  Sent send_piece() noexcept;
  void end() noexcept;

  Windows& windows_;
  Window* window_ = nullptr;
  Target* target_ = nullptr;
  wire::AccessHeader header_{};
  datatype::DatatypeRef type_;      // the target's
  p2p::Buffer origin_;              // host memory
  std::vector<std::byte> on_host_;  // what was read of GPU memory for it; keeps its capacity
  datatype::DatatypeRef origin_type_;
  datatype::Cursor origin_cursor_;
  p2p::Buffer result_;
  datatype::DatatypeRef result_type_;
  datatype::Cursor result_cursor_;
  std::array<std::byte, 64> pair_{};
  std::uint64_t bytes_ = 0;  // at the target
  std::uint64_t sent_ = 0;
  std::uint64_t answered_ = 0;
  std::uint32_t piece_unit_ = 1;  // pieces are whole elements
  bool stores_ = false;
  bool fetches_ = false;
  bool named_ = false;  // the target knows the type
};

}  // namespace mpi_shim::rma
