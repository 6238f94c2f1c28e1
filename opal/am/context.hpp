// SPDX-License-Identifier: Apache-2.0
// opal/am/context.hpp — active messages and one-sided access: opens the transports, chooses the best one to each peer,
// runs handlers, waits.
// Ownership: a Context owns its modules and endpoints.  A peer that connects again gets a new Endpoint.  After a peer's
// death the Endpoint object remains until disconnect().
// Handlers run inside progress() and wait(), one at a time.  They may post and call disconnect(); they must not block
// or call progress().
// Threads: Options::threads.  One lock guards progress.  Threads that must not wait for each other open one Context
// each: sending and receiving write nothing that two Contexts share (docs/design/vcis.md).
#pragma once
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "opal/am/endpoint.hpp"
#include "opal/am/lock.hpp"
#include "opal/am/messages/buffer_source.hpp"
#include "opal/am/region.hpp"
#include "opal/btl/registry.hpp"
#include "opal/core/clock.hpp"
#include "opal/core/config/store.hpp"
#include "opal/core/export.hpp"
#include "opal/core/system/secret.hpp"
#include "opal/rcache/statistics.hpp"

namespace opal::am {

/// Receives connection events, from inside progress().  Defaults do nothing.
class Observer {
 public:
  virtual ~Observer() = default;
  /// A peer connected to this Context, or a connect_async() has found its transport, or a peer reconnected after
  /// restart().  In the last two cases the Endpoint existed before.
  virtual void on_peer_connected(Endpoint& /*peer*/) noexcept {}
  /// The peer failed; every operation pending on the endpoint has completed with an error.  The endpoint stays dead,
  /// and valid until disconnect(), which may be called from here.
  virtual void on_peer_failed(Endpoint& /*peer*/, const Error& /*why*/) noexcept {}
};

struct Options {
  ThreadLevel threads = ThreadLevel::single;
  Observer* observer = nullptr;             ///< must outlive the Context
  const btl::Registry* registry = nullptr;  ///< null: those of find_components()
  std::optional<Secret> secret = {};        ///< nullopt: see choose_secret() (am_secret_file, by default this user's)
};

/// A transport as this Context sees it, for opal-info and explain().
struct TransportState {
  std::string_view name;
  bool usable;
  std::string reason;  ///< why not usable; empty otherwise
};

class OPAL_EXPORT Context {
 public:
  /// Opens every usable transport that the variable am_transports allows.  Errors: unreachable (no transport is
  /// usable), os, those of Secret::read_file() for am_secret_file, those of the configuration variables.
  static Result<std::unique_ptr<Context>> open(const config::Store& store, const Options& options = {});
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  [[nodiscard]] const PeerId& id() const noexcept;
  /// True in a forked child of the process that opened the Context.  The Context then does nothing: posts and connect()
  /// fail with not_supported, progress() and wait() return 0, the destructor ends no connection.  Only restart() makes
  /// it usable.
  [[nodiscard]] bool inherited() const noexcept;
  /// The lock that is held while handlers run.  A layer above may guard its own state with this lock.
  [[nodiscard]] Lock& lock() noexcept;
  [[nodiscard]] std::vector<TransportState> transports() const;

  // --- Peers --------------------------------------------------------------------------------------------------------

  /// The bytes that another process passes to connect(); a few hundred.  The view is valid until restart().  listen()
  /// does not change the address after the first call of address().
  [[nodiscard]] ByteSpan address() const noexcept;
  /// Returns the endpoint to the Context that published `address`; the existing endpoint if there is one.
  /// Errors: protocol (garbled), version_mismatch, unreachable (the log has the text of Endpoint::explain()),
  /// peer_gone (the peer's dead endpoint still exists: call disconnect()), busy (its disconnect() is not complete).
  Result<Endpoint*> connect(ByteSpan address);
  /// As connect(), but returns at once: progress() chooses the transport.  Until Endpoint::connected() is true posts
  /// return `again`, and the functions that queue keep their messages and operations.
  /// Observer::on_peer_connected() or on_peer_failed() reports the result.  If the endpoint exists already, it is
  /// returned and nothing is reported.
  /// Cost: progress() holds the Context's lock during the choice.  The handshake of the shared-memory transport blocks
  /// for at most 5 seconds if a local peer does not answer.
  /// Errors: protocol (garbled), version_mismatch, peer_gone and busy as for connect().
  Result<Endpoint*> connect_async(ByteSpan address);
  /// Ends and destroys an endpoint, which must not be used afterwards; see btl::Module::disconnect().
  /// Inside a handler, a completion or an Observer it takes effect at the end of this or of the next progress(): until
  /// then handlers may still run for messages of the peer.
  void disconnect(Endpoint& endpoint) noexcept;

