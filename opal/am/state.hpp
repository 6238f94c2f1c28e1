// SPDX-License-Identifier: Apache-2.0
// opal/am/state.hpp — the implementation state of a Context, shared by its .cpp files.  Private to opal/am.
// The order of members matters for destruction: endpoints are destroyed before modules, modules before what they
// refer to.  Threads: under Context::State::lock, but for atomics.
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

/// Messages of send_or_queue() that the transport has not taken yet.
struct Endpoint::Pending {
  struct Message {
    Tag tag;
    std::vector<std::byte> bytes;
  };
  std::deque<Message> messages;  // oldest first
  std::size_t bytes = 0;         // of all messages
  bool held = false;      // a checkpoint is in progress: only the first `ahead` messages are sent before resume()
  std::size_t ahead = 0;  // messages that were queued before the checkpoint
  [[nodiscard]] bool may_send() const noexcept { return !messages.empty() && (!held || ahead > 0); }
};

/// A one-sided operation that its transport could not take yet.
struct QueuedOperation {
  enum class Kind : std::uint8_t { put, get, atomic, flush };
  Kind kind;
  std::byte* here = nullptr;  ///< put: the source, which is only read; get: the destination
  std::uint64_t remote_address = 0;
  std::uint64_t size = 0;
  MemoryHandle handle{};    ///< a copy: the caller's is valid during the post only
  AtomicRequest request{};  ///< atomic, without its handle
  Completion* completion = nullptr;
  std::uint64_t order = 0;  ///< sequence number of posting within the Context, from 1
};
struct OperationQueue : std::deque<QueuedOperation> {};  // oldest first

/// An endpoint of connect_async() that has no transport yet.
struct Connecting {
  Endpoint* endpoint;
  std::vector<std::byte> address;
};

/// A flush of all endpoints, which is posted when no queued operation up to order `upto` is left.
struct WaitingFlush {
  std::uint64_t upto;  ///< QueuedOperation::order
  Completion* completion;
};

/// A checkpoint in progress.
struct Quiesce {
  bool active = false;
  std::uint64_t round = 0;
  bool quiet = false;    // the last quiet() returned true
  bool emptied = false;  // checkpoint() succeeded
};

/// The error of every call in a forked child.
inline constexpr Error kInherited{Errc::not_supported, 0,
                                  "this Context is of the process that forked: a child opens one of its own"};

