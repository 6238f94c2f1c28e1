// SPDX-License-Identifier: Apache-2.0
// opal/am/state.hpp — the inside of a Context, shared by the files that implement it.  Private to opal/am.
// Order of members = order of life: modules go before what they refer to, endpoints before modules.
#pragma once
#include <atomic>
#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "opal/am/bootstrap/address.hpp"
#include "opal/am/bootstrap/bootstrap.hpp"
#include "opal/am/bootstrap/secret_choice.hpp"
#include "opal/am/bootstrap/waiter.hpp"
#include "opal/am/config.hpp"
#include "opal/am/context.hpp"
#include "opal/am/large_sends.hpp"
#include "opal/am/messages/large_receives.hpp"
#include "opal/am/transports/no_transport.hpp"
#include "opal/am/transports/registration_cache.hpp"
#include "opal/am/transports/staged_transfers.hpp"
#include "opal/am/transports/transports.hpp"
#include "opal/core/sync/yield_policy.hpp"
#include "opal/core/system/fork_listener.hpp"

namespace opal::am {

/// Messages that send_or_queue could not hand to the transport yet, oldest first.
struct Endpoint::Pending {
  struct Message {
    Tag tag;
    std::vector<std::byte> bytes;
  };
  std::deque<Message> messages;
  std::size_t bytes = 0;  // of all messages
  bool held = false;      // by a checkpoint: only
  std::size_t ahead = 0;  // so many of them still go out, the rest waits for resume()
  [[nodiscard]] bool may_send() const noexcept { return !messages.empty() && (!held || ahead > 0); }
};

/// A one-sided operation that its transport could not take yet.
struct QueuedOperation {
  enum class Kind : std::uint8_t { put, get, atomic, flush };
  Kind kind;
  const void* source = nullptr;  ///< put
  void* destination = nullptr;   ///< get
  std::uint64_t remote_address = 0;
  std::uint64_t size = 0;
  MemoryHandle handle{};    ///< the caller's is only borrowed for the call
  AtomicRequest request{};  ///< atomic, without its handle
  Completion* completion = nullptr;
  std::uint64_t order = 0;  ///< of posting, within the Context
};
struct OperationQueue : std::deque<QueuedOperation> {};  // oldest first

/// An endpoint of connect_async() that has no transport yet.
struct Connecting {
  Endpoint* endpoint;
  std::vector<std::byte> address;
};

/// A flush of all endpoints, behind the queued operation `upto` and all before it.
struct WaitingFlush {
  std::uint64_t upto;
  Completion* completion;
};

/// A checkpoint in progress.
struct Quiesce {
  bool active = false;
  std::uint64_t round = 0;
  bool quiet = false;    // it was
  bool emptied = false;  // checkpoint() went well
};

/// What a forked child is told.
inline constexpr Error kInherited{Errc::not_supported, 0,
                                  "this Context is of the process that forked: a child opens one of its own"};

/// Forks (docs/design/forks.md): the child's copy of a Context is its parent's.  It ends nothing, and does nothing but
/// refuse, unless it restart()s.
struct Context::State final : btl::Observer, ForkListener {
  State(const Config& config, const Options& options, btl::RegistrationTable table)
      : config(config),
        options(options),
        lock(options.threads),
        registrations(std::move(table)),
        sends(config.pending_limit.bytes),
        receives(handlers, config.large_limit.bytes, retry) {}

  using ForkListener::follow_forks;
  using ForkListener::unfollow_forks;
  void on_accepted(btl::Endpoint& route) noexcept override;
  void on_failed(btl::Endpoint& route, const Error& why) noexcept override;

  /// Adds an endpoint whose route is known.
  Endpoint& add(const PeerId& peer, btl::Endpoint& route, std::string explanation);
  /// The endpoint of a peer whose life is over is not the peer's any more, if it comes back.
  void set_apart_if_dead(const PeerId& peer);
  // Not from inside a handler, completion or observer:
  /// Disconnects what callbacks have asked for.
  void disconnect_leaving() noexcept;
  /// Connects what connect_async() was called for.
  void connect_waiting() noexcept;
  void disconnect(Endpoint& endpoint) noexcept;
  /// The endpoint of a peer; null: none.  Errors: busy, peer_gone (it has ended, and is there yet).
  Result<Endpoint*> find(const PeerId& peer) noexcept;
  /// Gives transports back what dead peers still cost.
  void release_dead_routes() noexcept;
  template <class Function>
  void for_each_endpoint(Function function) {
    for (const auto& [peer, endpoint] : endpoints) {
      if (endpoint != nullptr) function(*endpoint);
    }
    for (const auto& [key, endpoint] : former) {
      if (endpoint != nullptr) function(*endpoint);
    }
  }
  [[nodiscard]] RegistrationCache& registrations_of(const btl::Module& module) noexcept;
  /// Sends what waits; returns how many messages went out.
  std::size_t send_pending() noexcept;
  /// The same for one endpoint, adding to `sent`; false when the transport is busy before the end.
  static bool send_pending(Endpoint& endpoint, std::size_t& sent) noexcept;
  /// Errors: that of the choice when no other process can have the secret.
  [[nodiscard]] Result<void> require_shared_secret() const;
  std::size_t connect_pending() noexcept;  // of the bootstrap
  /// One round of everything that makes progress; under the lock.
  std::size_t advance(std::size_t budget) noexcept;
  /// Posts again, and sends, what the transports could not take.
  std::size_t retry_waiting() noexcept;
  /// The queued one-sided operations, and the flushes behind them; in operation_queue.cpp.
  std::size_t post_operations() noexcept;
  /// Completes when the operations that the transports have accepted are finished; in flush.cpp.
  Post flush_transports(Completion& completion) noexcept;
  [[nodiscard]] std::vector<std::byte> encode_address() const;