  /// Bootstrap without a launcher: progress() accepts connections whose peers prove that they know the secret, and
  /// exchanges addresses with them.  The secret is Options::secret, else the file am_secret_file, else
  /// ~/.config/opal/secret, which the first process creates; am_secret_file=none turns proofs off.
  /// `host_port` is "host:port"; port 0 lets the system choose; all addresses of the host's name are used.  Returns the
  /// actual "host:port" of the first.  Observer::on_peer_connected() reports each peer.  If listen() is called before
  /// address(), the tcp transport, too, listens only at the first of these addresses, unless btl_tcp_if_include or
  /// btl_tcp_if_exclude is set.
  /// Errors: invalid_argument (not "host:port"; called before; neither HOME nor XDG_CONFIG_HOME for the secret file),
  /// unreachable, permission, os.
  Result<std::string> listen(std::string_view host_port);
  /// Connects to a Context that called listen() with the same secret.  Blocks at most for `timeout` (negative: no
  /// limit) until it has the peer's address, then does as connect().  A failure is logged with `host_port`.
  /// Errors: invalid_argument, unreachable, timed_out, permission (the listener's proof is wrong),
  /// version_mismatch, protocol (also: the listener refused this side's secret or address), os.
  Result<Endpoint*> connect_to(std::string_view host_port, std::chrono::milliseconds timeout);

  // --- Messages -----------------------------------------------------------------------------------------------------

  /// Runs `handler` for each message of `tag`.  Errors: invalid_argument, limit_reached (the tag has a handler).
  Result<void> set_handler(Tag tag, const btl::Handler& handler);
  /// As above; messages larger than max_send arrive in buffers of `source` instead of memory of the library.
  Result<void> set_handler(Tag tag, const btl::Handler& handler, const BufferSource& source);
  void clear_handler(Tag tag) noexcept;

  // --- Memory -------------------------------------------------------------------------------------------------------

  /// Makes [base, +size) accessible to every peer that has the Region's key, as long as the Region exists.
  Result<Region> register_memory(void* base, std::uint64_t size, Rights rights);
  /// Whole-address-space registration: one key for all memory that this process has mapped or will map.  A peer with
  /// the key puts to and gets from any mapped address.  The patcher intercepts mmap, brk, mremap, munmap and mprotect
  /// and updates the table before they return; these may come from any thread.  An access that the protection of a
  /// mapping forbids is refused.  Cost and limits: docs/design/memory.md.
  /// Errors: not_supported (no patcher in this process: Context::open came after threads, or not x86-64),
  /// limit_reached (the Context has one), no_memory.
  Result<Region> register_address_space(Rights rights);
  /// Sums of Cache::statistics() over the registration caches of all open transports.
  [[nodiscard]] rcache::Statistics registration_statistics() const noexcept;
  /// Statistics of the cached mappings of peers' GPU memory (docs/design/rcache.md, "Remote GPU memory").
  [[nodiscard]] rcache::Statistics remote_memory_statistics() const noexcept;
  /// Completes when every put and atomic posted before, on any endpoint, is visible at its target.
  Post flush(Completion& completion) noexcept;

  // --- Checkpoints (docs/design/checkpoint.md) ----------------------------------------------------------------------

  /// Begins a checkpoint.  Messages posted between quiesce() and resume() are not sent before resume(): send_or_queue()
  /// queues them, every other post of a message returns `again`.  Messages posted before quiesce() are still sent.
  /// Requires: all connected Contexts call it with the same `round`, which is higher than in earlier checkpoints.
  /// Requires: the completions of one-sided operations and large messages have run, since these are not held.
  void quiesce(std::uint64_t round);
  /// True when this Context is quiescent.  The caller calls progress() and quiet() until quiet() was true at every
  /// Context.  Then no message is in flight, every message posted before quiesce() was handled, and all puts and
  /// atomics are visible.
  [[nodiscard]] bool quiet() noexcept;
  /// Empties the registration caches, which return `busy` until resume(), and unmaps GPU memory of peers.  Only Regions
  /// stay registered.  Errors: busy (not quiet, or cached registrations are in use; detail is their number).
  Result<void> checkpoint() noexcept;
  /// Opens the transports again after the process was restored from an image.
  /// Requires: called between checkpoint() and resume().  Other threads may use the Context meanwhile.
  /// address() and keys change; the caller's event loop adds fd() again; fragments become invalid and listen() ends.
  /// Handlers, endpoints and queued messages stay.  Posts return `again` until the peer connects by its new address.
  /// Errors: busy (no successful checkpoint(), or inside a handler); those of open(), after which no peer is reachable.
  Result<void> restart(const config::Store& store);
  /// Ends the checkpoint, at any stage.  progress() then sends the queued messages, in order.
  void resume() noexcept;

  // --- Batches ------------------------------------------------------------------------------------------------------

  /// Until the matching end_batch() the transports may hold back what is posted, to give several requests to the
  /// network with one call: for many short messages in a row, without a progress() between them.  Order and
  /// back-pressure stay.  end_batch(), progress() and wait() send what is held back.  Calls nest.  Between the two
  /// calls the caller only posts: the peer waits for what is held back.  Cost: one virtual call per transport.  tcp
  /// holds back messages, verbs also puts, gets and atomics.
  void begin_batch() noexcept;
  void end_batch() noexcept;