/// Forks (docs/design/forks.md): in a forked child the Context is inherited.  It refuses every call and does not touch
/// the parent's connections, until restart().
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
  /// Moves a dead endpoint of the peer from `endpoints` to `former`, so that the peer can get a new one.
  void move_to_former_if_dead(const PeerId& peer);
  // Require: the caller is not inside a handler, completion or observer.
  /// Disconnects the endpoints in `leaving`; returns their number.
  std::size_t disconnect_leaving() noexcept;
  /// Chooses the transports of the endpoints in `connecting`; returns their number.
  std::size_t connect_waiting() noexcept;
  void disconnect(Endpoint& endpoint) noexcept;
  /// The endpoint of a peer; null: none.  Errors: busy (its disconnect() is not complete), peer_gone (it is dead).
  Result<Endpoint*> find(const PeerId& peer) noexcept;
  /// Disconnects the routes in dead_routes that have no fragments; an endpoint that used one gets a dead route.
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
  /// Sends queued messages of all endpoints; returns the number of messages sent.
  std::size_t send_pending() noexcept;
  /// Sends those of one endpoint and adds their number to `sent`.  True: its queue is empty and not held, so that the
  /// caller drops it.
  static bool send_pending(Endpoint& endpoint, std::size_t& sent) noexcept;
  /// Errors: SecretChoice::unshared, if set: then no other process can have the secret.
  [[nodiscard]] Result<void> require_shared_secret() const;
  /// Connects to the processes whose addresses arrived at the bootstrap; returns their number.
  std::size_t connect_pending() noexcept;
  /// One round of progress, under the lock; returns the number of events.
  std::size_t advance(std::size_t budget) noexcept;
  /// Retries all queued messages, operations and large receives; returns the number of events.
  std::size_t retry_waiting() noexcept;
  /// Posts queued one-sided operations and waiting flushes; in operation_queue.cpp.
  std::size_t post_operations() noexcept;
  /// Completes when all operations that the transports have accepted are complete; in flush.cpp.
  Post flush_transports(Completion& completion) noexcept;
  [[nodiscard]] std::vector<std::byte> encode_address() const;

  /// Restricts the listening sockets of all modules to `where`; renews `address`.
  void listen_only_at(const sockaddr_storage& where);
  /// Opens the configured transports and their registration caches; fills `address`.
  Result<void> open_transports(const config::Store& store);
  /// Connects the best transport that reaches the peer; appends a line per candidate to `explanation`.  Null: none
  /// does.
  btl::Endpoint* find_route(const Address& peer, std::string& explanation);

  // fork.cpp
  void before_fork() noexcept override {}
  void after_fork_in_parent() noexcept override {}
  void after_fork_in_child() noexcept override;
  void take_over() noexcept;  // in a child: makes *this usable for restart()
  void keep() noexcept;       // in a child: keeps *this until the process ends

  // checkpoint.cpp
  /// Sends only the messages that are queued now before resume(); idempotent.
  void hold(Endpoint& endpoint);
  /// True if the endpoint's route is of `no_transport`: it is being connected, or lost its route by restart() or death.
  [[nodiscard]] bool lost(const Endpoint& endpoint) const noexcept;
  [[nodiscard]] std::unique_ptr<NoTransport> make_no_transport();
  /// For a peer that failed between checkpoint() and resume(): keeps the endpoint until the peer restarts or resume().
  void set_aside(Endpoint& endpoint, const Error& why);
  /// Makes `route` the route in use.
  void reroute(Endpoint& endpoint, btl::Endpoint& route) noexcept;
  void retire_registration_caches();
  Result<void> enter_regions();  // registers all Regions with the transports; in region.cpp
  void leave_regions() noexcept;

  Context* context = nullptr;
  bool inherited = false;                              // this process is a forked child of the one that opened it
  static inline constinit State* last_kept = nullptr;  // list of keep(), so that leak checkers find the States
  State* next_kept = nullptr;
  btl::Endpoint* nowhere = nullptr;  // dead route of all endpoints in a forked child; of parents_transport
  std::unique_ptr<NoTransport> parents_transport;
  const Config config;
  const Options options;
  btl::Registry registry;   // the transports of open_transports()
  std::size_t batches = 0;  // open ones; modules that restart() makes are in as many
  Lock lock;
  std::atomic<bool> progressing{false};  // at level `multiple`: a thread is in progress()
  PeerId id = PeerId::random();
  SecretChoice secret;
  btl::HandlerTable handlers;
  btl::RegistrationTable registrations;
  bool retry = false;  // progress has to call retry_waiting()
  LargeSends sends;
  LargeReceives receives;
  std::unique_ptr<Waiter> waiter;
  YieldPolicy yield_policy;  // of waits with am_ranks_per_core > 1

  std::unique_ptr<StagedTransfers> staged;  // null: gpu::active() was false at open()
  Transports transports;
  std::vector<std::unique_ptr<RegistrationCache>> registration_caches;          // one per module
  std::vector<std::unique_ptr<RegistrationCache>> retired_registration_caches;  // of modules before restart()
  std::vector<std::byte> address;
  std::atomic<bool> address_given{false};                                 // address() was called: listen() keeps it
  std::unique_ptr<NoTransport> no_transport;                              // null until an endpoint needs it
  std::unordered_map<PeerId, std::unique_ptr<Endpoint>> endpoints;        // the latest of each peer
  std::unordered_map<const Endpoint*, std::unique_ptr<Endpoint>> former;  // dead ones of peers that came back
  std::vector<btl::Endpoint*> dead_routes;                                // not released yet
  std::vector<Region::State*> regions;                                    // all registered Regions
  std::vector<Connecting> connecting;                                     // oldest first
  std::vector<Endpoint*> leaving;                                         // to be disconnected
  std::vector<Endpoint*> pending;                                         // endpoints that have a Pending
  std::vector<Endpoint*> queueing;                                        // endpoints that have an OperationQueue
  std::uint64_t queued_operations = 0;                                    // since open(): the last order
  std::deque<WaitingFlush> flushes;                                       // of the Context, oldest first
  std::unique_ptr<Bootstrap> bootstrap;
  Quiesce quiesce;
  std::uint32_t busy_rounds = 0;  // counts rounds in which a module had events; see advance()
  std::uint32_t progress_from_calls = 0;
  bool armed = false;      // arm() succeeded, and no event has arrived since
  bool advancing = false;  // inside progress or a callback, under the lock: disconnect() is deferred
  bool tidy = false;       // dead_routes, leaving or connecting is not empty
};

}  // namespace opal::am
