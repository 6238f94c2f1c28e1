// SPDX-License-Identifier: Apache-2.0
// mpi_shim/p2p/engine.hpp — point-to-point messages over active messages: eager, synchronous eager, and rendezvous,
// where the receiver fetches the data by a get if the transport moves it without the sender's help, and has it pushed
// otherwise.  Without unexpected-message credit a sender falls back to rendezvous, so that a flood is bounded at its
// target (credit.cpp).  The Engine knows the channels, the transfers in flight and what waits for the transport.
// Owns the pools of requests; borrows channels and peers.
// Threads: everything under the Context's lock, taken here; wait() does not hold it while it sleeps.
#pragma once
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "mpi_shim/base/names.hpp"
#include "mpi_shim/base/object_pool.hpp"
#include "mpi_shim/p2p/channel.hpp"
#include "mpi_shim/p2p/config.hpp"
#include "mpi_shim/p2p/data/buffer.hpp"
#include "mpi_shim/p2p/data/incoming.hpp"
#include "mpi_shim/p2p/fetch.hpp"
#include "mpi_shim/p2p/receive.hpp"
#include "mpi_shim/p2p/send.hpp"
#include "mpi_shim/p2p/transfer_table.hpp"
#include "opal/am/context.hpp"
#include "opal/core/sync/yield_policy.hpp"

namespace mpi_shim::p2p {

class Vcis;

/// Resolves a process to an endpoint.
class Connector {
 public:
  virtual Result<am::Endpoint*> connect(int process) = 0;
  /// The peer is gone; what was in flight with it has failed.
  virtual void on_peer_failed(int process, const Error& why) noexcept = 0;

 protected:
  ~Connector() = default;
};

/// Is notified of long blocking waits; it finds out itself whether anything moves.
class IdleObserver {
 public:
  explicit IdleObserver(std::chrono::milliseconds every) noexcept : period(every) {}
  const std::chrono::milliseconds period;
  /// A thread has waited for (about) another period, without any lock held.  `wait` tells waits apart; `what`: for
  /// what it waits if that is no message, or null.
  virtual void on_idle(std::uint64_t wait, const char* what) noexcept = 0;

 protected:
  ~IdleObserver() = default;
};

/// Holds threads up that make progress, as a checkpoint does.
class Halt {
 public:
  /// Called between two rounds of progress, without any lock held; returns when the thread may go on.
  virtual void wait() noexcept = 0;

 protected:
  ~Halt() = default;
};

class Engine {
 public:
  /// Takes the tags of wire.hpp.  `core_is_shared`: other ranks run on this core.
  /// Errors: limit_reached (another Engine has them).
  static Result<std::unique_ptr<Engine>> open(am::Context& context, Connector& connector, const Config& config,
                                              bool core_is_shared);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  [[nodiscard]] am::Context& context() noexcept { return context_; }
  [[nodiscard]] am::Lock& lock() noexcept { return lock_; }

  // --- Channels

  /// Messages for the channel are matched from now on, those first that came before it was opened.
  void open_channel(Channel& channel);
  void close_channel(Channel& channel) noexcept;

  // --- Messages

  /// MPI_Send and MPI_Ssend: an error class.
  int send(Channel& channel, const Buffer& buffer, int destination, int tag, Mode mode) {
    if (mode == Mode::standard && send_at_once(channel, buffer, destination, tag)) [[likely]]
      return MPI_SUCCESS;
    return send_slowly(channel, buffer, destination, tag, mode);
  }

  /// MPI_Recv.
  Outcome receive(Channel& channel, const Buffer& buffer, int source, int tag);

  /// Sends a small message now, without a request, if nothing stands in its way.
  bool send_at_once(Channel& channel, const Buffer& buffer, int destination, int tag) noexcept {
    const am::Lock::Guard guard{lock_};
    Peer& peer = *channel.peers[static_cast<std::size_t>(destination)];
    const std::uint64_t sent = peer.sent + Peer::cost(buffer.bytes());
    if (buffer.bytes() >= peer.eager_below || buffer.contiguous() == nullptr || sent > peer.may_send) return false;
    const wire::MatchHeader header = wire::match_header(channel.context, channel.rank, tag);
    const std::uint64_t before = std::exchange(peer.sent, sent);  // first: this process may receive it at once
    if (peer.endpoint->send_inline(wire::kEager, bytes_of(header), {buffer.contiguous(), buffer.bytes()}) == Post::done)
        [[likely]]
      return true;
    peer.sent = before;
    return false;
  }

