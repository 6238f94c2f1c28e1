// SPDX-License-Identifier: Apache-2.0
// mpi_shim/p2p/engine.hpp — point-to-point messages of one VCI over active messages.  Protocols: eager and rendezvous;
// a synchronous send is a rendezvous.  In a rendezvous the receiver fetches the data by a get if the transport needs no
// help of the sender for it; otherwise the sender pushes them, and the offer carries the first part.  Without
// unexpected-message credit a sender uses rendezvous, which limits the memory that a target needs for unexpected
// messages (peer.hpp).
// The Engine has the open channels, the transfers in flight, and the operations that wait for the transport.
// Owns the pools of requests; borrows the Context, the Connector, channels and peers.
// Threads: any; takes the Context's lock, except where a function requires that the caller holds it.  wait() and
// wait_until() release it while they sleep: the caller must not hold it.
#pragma once
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "mpi_shim/base/names.hpp"
#include "mpi_shim/base/object_pool.hpp"
#include "mpi_shim/p2p/burst.hpp"
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

/// Connects the Engine to processes of the job; implemented by Vci.  Called under the Context's lock.
class Connector {
 public:
  virtual Result<am::Endpoint*> connect(int process) = 0;
  /// The process has failed.  The Engine has ended what was in flight with it.
  virtual void on_peer_failed(int process, const Error& why) noexcept = 0;

 protected:
  ~Connector() = default;
};

/// Is notified of long blocking waits; it finds out itself whether anything moves.
class IdleObserver {
 public:
  explicit IdleObserver(std::chrono::milliseconds every) noexcept : period(every) {}
  const std::chrono::milliseconds period;
  /// A thread has slept in one wait for about another period; with stalled operations, calls may be more frequent.
  /// `wait`: a number that differs for each wait.  `what`: the description of what it waits for; null: a message.
  /// Called by the waiting thread without any lock held.
  virtual void on_idle(std::uint64_t wait, const char* what) noexcept = 0;

 protected:
  ~IdleObserver() = default;
};

/// Blocks the threads that make progress; implemented by Checkpoint.
class Halt {
 public:
  /// Called by Engine::progress() without any lock held; the thread continues when it returns.
  virtual void wait() noexcept = 0;

 protected:
  ~Halt() = default;
};

/// Learns when this process polls or sleeps inside a blocking call; implemented by rma::Windows.
class PollingObserver {
 public:
  virtual void on_polling() noexcept = 0;
  /// May call Engine::progress().
  virtual void on_polling_end() noexcept = 0;
  /// A sleep, after which it polls again if a peer has called Engine::wake().
  virtual void on_sleep() noexcept = 0;
  virtual void on_sleep_end() noexcept = 0;

 protected:
  ~PollingObserver() = default;
};

class Engine {
 public:
  /// Installs the handlers of the tags of wire.hpp.  `core_is_shared`: other ranks run on this core.
  /// Errors: limit_reached (another Engine of `context` has the tags).
  static Result<std::unique_ptr<Engine>> open(am::Context& context, Connector& connector, const Config& config,
                                              bool core_is_shared);
  ~Engine();

  [[nodiscard]] am::Context& context() noexcept { return context_; }
  [[nodiscard]] am::Lock& lock() noexcept { return lock_; }

  // --- Channels

  /// From now on messages for the channel are matched, first those that arrived before it was opened.  The channel must
  /// not move until close_channel(), which drops its unexpected messages.
  void open_channel(Channel& channel);
  void close_channel(Channel& channel) noexcept;

  // --- Messages

  /// MPI_Send and MPI_Ssend: blocks.  Returns an error class.
  int send(Channel& channel, const Buffer& buffer, int destination, int tag, Mode mode) {
    if (mode == Mode::standard && send_at_once(channel, buffer, destination, tag)) [[likely]]
      return MPI_SUCCESS;
    return send_slowly(channel, buffer, destination, tag, mode);
  }

  /// MPI_Recv: blocks.
  Outcome receive(Channel& channel, const Buffer& buffer, int source, int tag);