  // --- Progress and waiting -----------------------------------------------------------------------------------------

  /// Runs at most about `budget` handlers.  Returns the number of events; 0: idle.
  /// At level `multiple` it returns 0 at once while another thread is in progress().
  std::size_t progress(std::size_t budget = 64) noexcept;
  /// Polls the peer `from` first, so that its messages are found sooner.  Does as progress() if nothing arrived, in
  /// every eighth call, and in every call at level `multiple`.
  std::size_t progress_from(Endpoint& from, std::size_t budget) noexcept;
  /// As progress(), but polls also while another thread is in progress(), which then waits for the lock.
  /// Requires: the caller holds lock() and is not inside a handler or completion.
  std::size_t progress_locked(std::size_t budget = 64) noexcept;
  /// Calls progress(); when idle spins for am_spin, then sleeps until an event or `timeout` (negative: no limit).
  /// Returns the number of events; 0: timed out, or (level `multiple`) the sleep ended without an event for this
  /// thread.  At that level another thread's progress() may receive the awaited message between the caller's test and
  /// the sleep: use wait_until() there.
  std::size_t wait(std::chrono::milliseconds timeout) noexcept { return wait_while(nullptr, nullptr, timeout); }

  /// Waits as wait() does until `condition()` is true or `timeout` is over; returns the last value of the condition.
  /// The condition is evaluated under the Context's lock: it may read what handlers write, and no change is missed.
  template <class Condition>
  bool wait_until(Condition condition, std::chrono::milliseconds timeout) noexcept {
    const auto must_wait = [](void* object) noexcept { return !(*static_cast<Condition*>(object))(); };
    // Most answers come within microseconds: poll for them before reading a clock.
    if (!holds(must_wait, &condition)) return true;
    const bool alone = !lock().real();  // then only progress() changes the condition
    for (int poll = 0; poll < polls_before_clock_; ++poll) {
      if (progress() == 0 && alone) continue;
      if (!holds(must_wait, &condition)) return true;
    }
    const Deadline deadline = Deadline::after(timeout);
    while (holds(must_wait, &condition)) {
      if (deadline.expired() || inherited()) return false;
      wait_while(must_wait, &condition, std::chrono::milliseconds{deadline.poll_timeout_ms()});
    }
    return true;
  }

  /// Makes the threads that sleep in wait_until() evaluate their conditions again.  A thread that changes such a
  /// condition outside of progress() calls it after the change.
  void wake_sleepers() noexcept;

  /// One sleep on several Contexts, for a thread that waits for more than one (docs/design/vcis.md).
  /// Sleeps until an event may have occurred at one of the Contexts, at most for `timeout` (negative: for ever).
  /// Returns at once if `missing()` is false.  The caller then calls progress() and evaluates its condition again.
  /// `mine`: Contexts whose progress may make missing() false.  No event of these is missed, also if another thread
  /// calls their progress() meanwhile.  missing() is called without a lock.
  /// `others`: best effort.  Progress by another thread does not wake this one, and may leave the Context unwatched
  /// until the timeout.  A Context whose lock is held is not watched.
  /// Requires: all Contexts are at level `multiple`; each list has at most kMostInSleep.
  template <class Missing>
  static void sleep_on(std::span<Context* const> mine, std::span<Context* const> others, Missing missing,
                       std::chrono::milliseconds timeout) noexcept {
    const auto call = [](void* object) noexcept -> bool { return (*static_cast<Missing*>(object))(); };
    sleep_while(mine, others, call, &missing, timeout);
  }
  static constexpr std::size_t kMostInSleep = 16;

  /// One descriptor for all transports, for the caller's event loop.  Before each poll() for reading the caller calls
  /// arm(); if arm() returns false, events are pending and the caller calls progress() instead.
  [[nodiscard]] int fd() const noexcept;
  bool arm() noexcept;
  /// True if a queued message or operation may be sent as soon as the transport has room.  Not every transport's
  /// descriptor becomes readable then: the caller calls progress() after a millisecond.
  bool waits_for_room() noexcept;

 private:
  friend class Endpoint;
  friend class Region;
  friend class RegisteredPool;
  struct State;
  using Predicate = bool (*)(void* object) noexcept;
  /// As wait(), but does not sleep when `holds(object)` is false.  `holds` null: no test.
  std::size_t wait_while(Predicate holds, void* object, std::chrono::milliseconds timeout) noexcept;
  bool holds(Predicate predicate, void* object) noexcept;  ///< calls the predicate under the lock
  static void sleep_while(std::span<Context* const> mine, std::span<Context* const> others, Predicate missing,
                          void* object, std::chrono::milliseconds timeout) noexcept;
  explicit Context(std::unique_ptr<State> state) noexcept;
  /// Number of polls in wait_until() before it reads a clock or yields a shared core; about 30 ns each.
  const int polls_before_clock_;
  std::unique_ptr<State> state_;
};

}  // namespace opal::am