  /// A request, not started yet; the caller owns it until put_back().
  Send& new_send(Channel& channel, const Buffer& buffer, int destination, int tag, Mode mode);
  Receive& new_receive(Channel& channel, const Buffer& buffer, int source, int tag);

  /// The oldest message that a receive would match, if it has arrived; it stays where it is.
  bool probe(Channel& channel, int source, int tag, Outcome& outcome) noexcept;
  /// As probe(), but takes the message out of matching; give it to receive_matched().
  std::unique_ptr<Unexpected> take(Channel& channel, int source, int tag, Outcome& outcome) noexcept;

  /// Whether an operation that was started on the channel is not done.
  [[nodiscard]] bool has_pending(const Channel& channel) const noexcept;

  /// Whether every process that a message from `source` could come from has failed or ended; under lock().
  [[nodiscard]] bool no_sender_left(const Channel& channel, int source) const noexcept {
    return failures() != 0 && all_failed(channel, source);
  }

  // --- For other protocols over the same peers; under lock()

  /// Connects if that was not done yet.  An error class.
  int reach(Peer& peer) noexcept;
  /// Whether a message that came from `from` is `peer`'s; it may have come to us before we went to it.
  bool recognise(Peer& peer, am::Endpoint& from) noexcept;
  /// Sends a control message; it waits in the endpoint while the transport is full.  Beyond am_pending_limit it is
  /// lost, with an error in the log.
  template <class Message>
  void send_control(am::Endpoint& to, Tag tag, const Message& message) noexcept {
    post_control(to, tag, bytes_of(message));
  }
  /// Has a reached peer that may sleep check again what it waits for.
  void wake(Peer& peer) noexcept {
    const am::Lock::Guard guard{lock_};
    if (!peer.failed) post_control(*peer.endpoint, wire::kWake, {});
  }
  /// How many peers were lost so far: what waits for some without messages checks them again when it changes.
  [[nodiscard]] std::uint32_t failures() const noexcept { return failures_.load(std::memory_order_acquire); }
  /// Calls stalled.resume() from progress until it says true.
  void wait_for_transport(Stalled& stalled) {
    stalled_.push_back(&stalled);
    stalling_.store(true, std::memory_order_relaxed);
  }
  /// Takes that back; not from inside resume().
  void stop_waiting_for_transport(Stalled& stalled) noexcept {
    std::erase(stalled_, &stalled);
    update_stalling();
  }

  // --- Progress

  std::size_t progress() noexcept;
  /// progress() of a thread that waits by itself: the other VCIs have their turn, too.
  std::size_t poll_all() noexcept { return vcis_ == nullptr ? progress() : poll_all_vcis(); }
  /// One round for a program that tests and does not wait, as often as it likes: when nothing has happened, a process
  /// shares the core may have it, since the program may be asking for what they have yet to do.
  void poll() noexcept;
  /// One round for a caller that holds lock(); see am::Context::progress_locked.
  std::size_t progress_locked() noexcept;
  /// Progresses until `condition()`, which comes true by this Engine's progress or before wake_sleepers(); sleeps when
  /// there is nothing to do.  `what` names what is waited for in reports of deadlocks, if it is no message.
  template <class Condition>
  void wait_until(Condition condition, const char* what = nullptr) noexcept {
    if (vcis_ != nullptr) [[unlikely]] {
      return wait_on_vcis([](void* object) noexcept -> bool { return !(*static_cast<Condition*>(object))(); },
                          &condition, what);
    }
    std::uint64_t wait = 0;
    while (!condition()) {
      if (progress() != 0) continue;
      // What back-pressure holds up has no event that ends it: poll every millisecond.
      const bool nothing_stalled = !stalling_.load(std::memory_order_relaxed);
      const auto timeout = idle_observer_ == nullptr ? std::chrono::milliseconds{-1} : idle_observer_->period;
      const bool over = context_.wait_until(
          [&] { return condition() || (nothing_stalled && stalling_.load(std::memory_order_relaxed)); },
          nothing_stalled ? timeout : std::chrono::milliseconds{1});
      if (over || idle_observer_ == nullptr) [[likely]]
        continue;
      if (wait == 0) wait = idle_waits_.fetch_add(1, std::memory_order_relaxed) + 1;
      idle_observer_->on_idle(wait, what);
    }
  }
  /// Waits for one request, and polls its sender first if it is a receive; its caller waits for `awaited` together.
  void wait(const Request& request, std::size_t awaited = 1) noexcept {
    if (!request.done()) poll_for(request, awaited);
  }