  /// Sends a small contiguous message within the call, without a request.
  /// False: nothing was sent, and the caller uses a Send.  It is too large, earlier messages or the transport hold it
  /// back, or credit is missing.  `may_wait`: the message may be part of a Burst.
  bool send_at_once(Channel& channel, const Buffer& buffer, int destination, int tag, bool may_wait = false) noexcept {
    const am::Lock::Guard guard{lock_};
    Peer& peer = *channel.peers[static_cast<std::size_t>(destination)];
    const std::uint64_t sent = peer.sent + Peer::cost(buffer.bytes());
    if (buffer.bytes() >= peer.eager_below || buffer.contiguous() == nullptr || sent > peer.may_send) return false;
    if (peer.pays_per_call) [[unlikely]]
      burst_.before_send(*peer.endpoint, may_wait);
    const wire::MatchHeader header = wire::match_header(channel.context, channel.rank, tag);
    const std::uint64_t before = std::exchange(peer.sent, sent);  // first: this process may receive it at once
    if (peer.endpoint->send_inline(wire::kEager, bytes_of(header), {buffer.contiguous(), buffer.bytes()}) == Post::done)
        [[likely]]
      return true;
    peer.sent = before;
    return false;
  }

  /// A request that is not started yet.  The caller starts it and calls put_back() after its end.
  Send& new_send(Channel& channel, const Buffer& buffer, int destination, int tag, Mode mode);
  Receive& new_receive(Channel& channel, const Buffer& buffer, int source, int tag);

  /// Describes the message that a receive would match now; the message stays queued.  False: there is none.
  bool probe(Channel& channel, int source, int tag, Outcome& outcome) noexcept;
  /// As probe(), and removes the message from matching; Receive::start_matched() receives it.  Null: there is none.
  std::unique_ptr<Unexpected> take(Channel& channel, int source, int tag, Outcome& outcome) noexcept;

  /// Whether a send or receive on the channel is started and not done.
  [[nodiscard]] bool has_pending(const Channel& channel) const noexcept;

  /// Whether every process that can send a message from `source` (a rank or MPI_ANY_SOURCE) has failed.  Requires
  /// lock().
  [[nodiscard]] bool no_sender_left(const Channel& channel, int source) const noexcept {
    return failures() != 0 && all_failed(channel, source);
  }

  // --- For other protocols over the same peers.  Requires: the caller holds lock().

  /// Connects to the peer if it has no endpoint yet.  Returns an error class.
  int reach(Peer& peer) noexcept;
  /// Whether `from` is the endpoint of `peer`.  If neither is assigned yet (the peer has connected first), assigns them
  /// to each other.
  bool recognise(Peer& peer, am::Endpoint& from) noexcept;
  /// Sends a message of at most max_send bytes; while the transport is full, it is queued in the endpoint, also beyond
  /// am_pending_limit.  Only messages to failed peers are dropped.
  void send_control(am::Endpoint& to, Tag tag, ByteSpan header, ByteSpan payload) noexcept;
  /// Requires: Message has no padding.
  template <class Message>
  void send_control(am::Endpoint& to, Tag tag, const Message& message) noexcept {
    send_control(to, tag, bytes_of(message), {});
  }
  /// Wakes a peer that may sleep, so that it evaluates its condition again and polls for a while.  Requires:
  /// reach(peer); lock() is not required.
  void wake(Peer& peer) noexcept {
    const am::Lock::Guard guard{lock_};
    if (!peer.failed) send_control(*peer.endpoint, wire::kWake, {}, {});
  }
  /// The number of peers that have failed so far.  A wait without messages checks its peers again when it changes.
  [[nodiscard]] std::uint32_t failures() const noexcept { return failures_.load(std::memory_order_acquire); }
  /// Calls stalled.resume() in each round of progress until it returns true.  No effect if it is in the list already.
  void wait_for_transport(Stalled& stalled) {
    if (std::exchange(stalled.waits, true)) return;
    stalled_.push_back(&stalled);
    stalling_.store(true, std::memory_order_relaxed);
  }
  /// Removes `stalled` from the list.  Not from inside resume().
  void stop_waiting_for_transport(Stalled& stalled) noexcept {
    std::erase(stalled_, &stalled);
    stalled.waits = false;
    update_stalling();
  }

