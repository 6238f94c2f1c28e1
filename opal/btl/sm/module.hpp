// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/module.hpp — messages between processes of one host through shared memory; put and get by single copy
// where the peer allows it, else by the emulation.  docs/design/sm.md draws the memory and tells the protocols.
// Owns: its inbox, one Link per peer, the connection manager thread.  Threads: as btl::Module; the connection manager
// touches nothing here. Invariants: by_index_ names an endpoint from the moment the peer may use the index until the
// endpoint is disconnected; an index is used again only when no message in the FIFO can bear it any more.
#pragma once
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "opal/btl/shared/message_transport.hpp"
#include "opal/btl/sm/config.hpp"
#include "opal/btl/sm/connections/connection_manager.hpp"
#include "opal/btl/sm/endpoint.hpp"
#include "opal/btl/sm/messages/inbox.hpp"
#include "opal/core/export.hpp"

namespace opal::btl::sm {

class OPAL_EXPORT Module : public MessageTransport {
 public:
  /// Errors: invalid_argument (a variable), no_memory, no_space, os.
  static Result<std::unique_ptr<Module>> open(const Host& host, const Config& config);
  /// The same over these devices of the kernel.
  static Result<std::unique_ptr<Module>> open(const Host& host, const Config& config, MechanismOrder order,
                                              KernelDevices devices);
  ~Module() override;

  [[nodiscard]] ByteSpan address() const noexcept override { return bytes_of(address_); }
  Result<btl::Endpoint*> connect(const PeerId& peer, ByteSpan address) override;
  void disconnect(btl::Endpoint& endpoint) noexcept override;

  // Final: a transport composed on this one (smcuda) adds nothing to the way of a message.
  Post send_inline(btl::Endpoint& to, Tag tag, ByteSpan header, ByteSpan payload) noexcept final;
  Post send_beside(btl::Endpoint& to, Tag tag, ByteSpan header, ByteSpan payload) noexcept final;
  Fragment alloc(btl::Endpoint& to, std::size_t size) noexcept final;
  Post send(Fragment& fragment, Tag tag) noexcept final;
  void free(Fragment& fragment) noexcept final;

  Post put(btl::Endpoint& to, const void* source, const MemoryHandle* local, std::uint64_t remote_address,
           const MemoryHandle& remote, std::uint64_t size, Completion& completion) noexcept override;
  Post get(btl::Endpoint& to, void* destination, const MemoryHandle* local, std::uint64_t remote_address,
           const MemoryHandle& remote, std::uint64_t size, Completion& completion) noexcept override;

  Post atomic(btl::Endpoint& to, const AtomicRequest& request, Completion& completion) noexcept override;
  Post flush(btl::Endpoint* to, Completion& completion) noexcept override;

  std::size_t progress(std::size_t budget) noexcept final;
  std::size_t progress_from(btl::Endpoint& from, std::size_t budget) noexcept final;
  [[nodiscard]] int wait_fd() const noexcept override { return doorbell_.get(); }
  bool arm() noexcept override;

  /// Fast boxes accepted from peers, for tests and tools.
  [[nodiscard]] std::size_t boxes_in() const noexcept { return boxes_.size() + parked_.size(); }
  /// Those of them that every round looks at.
  [[nodiscard]] std::size_t boxes_polled() const noexcept { return boxes_.size(); }
  /// Whether messages to this peer may go through a fast box.
  [[nodiscard]] static bool has_box_out(const btl::Endpoint& to) noexcept {
    return static_cast<const Endpoint&>(to).box_out_.on();
  }
  /// Shared pools of the peer that are mapped here.
  [[nodiscard]] static std::size_t pools_mapped(const btl::Endpoint& of) noexcept {
    const SharedMechanism* const shared = static_cast<const Endpoint&>(of).link_->shared;
    return shared != nullptr ? shared->mapped() : 0;
  }

 protected:
  /// What a module is made of, before it has a place in memory.
  struct Parts {
    Attributes attributes;
    Config config;
    MechanismOrder order;
    KernelDevices devices;
    std::optional<Way> forced_way;
    Inbox inbox;
    Fd doorbell;
    bool fences;

    /// Errors: as open().
    static Result<Parts> make(const Host& host, const Config& config, MechanismOrder order, KernelDevices devices);
    static Result<Parts> make(const Host& host, const Config& config);
  };
  /// For transports composed on this one; offer() and start() follow.
  Module(const Host& host, Parts parts);
  /// What peers learn that this module can beyond sm, and what they have said: bits of kExtension...
  void offer(std::uint64_t extensions) noexcept { local_.offer(extensions); }
  [[nodiscard]] static std::uint64_t extensions(const btl::Endpoint& peer) noexcept;
  /// Takes the tags, opens the door.  Errors: limit_reached, os.
  Result<void> start();