  void listen_only_at(const sockaddr_storage& where);
  /// Opens what is configured, with caches; fills `address`.
  Result<void> open_transports(const config::Store& store);
  /// The best transport to a peer of that address; each candidate goes into `explanation`.  Null: none reaches it.
  btl::Endpoint* find_route(const Address& peer, std::string& explanation);

  // fork.cpp
  void before_fork() noexcept override {}
  void after_fork_in_parent() noexcept override {}
  void after_fork_in_child() noexcept override;
  void take_over() noexcept;  // in a child: it is to restart
  void keep() noexcept;       // in a child: *this stays until the process ends

  // checkpoint.cpp
  void hold(Endpoint& endpoint);
  /// It has no transport since restart(), or since its peer went in a checkpoint.
  [[nodiscard]] bool lost(const Endpoint& endpoint) const noexcept;
  [[nodiscard]] std::unique_ptr<NoTransport> make_no_transport();
  void set_aside(Endpoint& endpoint, const Error& why);
  void reroute(Endpoint& endpoint, btl::Endpoint& route) noexcept;
  void retire_registration_caches();
  Result<void> enter_regions();  // with the devices; in region.cpp
  void leave_regions() noexcept;

  Context* context = nullptr;
  bool inherited = false;                              // this process is a forked child of the one that opened it
  static inline constinit State* last_kept = nullptr;  // found from here, so they are no leaks
  State* next_kept = nullptr;
  btl::Endpoint* nowhere = nullptr;  // for a forked child; of parents_transport
  std::unique_ptr<NoTransport> parents_transport;
  const Config config;
  const Options options;
  Lock lock;
  std::atomic<bool> progressing{false};  // at level `multiple`: a thread is in progress()
  PeerId id = PeerId::random();
  SecretChoice secret;
  btl::HandlerTable handlers;
  btl::RegistrationTable registrations;
  bool retry = false;  // something waits for retry_waiting()
  LargeSends sends;
  LargeReceives receives;
  std::unique_ptr<Waiter> waiter;
  YieldPolicy yield_policy;  // given to others of our core while waiting

  std::unique_ptr<StagedTransfers> staged;  // null: there is no GPU memory
  Transports transports;
  std::vector<std::unique_ptr<RegistrationCache>> registration_caches;          // one per module
  std::vector<std::unique_ptr<RegistrationCache>> retired_registration_caches;  // of modules before restart()
  std::vector<std::byte> address;
  std::atomic<bool> address_given{false};                                 // then it stays
  std::unique_ptr<NoTransport> no_transport;                              // null until a peer is lost
  std::unordered_map<PeerId, std::unique_ptr<Endpoint>> endpoints;        // the latest of each peer
  std::unordered_map<const Endpoint*, std::unique_ptr<Endpoint>> former;  // dead ones of peers that came back
  std::vector<btl::Endpoint*> dead_routes;                                // not released yet
  std::vector<Region::State*> regions;                                    // all that live
  std::vector<Connecting> connecting;                                     // oldest first
  std::vector<Endpoint*> leaving;                                         // to be disconnected
  std::vector<Endpoint*> pending;                                         // endpoints that have a Pending
  std::vector<Endpoint*> queueing;                                        // endpoints that have an OperationQueue
  std::uint64_t queued_operations = 0;                                    // ever
  std::deque<WaitingFlush> flushes;                                       // of the Context, oldest first
  std::unique_ptr<Bootstrap> bootstrap;
  Quiesce quiesce;
  std::uint32_t busy_rounds = 0;    // in which something came
  std::uint32_t rounds_at_one = 0;  // of progress_from()
  bool armed = false;               // since then nothing has come
  bool advancing = false;           // some handlers or completions are running, under the lock
  bool tidy = false;                // there are dead routes, or endpoints to disconnect or connect
};

}  // namespace opal::am