  // --- Checkpoints (process/checkpoint.hpp)

  /// Threads that come to their next round of progress() call by->wait() there; null: no more.  From any thread.
  void halt(Halt* by) noexcept;
  [[nodiscard]] bool is_halted() const noexcept { return halt_.load(std::memory_order_acquire) != nullptr; }
  /// Whether a get that was posted here is in flight; under lock().
  [[nodiscard]] bool is_fetching() const noexcept { return fetching_ != 0; }
  /// Of gets of another protocol: 1 more of them is in flight, or -1.
  void count_fetches(int change) noexcept {
    const am::Lock::Guard guard{lock_};
    fetching_ += static_cast<std::uint64_t>(change);
  }

  // --- One of several VCIs (vcis.hpp)

  /// Its number among the process's Engines.
  [[nodiscard]] unsigned vci() const noexcept { return vci_; }
  /// As progress(), but does nothing if another thread holds the lock.  For threads of other VCIs, which hold no lock.
  std::size_t glance() noexcept;
  /// Something could not go out, or a loss has to be looked at: progress is to come back soon.
  [[nodiscard]] bool stalling() const noexcept { return stalling_.load(std::memory_order_relaxed); }
  /// Another VCI has lost the process.  If this one has no way to it by which it would hear itself, what waits for it
  /// here ends, once what has arrived is handled.  Takes no lock of this VCI.
  void lost_elsewhere(Peer& peer) noexcept;

  /// Null: none; before there are other threads.
  void set_idle_observer(IdleObserver* watch) noexcept { idle_observer_ = watch; }

  /// What has not found its partner yet; under lock().
  struct Waiting {
    struct Operation {
      bool sends;
      const Peer* peer;  ///< null: any
      int tag;           ///< MPI_ANY_TAG for any
      const Channel* channel;
      std::uint64_t id;
    };
    std::vector<Operation> operations;
    bool moving;          ///< data are on their way
    std::uint64_t state;  ///< changes with every message
  };
  [[nodiscard]] Waiting waiting();

  /// Ends everything in flight with a process that is gone.
  void peer_failed(Peer& peer, const Error& why) noexcept;

 private:
  friend class Vcis;
  friend class Send;
  friend class Receive;
  friend class Fetch;

  static constexpr std::size_t kMostSpare = 64;

  Engine(am::Context& context, Connector& connector, const Config& config, bool core_is_shared);
  Result<void> install();
  int send_slowly(Channel& channel, const Buffer& buffer, int destination, int tag, Mode mode);