  // --- Progress

  /// One round: progress of the Context, then of the stalled operations.  Returns the number of events.
  std::size_t progress() noexcept;
  /// progress() for a thread with a waiting loop of its own; it also polls the other VCIs from time to time.
  std::size_t poll_all() noexcept { return vcis_ == nullptr ? progress() : poll_all_vcis(); }
  /// One round for MPI_Test* and the like, which a program may call in a loop.  If nothing happened and the core is
  /// shared, it yields the core, since the program may wait for the process that needs it.
  void progress_or_yield() noexcept;
  /// Progresses until `condition()` is true; sleeps when there is nothing to do.  The condition becomes true by this
  /// Engine's progress, or its change is followed by Context::wake_sleepers().
  /// `what`: the description in reports of deadlocks; null: it waits for messages.
  template <class Condition>
  void wait_until(Condition condition, const char* what = nullptr) noexcept {
    if (vcis_ != nullptr) [[unlikely]] {
      return wait_on_vcis([](void* object) noexcept -> bool { return !(*static_cast<Condition*>(object))(); },
                          &condition, what);
    }
    std::uint64_t wait = 0;
    while (!condition()) {
      if (polling_observer_ != nullptr && poll_until(condition)) continue;
      if (progress() != 0) continue;
      // No event reports the end of back-pressure: with stalled operations, poll every millisecond.
      const bool nothing_stalled = !stalling_.load(std::memory_order_relaxed);
      const auto timeout = idle_observer_ == nullptr ? std::chrono::milliseconds{-1} : idle_observer_->period;
      const std::uint32_t wakes = wakes_.load(std::memory_order_relaxed);
      if (polling_observer_ != nullptr) polling_observer_->on_sleep();
      const bool over = context_.wait_until(
          [&] {
            return condition() || wakes_.load(std::memory_order_relaxed) != wakes ||
                   (nothing_stalled && stalling_.load(std::memory_order_relaxed));
          },
          nothing_stalled ? timeout : std::chrono::milliseconds{1});
      if (polling_observer_ != nullptr) polling_observer_->on_sleep_end();
      if (over || idle_observer_ == nullptr) [[likely]]
        continue;
      if (wait == 0) wait = idle_waits_.fetch_add(1, std::memory_order_relaxed) + 1;
      idle_observer_->on_idle(wait, what);
    }
  }
  /// A part of a blocking call in which this thread polls without a pause.
  class Polling {
   public:
    explicit Polling(Engine& engine) noexcept : observer_(engine.polling_observer_) {
      if (observer_ != nullptr) observer_->on_polling();
    }
    ~Polling() {
      if (observer_ != nullptr) observer_->on_polling_end();
    }
    Polling(const Polling&) = delete;
    Polling& operator=(const Polling&) = delete;

   private:
    PollingObserver* const observer_;
  };
  /// Whether a PollingObserver may be set: only one thread uses this Engine, and it has its core for itself.
  [[nodiscard]] bool polls_alone() const noexcept { return !lock_.real() && !core_is_shared_ && vcis_ == nullptr; }
  /// Null: none.  Requires: polls_alone(), and no Polling exists.
  void set_polling_observer(PollingObserver* observer) noexcept { polling_observer_ = observer; }
  /// Waits for one request.  If it is a receive, polls its sender first.  `awaited`: the number of requests that the
  /// caller waits for, of which this is one.
  void wait(const Request& request, std::size_t awaited = 1) noexcept {
    if (!request.done()) poll_for(request, awaited);
  }

  // --- Checkpoints (process/checkpoint.hpp)

  /// From now on threads call by->wait() in progress(); null ends it.  From any thread, without lock().
  void halt(Halt* by) noexcept;
  [[nodiscard]] bool is_halted() const noexcept { return halt_.load(std::memory_order_acquire) != nullptr; }
  /// Whether a Fetch is in flight.  Requires lock().
  [[nodiscard]] bool is_fetching() const noexcept { return fetching_ != 0; }