  /// Has attend() called in the rounds of progress() to come, until it says that it has nothing to do.
  void want_attention() noexcept { unsettled_ = true; }
  /// What a transport composed on this one does in a round.  Adds to `count`; returns whether it wants another one.
  virtual bool attend(std::size_t& /*count*/) noexcept { return false; }
  /// The endpoint has died or is being disconnected: what is under way with it ends with `why`.
  virtual void abandon(btl::Endpoint& /*endpoint*/, const Error& /*why*/) noexcept {}
  /// Descriptors go over the socket to the peer.  Who asks for one, in a message of its own, expects the answer;
  /// on_file() has it, unless the peer goes or its socket is full.
  void expect_file(const btl::Endpoint& from) noexcept;
  void give_file(const btl::Endpoint& to, const SoftwareHandle& region, const FileNote& note, int file) noexcept;
  virtual void on_file(btl::Endpoint& /*from*/, ReceivedFile /*file*/) noexcept {}
  /// Whether the peer's own table allows it.  Errors: peer_gone, protocol, invalid_argument, permission.
  static Result<void> check_remote(btl::Endpoint& to, const MemoryHandle& remote, std::uint64_t address,
                                   std::uint64_t size, Rights wanted) noexcept;

 private:
  // send.cpp
  Post send_inline_locked(Endpoint& to, Tag tag, ByteSpan header, ByteSpan payload) noexcept;
  Post send_by_fifo(Endpoint& to, Tag tag, ByteSpan header, ByteSpan payload) noexcept;
  Post post_fragment(Endpoint& to, FragmentRef fragment, Tag tag, std::size_t size) noexcept;
  static void put_back(Fragment& fragment) noexcept;
  Post refuse(Endpoint& to, Tag tag, std::size_t size) noexcept;
  void check_for_box(Endpoint& to) noexcept;
  std::uint32_t offer_box_if_due(Endpoint& to) noexcept;

  static Result<std::unique_ptr<Module>> open(const Host& host, Parts parts);

  /// Waits for the puts up to a number in which peers help.
  struct PendingFlush {
    btl::Endpoint* to;  // null: all
    std::uint64_t last;
    Completion* completion;
  };

  // one_sided.cpp
  [[nodiscard]] bool puts_before(const PendingFlush& flush) const noexcept;
  void check_flushes() noexcept;
  /// Smaller transfers are not worth a request for help.
  [[nodiscard]] std::uint64_t least_helped() const noexcept {
    return std::min(config_.pipeline_from.bytes, config_.shared_help_from.bytes);
  }
  Result<RemoteRange> reach(Endpoint& to, std::uint64_t address, const MemoryHandle& remote, std::uint64_t size,
                            Rights wanted) noexcept;

  // pull.cpp
  static bool can_copy(const Endpoint& peer, const RemoteRange& range) noexcept;
  [[nodiscard]] static bool reachable(const Endpoint& from) noexcept;
  Ways ways(Endpoint& from, const RemoteRange& range, bool put) const noexcept;
  static WayChooser& chooser_of(Endpoint& from, const RemoteRange& range, bool streamed, bool put);
  [[nodiscard]] bool is_streamed(Endpoint& from) const noexcept;
  bool begin_pull(Endpoint& from, const Pulls::Request& request) noexcept;
  [[nodiscard]] bool ours_to_copy(const Pulls& pulls) const noexcept;
  std::size_t progress_pulls() noexcept;
  void start_next_pull(Endpoint& from) noexcept;
  void announce_pull(Endpoint& from) noexcept;
  std::size_t take_pieces(Endpoint& from) noexcept;
  std::size_t pull_by_mechanisms(Endpoint& from) noexcept;
  bool end_pull(Endpoint& from) noexcept;
  static void on_pull_request(void* unused, Delivery& delivery) noexcept;
  static bool feed_in_place(Endpoint& to, std::byte* bytes, const RemoteRange& place) noexcept;
  bool feed(Endpoint& to) noexcept;
  static void wait_until_quiet(Endpoint& endpoint) noexcept;
  void abandon_pulls(Endpoint& endpoint, const Error& why) noexcept;
  [[nodiscard]] bool pulls_have_work() const noexcept;

