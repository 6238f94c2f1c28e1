// SPDX-License-Identifier: Apache-2.0
// opal/btl/tcp/endpoint.hpp — one peer: the search for a connection, the connection, what waits to be sent on it.
// States: dialing (posts wait in the queue) -> connected -> ended.  A failed send does not end it at once: what the
// peer sent before is read to the end first, and the goodbye in it, if any, tells a disconnect from a death.
// leaving: disconnect() was called and nobody knows the endpoint any more; it only brings out what was posted before.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "opal/btl/endpoint.hpp"
#include "opal/btl/post.hpp"
#include "opal/btl/tag.hpp"
#include "opal/btl/tcp/connections/dialer.hpp"
#include "opal/btl/tcp/connections/reactor.hpp"
#include "opal/btl/tcp/frame_reader.hpp"
#include "opal/btl/tcp/output_queue.hpp"
#include "opal/core/export.hpp"
#include "opal/core/system/mapping.hpp"

namespace opal::btl::tcp {

class Module;

class OPAL_EXPORT Endpoint final : public btl::Endpoint, public Source, private Dialer::Owner {
 public:
  /// Errors: no_memory.
  static Result<std::unique_ptr<Endpoint>> create(Module& module, Reactor& reactor, const PeerId& peer);
  ~Endpoint() override;

  /// Starts looking for the peer.
  void dial(const Greeting& greeting, std::vector<SocketAddress> candidates);
  /// Goes on with a connection that the peer made; ends the own search, if any.
  void adopt(Fd fd, std::uint32_t peer_max_send) noexcept;

  [[nodiscard]] bool dialing() const noexcept { return dialer_ != nullptr; }
  [[nodiscard]] std::string describe() const override;

  // The module has accepted the size.
  Post send_inline(Tag tag, ByteSpan header, ByteSpan payload) noexcept;
  /// `slot`: the fragment's buffer, given back to the module as soon as it is not needed.
  Post send_fragment(Tag tag, ByteSpan data, ByteSpan user_payload, Completion* completion, void* slot) noexcept;

  /// Ends the endpoint for good: marks it dead, closes the connection, and has the module report it.
  void end(const Error& why) noexcept;
  /// Finishes what waits to be sent with `why`, unless it still goes out.
  void drop_pending(const Error& why) noexcept {
    if (!leaving_) drop_queue(why);
  }

  /// Turns into a leaving one, which lives until left().
  void leave(const Error& why) noexcept;
  [[nodiscard]] bool left() const noexcept { return leaving_ && !open() && dialer_ == nullptr; }
  /// True when the other host has everything; for the module's end.
  [[nodiscard]] bool delivered() const noexcept;

  /// Receives now, whatever the kernel has told so far.
  void poll() noexcept;

  void on_ready() noexcept override;
  void on_deadline() noexcept override;

 private:
  Endpoint(Module& module, Reactor& reactor, const PeerId& peer, Mapping ring) noexcept;
  void on_connected(Fd fd, std::uint32_t peer_max_send) noexcept override;
  void on_unreachable(const Error& why) noexcept override;

  [[nodiscard]] bool connected() const noexcept { return open() && dialer_ == nullptr; }
  /// Hands the vectors to the kernel and queues nothing.  Returns bytes taken, or -1 after send_failed().
  std::int64_t send_now(iovec* vectors, std::size_t count) noexcept;
  void flush() noexcept;
  void receive() noexcept;
  /// Runs handlers; false when receiving has to stop here.
  bool deliver() noexcept;
  void discard_input() noexcept;
  void send_failed(int error) noexcept;
  void finish_leaving() noexcept;
  /// Finishes every referenced piece of the queue with `why`.
  void drop_queue(const Error& why) noexcept;
  void finished(const OutputQueue::Referenced& what, const Error& why) noexcept;
  void watch_for_silence() noexcept;

  Module& tcp_;
  std::unique_ptr<Dialer> dialer_;  // while dialing
  Mapping ring_;
  OutputQueue queue_;
  Mapping input_;
  FrameReader reader_;
  std::vector<std::byte> detached_;  // leaving: bytes that were the user's
  bool leaving_ = false;
  bool ended_ = false;
  unsigned silent_periods_ = 0;
  std::string where_;  // both ends of the connection, for describe()
};

}  // namespace opal::btl::tcp
