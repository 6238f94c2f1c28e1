// SPDX-License-Identifier: Apache-2.0
// opal/btl/tcp/endpoint.hpp — one peer: its Dialer while it connects, its connection, and its output queue.
//   dialing    no connection yet; posts wait in the queue
//   connected  messages are sent and received
//   ended      the connection is closed
//   leaving    disconnect() was called: it sends what was posted before, discards input, and has no user
// A failed send marks the endpoint dead, but ends it only when the input has been read to its end.  A goodbye in the
// input shows that the peer has disconnected; without one the peer has died.
// Owned by its module.  Threads: as the module.
#pragma once
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "opal/btl/endpoint.hpp"
#include "opal/btl/post.hpp"
#include "opal/btl/tag.hpp"
#include "opal/btl/tcp/connections/reactor.hpp"
#include "opal/btl/tcp/dialer.hpp"
#include "opal/btl/tcp/frame_reader.hpp"
#include "opal/btl/tcp/output_queue.hpp"
#include "opal/core/export.hpp"
#include "opal/core/system/mapping.hpp"

namespace opal::btl::tcp {

class Module;

class OPAL_EXPORT Endpoint final : public btl::Endpoint, public Source {
 public:
  /// Errors: no_memory.
  static Result<std::unique_ptr<Endpoint>> create(Module& module, Reactor& reactor, const PeerId& peer);
  ~Endpoint() override;

  /// Starts to connect to `candidates`.
  void dial(const HandshakeSides& sides, std::vector<SocketAddress> candidates);
  /// Uses an established connection, of the peer or of its own Dialer; ends the Dialer.  After an error it is dead.
  void adopt(Fd fd, std::uint32_t peer_max_send) noexcept;
  /// The Dialer has found no address that leads to the peer.  `why`: the most specific error of one, or the timeout.
  void on_unreachable(const Error& why) noexcept;

  [[nodiscard]] bool dialing() const noexcept { return dialer_ != nullptr; }
  [[nodiscard]] std::string describe() const override;

  /// As Module's send_inline().  Requires: Module::accepts() for the size.
  Post send_inline(Tag tag, ByteSpan header, ByteSpan payload) noexcept;
  /// True when send_inline() would return `again` for a message of `size` bytes.
  [[nodiscard]] bool lacks_room(std::size_t size) const noexcept;

  /// Sends the messages that send_inline() has held back in a batch.
  void release() noexcept;

  /// Ends the endpoint: marks it dead, closes the connection, and makes the module report it, unless it is leaving.
  void end(const Error& why) noexcept;
  /// Makes the endpoint leaving.  The owner destroys it when left() is true.
  void leave(const Error& why) noexcept;
  [[nodiscard]] bool left() const noexcept { return leaving_ && !open() && dialer_ == nullptr; }
  /// True while the other host has not acknowledged all data.  False without a connection: also while dialing.
  [[nodiscard]] bool awaits_acknowledgement() const noexcept;

  /// Receives and runs handlers, without waiting for an event of the kernel.
  void poll() noexcept;

  void on_ready() noexcept override;
  void on_deadline() noexcept override;

 private:
  Endpoint(Module& module, Reactor& reactor, const PeerId& peer, Mapping ring) noexcept;

  [[nodiscard]] bool connected() const noexcept { return open() && dialer_ == nullptr; }
  /// The parts of a message: filler, frame, header, payload, padding.
  using Parts = std::array<ByteSpan, 5>;
  /// Gives the bytes to the kernel and queues nothing.  Returns the bytes taken, or -1 after send_failed().
  std::int64_t send_now(iovec* vectors, std::size_t count) noexcept;
  std::int64_t send_now(const Parts& parts, std::size_t whole) noexcept;
  void flush() noexcept;
  /// Copies a message, or what the kernel has not taken of it, into the queue.
  void enqueue(const Parts& parts, std::size_t taken) noexcept;
  void receive() noexcept;
  [[nodiscard]] MutableBytes place_of_rest() noexcept;
  /// Runs handlers for complete frames.  False: the budget is used up or the endpoint has ended, so stop receiving.
  bool deliver() noexcept;
  void send_failed(int error) noexcept;
  void finish_leaving() noexcept;
  void watch_for_silence() noexcept;

  Module& tcp_;
  std::unique_ptr<Dialer> dialer_;  // while dialing
  Mapping ring_;                    // memory of queue_
  OutputQueue queue_;
  Mapping input_;  // memory of reader_; empty until connected
  FrameReader reader_;
  std::size_t placed_from_ = 0;  // the header of a message whose payload is received to its place; 0: none is
  bool lost_ = false;            // the place of that payload is not accessible any more
  std::uint64_t batch_ = 0;      // the last one with a message to the peer, see Module::batch()
  bool holding_ = false;         // the module will call release(); the queue has only messages of the batch
  bool leaving_ = false;
  bool ended_ = false;           // end() was called
  unsigned silent_periods_ = 0;  // periods in a row in which is_silent() was true
  std::string where_;            // both ends of the connection, for describe()
};

}  // namespace opal::btl::tcp