  // --- One of several VCIs (vcis.hpp)

  /// The number of this VCI.
  [[nodiscard]] unsigned vci() const noexcept { return vci_; }
  /// One round for a thread of another VCI, which holds no lock.  Does nothing if another thread holds this VCI's lock.
  std::size_t glance() noexcept;
  /// Whether operations are stalled, losses are to be handled, or a Halt is set: poll again soon, do not sleep long.
  [[nodiscard]] bool stalling() const noexcept { return stalling_.load(std::memory_order_relaxed); }
  /// Another VCI or the launcher has reported that the process failed.  If this VCI has no connection to it, which
  /// would report the failure itself, a later idle round calls peer_failed().  From any thread, without lock().
  void lost_elsewhere(Peer& peer) noexcept;

  /// Null: none.  Requires: no other thread uses the Engine yet.
  void set_idle_observer(IdleObserver* watch) noexcept { idle_observer_ = watch; }

  /// The operations that wait for their peer, for the deadlock detector.
  struct Waiting {
    struct Operation {
      bool sends;        ///< a send that waits for its answer; false: a posted receive
      const Peer* peer;  ///< null: any source
      int tag;           ///< MPI_ANY_TAG: any
      const Channel* channel;
      std::uint64_t id;  ///< distinguishes the operations of one kind
    };
    std::vector<Operation> operations;
    bool moving;          ///< operations are stalled, or data of a rendezvous are in flight to this process
    std::uint64_t state;  ///< changes with every eager message and every rendezvous that is received
  };
  /// Requires lock().
  [[nodiscard]] Waiting waiting();

  /// Marks a process as failed and ends everything in flight with it.  Requires lock().
  void peer_failed(Peer& peer, const Error& why) noexcept;

 private:
  friend class Vcis;
  friend class Send;
  friend class Receive;
  friend class Fetch;

  static constexpr std::size_t kMostSpare = 64;
  static constexpr int kIdlePolls = 1000;  // some 50 us, as am_spin

  Engine(am::Context& context, Connector& connector, const Config& config, bool core_is_shared);
  Result<void> install();
  int send_slowly(Channel& channel, const Buffer& buffer, int destination, int tag, Mode mode);

  /// Polls until `condition()` is true, or kIdlePolls in a row had no event.  Returns the condition.
  template <class Condition>
  bool poll_until(Condition& condition) noexcept {
    const Polling polling{*this};
    for (int idle = 0; idle < kIdlePolls && !stalling(); ++idle) {
      if (condition()) return true;
      if (progress() != 0) idle = 0;
    }
    return condition();
  }
  void poll_for(const Request& request, std::size_t awaited) noexcept;
  void wait_long(const Request& request) noexcept;
  /// Assigns the endpoint to the peer, and sets the peer's eager limits and credit.
  void set_endpoint(Peer& peer, am::Endpoint& endpoint) noexcept;
  std::size_t resume_stalled() noexcept;
  void update_stalling() noexcept;
  /// Handles the peers of lost_elsewhere().
  void take_losses() noexcept;
  /// Yields the core if it is shared, after a round without events; see progress_or_yield().
  void yield_core() noexcept;
  std::size_t poll_all_vcis() noexcept;
  void wait_on_vcis(bool (*missing)(void*) noexcept, void* object, const char* what) noexcept;
  /// Takes the ownership of a message that was removed from its matcher, and returns its credit.  Null stays null.
  std::unique_ptr<Unexpected> adopt(match::Unexpected* message) noexcept;
  /// A copy of an unexpected message, owned by the matcher that it is added to until adopt().  keep() stores received
  /// ones for reuse, so that most copies allocate nothing.
  Unexpected& new_unexpected(const Incoming& message);
  void keep(std::unique_ptr<Unexpected> received) noexcept;
  /// `bytes` of data of a first message of `peer` no longer occupy memory here: counts their credit, and announces it
  /// to the sender each announce_after_ bytes.
  void note_received(Peer& peer, std::uint64_t bytes) noexcept {
    peer.received += Peer::cost(bytes);
    if (peer.received - peer.announced >= announce_after_) [[unlikely]]
      announce(peer);
  }
  void note_received(Peer& peer, const Incoming& message) noexcept {
    if (message.took_credit()) note_received(peer, message.payload.size());
  }
  void announce(Peer& peer) noexcept;
  [[nodiscard]] static bool all_failed(const Channel& channel, int source) noexcept;
  /// Ends the posted receives of the channel that the failed process can no longer satisfy.
  void fail_receives(Channel& channel, const Peer& peer) noexcept;
  /// Whether `from` is the endpoint of the process with the rank `source`, which a message claims as its source.
  bool belongs(Channel& channel, int source, am::Endpoint& from) noexcept;
  /// The open channel with this context number; null: none is open.
  [[nodiscard]] Channel* open_channel_of(std::uint32_t context) const noexcept {
    return context < channels_.size() ? channels_[context] : nullptr;
  }