  // room.cpp
  Post starve(Endpoint& to, Lacking lacking) noexcept;
  void announce_starved() noexcept;
  [[nodiscard]] bool room_has_come() const noexcept;
  void withdraw_announced() noexcept;
  void hear_waiting(std::uint32_t notifications) noexcept;
  void wake_waiting() noexcept;

  // boxes.cpp
  void park_some() noexcept;
  void park_idle(std::size_t most, std::uint32_t least_idle) noexcept;
  void unpark_box(std::size_t place) noexcept;
  void answer_notifications() noexcept;
  bool room_for_box(std::uint32_t size) noexcept;
  void look_at_offer(Endpoint& from) noexcept;
  void forget_box(Endpoint& endpoint) noexcept;

  // receive.cpp
  std::size_t poll_fifo(std::size_t budget) noexcept;
  std::size_t receive_from_box(Endpoint& from, std::size_t budget) noexcept;
  bool receive_next(Endpoint& from) noexcept;
  void look_who_waits_for_room() noexcept {
    // A sender may sleep until there is room, which there may be now.
    sender_fence(all_fences_paid_);
    if (inbox_.is_notified()) [[unlikely]]
      answer_notifications();
  }
  std::size_t receive_front(wire::FifoItem item, std::size_t budget) noexcept;
  void receive_fragment(Endpoint& from, const ReceivedFragment& fragment) noexcept;
  void check_blocked() noexcept;

  // peers.cpp
  Endpoint& add(std::unique_ptr<Link> link);
  std::size_t handle_connection_events() noexcept;
  std::size_t settle() noexcept;
  void announce(Endpoint& endpoint) noexcept;
  void end_life(Endpoint& endpoint) noexcept;
  void tell_failure(Endpoint& endpoint) noexcept;
  void fail(Endpoint& endpoint, const Error& why) noexcept;
  void fail_with_send_lock(Endpoint& endpoint, const Error& why) noexcept;
  void disarm() noexcept;
  [[gnu::cold]] void lose_descriptors() noexcept;
  [[nodiscard]] bool has_work() const noexcept;

  /// Rounds between two looks at what is rarely needed; a box that has been quiet for as many is idle.
  static constexpr std::uint32_t kSweepRounds = 1024;

  struct CoolingIndex {
    std::uint32_t index;
    std::uint64_t until;  // position of our FIFO
  };

  const Config config_;
  const std::optional<Way> forced_way_;  // btl_sm_large_get
  Inbox inbox_;
  Fd doorbell_;
  LocalSide local_;
  Address address_{};

  std::vector<Endpoint*> boxes_;     // peers whose fast box we look at
  std::vector<Endpoint*> parked_;    // peers whose fast box was idle; the one parked longest first
  std::vector<Endpoint*> by_index_;  // by the name a peer has in our FIFO; null: nobody
  std::vector<std::unique_ptr<Endpoint>> endpoints_;
  std::unordered_map<PeerId, Endpoint*> by_peer_;  // not dead
  std::vector<Endpoint*> blocked_;                 // boxes that wait for the FIFO
  std::vector<Endpoint*> starved_;                 // peers without room for what we posted since arm()
  std::vector<Endpoint*> announced_;               // those that know that we sleep until they make some
  std::vector<Endpoint*> waiting_;                 // peers that sleep until we make room
  std::vector<Endpoint*> leaving_;                 // peers that have gone; their last messages are being delivered
  std::vector<Endpoint*> failed_;                  // dead, the layer above does not know yet
  std::vector<Endpoint*> unannounced_;             // peers that came back before their last end was told; oldest first
  std::vector<CoolingIndex> cooling_;
  std::vector<Endpoint*> pulling_;  // peers from which a large get is under way
  std::vector<Endpoint*> feeding_;  // peers that we help with theirs
  std::vector<PendingFlush> flushes_;
  std::uint64_t puts_posted_ = 0;  // those in which peers help
  std::uint64_t box_bytes_ = 0;    // of the rings in boxes_ and parked_
  std::uint32_t round_ = 0;        // of progress()
  std::uint32_t sleep_ = 0;        // number of the last sleep
  bool armed_ = false;
  bool all_fences_paid_ = true;  // by all peers there have been; see sender_fence()
  bool unsettled_ = false;       // leaving_, failed_, cooling_ or waiting_ has something, or attend() is wanted
  bool in_progress_ = false;
  std::unique_ptr<ConnectionManager> connections_;  // last: its thread uses what is above
};

}  // namespace opal::btl::sm