  void poll_for(const Request& request, std::size_t awaited) noexcept;
  void wait_long(const Request& request) noexcept;
  /// Remembers how large a message to the peer may be sent eagerly.
  void set_endpoint(Peer& peer, am::Endpoint& endpoint) noexcept;
  std::size_t resume_stalled() noexcept;
  void update_stalling() noexcept;
  /// Peers that other VCIs have lost.
  void take_losses() noexcept;
  /// Yields the core if other processes share it; see poll().
  void yield_core() noexcept;
  std::size_t poll_all_vcis() noexcept;
  void wait_on_vcis(bool (*missing)(void*) noexcept, void* object, const char* what) noexcept;
  /// Takes over a message that has left its matcher.
  std::unique_ptr<Unexpected> adopt(match::Unexpected* message) noexcept;
  /// Memory for messages that come early, used again so that they allocate nothing.
  Unexpected& new_unexpected(const Incoming& message);
  void keep(std::unique_ptr<Unexpected> received) noexcept;
  /// An eager message of `peer` has left our memory: its sender hears of it from time to time.
  void note_received(Peer& peer, std::uint64_t bytes) noexcept {
    peer.received += Peer::cost(bytes);
    if (peer.received - peer.announced >= announce_after_) [[unlikely]]
      announce(peer);
  }
  void note_received(Peer& peer, const Incoming& message) noexcept {
    if (message.kind == wire::kEager || message.kind == wire::kEagerSync) note_received(peer, message.size);
  }
  void announce(Peer& peer) noexcept;
  [[nodiscard]] static bool all_failed(const Channel& channel, int source) noexcept;
  /// Ends receives that wait for a process that is gone.
  void fail_receives(Channel& channel, const Peer& peer) noexcept;
  /// Whether a message of `from` is of the process that has the rank `source`, as it says.
  bool belongs(Channel& channel, int source, am::Endpoint& from) noexcept;
  /// Null: there is none of this number, or not yet.
  [[nodiscard]] Channel* open_channel_of(std::uint32_t context) const noexcept {
    return context < channels_.size() ? channels_[context] : nullptr;
  }

  template <class Message>
  Send* find_send(const btl::Delivery& delivery, Message& message, bool (Send::*awaits)() const noexcept) noexcept;
  void on_eager(btl::Delivery& delivery) noexcept;
  void on_first_message(btl::Delivery& delivery) noexcept;
  void on_matched(btl::Delivery& delivery) noexcept;
  void on_cancel(btl::Delivery& delivery) noexcept;
  void on_cancelled(btl::Delivery& delivery) noexcept;
  void on_clear_to_send(btl::Delivery& delivery) noexcept;
  void on_data(btl::Delivery& delivery) noexcept;
  void on_finished(btl::Delivery& delivery) noexcept;
  void on_credit(btl::Delivery& delivery) noexcept;
  void refuse(const btl::Delivery& delivery, const char* why) noexcept;
  void post_control(am::Endpoint& to, Tag tag, ByteSpan message) noexcept;

  am::Context& context_;
  Connector& connector_;
  am::Lock& lock_;
  const Config config_;
  const bool core_is_shared_;
  opal::YieldPolicy yield_policy_;
  const std::uint64_t announce_after_;  // so often that a sender rarely lacks credit
  ObjectPool<Send, Engine> sends_;
  ObjectPool<Receive, Engine> receives_;
  ObjectPool<Fetch, Engine> fetches_;
  TransferTable<Send> sending_;                     // those whose answer is awaited
  TransferTable<Receive> receiving_;                // those whose data are pushed to us
  std::vector<Channel*> channels_;                  // by context number
  std::vector<std::unique_ptr<Unexpected>> early_;  // for channels that are not open yet
  std::vector<std::unique_ptr<Unexpected>> spare_;  // received; at most kMostSpare
  std::vector<Stalled*> stalled_;                   // in the order of posting
  std::atomic<bool> stalling_{false};               // whether there are any, losses or a halt; read without the lock
  std::mutex losses_mutex_;                         // of lost_, and of stalling_ becoming false
  std::vector<Peer*> lost_;                         // by other VCIs
  std::atomic<std::uint32_t> failures_{0};
  Vcis* vcis_ = nullptr;  // null: this is the only one
  unsigned vci_ = 0;
  IdleObserver* idle_observer_ = nullptr;
  std::atomic<std::uint64_t> idle_waits_{0};
  std::uint64_t fetching_ = 0;    // fetches in flight
  std::uint64_t rendezvous_ = 0;  // received ever
  std::uint64_t pass_ = 0;
  std::atomic<Halt*> halt_{nullptr};
};

}  // namespace mpi_shim::p2p