  template <class Message>
  Send* find_send(const btl::Delivery& delivery, Message& message, bool (Send::*awaits)() const noexcept) noexcept;
  void on_eager(btl::Delivery& delivery) noexcept;
  void on_first_message(btl::Delivery& delivery) noexcept;
  void on_cancel(btl::Delivery& delivery) noexcept;
  void on_cancelled(btl::Delivery& delivery) noexcept;
  void on_clear_to_send(btl::Delivery& delivery) noexcept;
  Receive* find_receive(const wire::DataHeader& header, const btl::Endpoint& from) noexcept;
  [[nodiscard]] btl::Place place_data(btl::Endpoint& from, ByteSpan head, std::size_t size) noexcept;
  void on_data(btl::Delivery& delivery) noexcept;
  void on_finished(btl::Delivery& delivery) noexcept;
  void on_wake(btl::Delivery& /*delivery*/) noexcept { wakes_.fetch_add(1, std::memory_order_relaxed); }
  void on_credit(btl::Delivery& delivery) noexcept;
  /// Logs that an invalid message is dropped.
  void refuse(const btl::Delivery& delivery, const char* why) noexcept;

  am::Context& context_;
  Connector& connector_;
  am::Lock& lock_;
  const Config config_;
  const bool core_is_shared_;
  opal::YieldPolicy yield_policy_;
  Burst burst_;
  const std::uint64_t announce_after_;  // bytes of credit after which the sender is informed: a quarter of its credit
  ObjectPool<Send, Engine> sends_;
  ObjectPool<Receive, Engine> receives_;
  ObjectPool<Fetch, Engine> fetches_;
  TransferTable<Send> sending_;                     // sends that wait for an answer
  TransferTable<Receive> receiving_;                // receives whose data the sender pushes
  std::vector<Channel*> channels_;                  // by context number; null: not open
  std::vector<std::unique_ptr<Unexpected>> early_;  // messages for channels that are not open yet
  std::vector<std::unique_ptr<Unexpected>> spare_;  // unused objects for new_unexpected(); at most kMostSpare
  std::vector<Stalled*> stalled_;                   // in the order of posting
  std::atomic<bool> stalling_{false};               // stalled_ or lost_ is not empty, or halt_ is set; see stalling()
  std::mutex losses_mutex_;                         // guards lost_, and every change of stalling_ to false
  std::vector<Peer*> lost_;                         // reported by lost_elsewhere() and not handled yet
  std::atomic<std::uint32_t> failures_{0};
  Vcis* vcis_ = nullptr;  // null: this is the only VCI of the process
  unsigned vci_ = 0;
  IdleObserver* idle_observer_ = nullptr;
  PollingObserver* polling_observer_ = nullptr;
  std::atomic<std::uint32_t> wakes_{0};       // wake messages of peers, modulo 2^32
  std::atomic<std::uint64_t> idle_waits_{0};  // the latest number of a wait for the idle observer
  std::uint64_t fetching_ = 0;                // Fetches in flight
  std::uint64_t rendezvous_ = 0;              // rendezvous that this process has begun to receive, ever
  std::uint64_t pass_ = 0;                    // calls of resume_stalled()
  std::atomic<Halt*> halt_{nullptr};
};

}  // namespace mpi_shim::p2p
