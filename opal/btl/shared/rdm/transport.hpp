// SPDX-License-Identifier: Apache-2.0
// opal/btl/shared/rdm/transport.hpp — the base of transports over networks that deliver reliable datagrams: one
// endpoint of the network reaches every peer without a connection (FI_EP_RDM of libfabric, Portals 4).  This class adds
// what peers need on top: a handshake that proves the job's secret, credits that bound the messages that a peer has in
// flight, pings, the death of processes on this host, and puts and gets that messages repeat if the network refuses
// them.  Reasons: docs/design/ofi.md.
// The network implements: sends from a buffer, messages that arrive, and puts and gets if it has them.
// If two sides connect to each other at once, the attempt of the side with the lower PeerId remains.
// The observer gets peer_gone with errno 0 for a disconnect, and an error with an errno for a failure, as with tcp.
// Threads: as btl::Module.
#pragma once
#include <chrono>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "opal/btl/shared/device_transport.hpp"
#include "opal/btl/shared/rdm/address.hpp"
#include "opal/btl/shared/rdm/endpoint.hpp"
#include "opal/btl/shared/rdm/send_buffers.hpp"
#include "opal/btl/shared/rdm/settings.hpp"
#include "opal/btl/shared/waiting.hpp"

namespace opal::btl::rdm {

/// Time for messages that arrived before a failure, if those of other peers never pause.
inline constexpr std::chrono::milliseconds kDrainTime{100};
/// Time for the completion of messages posted before a disconnect.
inline constexpr std::chrono::milliseconds kCloseTimeout{2'000};

/// What a network with puts and gets adds to an RdmaOperation.  Its completion is that of the repetition by messages.
struct Transfer : Completion, DeviceTransfer {
  Transport* transport = nullptr;
  RdmaOperation* operation = nullptr;
  std::uint32_t in_flight = 0;  ///< pieces
  bool refused = false;         ///< a piece has failed
};

class OPAL_EXPORT Transport : public DeviceTransport<Endpoint, Transfer> {
 public:
  /// Messages up to this size, with their frame, may be copied by transmit_inline().
  static constexpr std::size_t kMostInline = 256;

  [[nodiscard]] ByteSpan address() const noexcept override { return address_bytes_; }
  Result<btl::Endpoint*> connect(const PeerId& peer, ByteSpan address) override;

  Fragment alloc(btl::Endpoint& to, std::size_t size) noexcept override;
  void free(Fragment& fragment) noexcept override;

  [[nodiscard]] int wait_fd() const noexcept override { return waiting_.fd(); }

  // --- For endpoints and the parts of the network -----------------------------------------------------------------

  [[nodiscard]] const Settings& settings() const noexcept { return settings_; }
  [[nodiscard]] const Address& own_address() const noexcept { return address_; }
  [[nodiscard]] const Secret& key() const noexcept { return key_; }
  [[nodiscard]] SendBuffers& send_buffers() noexcept { return send_buffers_; }
  [[nodiscard]] Waiting& waiting() noexcept { return waiting_; }
  void on_broken() noexcept {
    some_broken_ = true;
    end_broken_ns_ = time_after(kDrainTime);
  }
  /// Ends what an endpoint has from the transport: its slot, its process, and `pending` send buffers.
  void release(std::uint32_t slot, Fd& process, std::uint32_t pending) noexcept;
  /// Makes the next progress() call Endpoint::resume() of all endpoints, and wakes a sleeper for that.
  void on_stalled() noexcept { some_stalled_ = true; }
  /// Counts a message that belongs to no peer; logs the first one.
  void drop_stray(const char* what) noexcept;
  /// A piece of an operation has ended; `size`: its bytes, `why`: its error, with code 0 for success.
  void on_piece(RdmaOperation& operation, std::uint64_t size, const Error& why) noexcept;
  /// Posts the operations again from their first byte.  Requires: the network has given up their pieces.
  void post_again(const std::vector<RdmaOperation*>& operations) noexcept;

  // --- What the network implements --------------------------------------------------------------------------------

  /// "btl.ofi", for log lines; a literal.
  [[nodiscard]] virtual const char* log_name() const noexcept = 0;
  /// The network, for Endpoint::describe().
  [[nodiscard]] virtual std::string describe_network() const = 0;
  /// Returns the number of a peer's address for transmit().  Errors: those of the network.
  virtual Result<std::uint64_t> reach(const Address& address) = 0;
  /// Sends the first `size` bytes of `buffer` to the peer; on_sent() follows, unless the network ends.
  /// False: nothing was sent; it has called on_stalled() if there was no room, or to.break_off().
  virtual bool transmit(Endpoint& to, SendBuffer& buffer, std::size_t size) noexcept = 0;
  /// Copies a message of at most inline_size() bytes and sends it, without on_sent().  False: as transmit().
  virtual bool transmit_inline(Endpoint& /*to*/, ByteSpan /*message*/) noexcept { return false; }
  /// Bytes that transmit_inline() takes, at most kMostInline.
  [[nodiscard]] std::size_t inline_size() const noexcept { return inline_size_; }

 protected:
  struct Parts {
    Attributes attributes;  ///< own_handles: the network has puts and gets
    Settings settings;
    Address address;  ///< from make_address()
    Waiting waiting;
    std::size_t inline_size = 0;
  };
  /// `make`: of the send buffers.
  Transport(const ModuleParameters& parameters, Parts parts, SendBuffers::Make make);

  /// The address of a module: `name` is its address in the network, of the form `format`.
  static Address make_address(const ModuleParameters& parameters, std::uint32_t magic, std::string_view network,
                              std::uint32_t format, std::vector<std::byte> name);

  /// Takes the network's completions and messages, and calls on_message(), on_sent() and on_piece(), while may_run() is
  /// true.  Returns true if there were some.
  virtual bool poll_network() noexcept = 0;
  /// Prepares a sleep.  False: there is work.
  virtual bool arm_network() noexcept = 0;
  /// True if a sleeper must wake every millisecond to poll, since no descriptor reports what it waits for.
  [[nodiscard]] virtual bool must_poll() const noexcept = 0;
  /// Sends messages that found no room.
  virtual void resume_network() noexcept {}
  /// Posts a piece that begins at the operation's byte `moved`, and adds its size to `moved`.  Only if native().
  /// `queued`: on_piece() follows.  `again`: no room; the end of another piece makes some, or it has called
  /// on_stalled(). `failed`: the network cannot do it.  Messages do it, or an atomic ends with the error that was set.
  [[nodiscard]] virtual Post post_piece(RdmaOperation& operation) noexcept = 0;
  /// Gives up the pieces on the endpoint; afterwards the network does not access their memory.
  virtual void drop_pieces(const Endpoint& endpoint) noexcept = 0;

  /// Handles a whole message.
  void on_message(ByteSpan message) noexcept;
  /// The endpoint to which a frame belongs; null: it has ended, or the frame is not genuine.
  [[nodiscard]] Endpoint* endpoint_of(const wire::Frame& frame) const noexcept;
  /// A transmit() has completed; gives the buffer back.
  void on_sent(SendBuffer& buffer, const Error& why) noexcept;

  bool arm_wake_up() noexcept override;
  void close_in_child() noexcept override;

 private:
  std::size_t receive(std::size_t budget) noexcept final;
  bool leave(Endpoint& endpoint, const Error& why) noexcept final { return endpoint.leave(why); }
  [[nodiscard]] bool has_left(const Endpoint& endpoint) const noexcept final { return endpoint.left(); }
  void on_vacant(const PeerId& peer) noexcept final;

  // peers.cpp
  Result<std::unique_ptr<Endpoint>> make_endpoint(const PeerId& peer, const Address& address);
  void on_hello(ByteSpan payload) noexcept;

  // progress.cpp
  void check_processes() noexcept;
  void look_at_clock() noexcept;
  [[nodiscard]] std::uint64_t next_time() const noexcept;

  // one_sided.cpp
  [[nodiscard]] Way way_to(Endpoint& endpoint) noexcept final;
  void start(RdmaOperation& operation) noexcept final;
  void finish(RdmaOperation& operation, const Error& why) noexcept final;
  void drop(Endpoint& endpoint) noexcept final;
  void post_pieces() noexcept;
  void finish_if_ended(RdmaOperation& operation) noexcept;
  bool emulate(RdmaOperation& operation) noexcept;

  const Settings settings_;
  SendBuffers send_buffers_;
  Waiting waiting_;
  const Address address_;
  const std::vector<std::byte> address_bytes_;
  const Secret key_;
  const std::size_t inline_size_;
  std::vector<RdmaOperation*> unposted_;  // in order of their posts; the first may be posted in part
  std::vector<RdmaOperation*> refused_;   // to be done by messages, which have no room
  std::vector<Endpoint*> slots_;          // by Frame::slot; null: free
  std::vector<std::uint32_t> free_slots_;
  std::unordered_map<PeerId, std::vector<std::byte>> waiting_hellos_;  // until on_vacant()
  bool some_broken_ = false;
  bool some_stalled_ = false;
  std::uint32_t idle_rounds_ = 0;  // consecutive rounds without a completion
  std::uint32_t busy_rounds_ = 0;
  std::uint64_t end_broken_ns_ = 0;  // when to end broken endpoints, if no round is idle before
  std::uint64_t look_ns_ = 0;        // when to look at the peers' processes again
  std::uint64_t strays_ = 0;         // messages that belong to no peer
};

}  // namespace opal::btl::rdm
