// SPDX-License-Identifier: Apache-2.0
// opal/am/context.hpp — active messages and one-sided access: opens the transports, chooses the best one to each peer,
// runs handlers, waits.
// Ownership: a Context owns its modules and endpoints.  Each connection of a peer has a new Endpoint.  After a peer's
// death only the Endpoint object remains, until disconnect().
// Handlers run inside progress() and wait(), one at a time.  They may post and disconnect(); they must not block or
// call progress(). Threads: Options::threads.  One lock guards progress.  Threads that must not wait for each other
// open a Context each: Contexts share nothing that sending or receiving writes (docs/design/vcis.md).
#pragma once
#include <chrono>
#include <memory>
#include <optional>
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
  /// A peer connected to this Context, or a connect_async() has its transport.  A peer that connects again has a new
  /// Endpoint.
  virtual void on_peer_connected(Endpoint& /*peer*/) noexcept {}
  /// The peer failed; every operation pending on the endpoint has completed with an error.  The endpoint stays dead,
  /// and valid until disconnect(), which may be called from here.
  virtual void on_peer_failed(Endpoint& /*peer*/, const Error& /*why*/) noexcept {}
};

struct Options {
  ThreadLevel threads = ThreadLevel::single;
  Observer* observer = nullptr;             ///< must outlive the Context
  const btl::Registry* registry = nullptr;  ///< null: the built-in transports
  std::optional<Secret> secret = {};        ///< none: that of am_secret_file, by default this user's
};

/// A transport as this Context sees it, for opal-info and explain().
struct TransportState {
  std::string_view name;
  bool usable;
  std::string reason;  ///< why not usable; empty otherwise
};

class OPAL_EXPORT Context {
 public:
  /// Opens every usable transport that the variable am_transports allows.  Errors: unreachable (none usable),
  /// those of Secret::read_file for am_secret_file, or the configuration's.
  static Result<std::unique_ptr<Context>> open(const config::Store& store, const Options& options = {});
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  [[nodiscard]] const PeerId& id() const noexcept;
  /// True in a forked child of the process that opened the Context.  The Context then does nothing: posts and connect()
  /// fail with not_supported, progress() and wait() return 0, the destructor ends no connection.  Only restart() makes
  /// it usable.
  [[nodiscard]] bool inherited() const noexcept;
  /// The lock that is held while handlers run.  A layer above may guard its own state with it and needs no second lock.
  [[nodiscard]] Lock& lock() noexcept;
  [[nodiscard]] std::vector<TransportState> transports() const;

  // --- Peers --------------------------------------------------------------------------------------------------------

  /// The bytes that connect() of any process needs; a few hundred.
  [[nodiscard]] ByteSpan address() const noexcept;
  /// Returns the endpoint to the Context that published `address`; an existing one if there is one.
  /// Errors: protocol (garbled), version_mismatch, unreachable (the log has the text of Endpoint::explain()).
  Result<Endpoint*> connect(ByteSpan address);
  /// As connect(), but returns at once: progress() chooses the transport.  Until then, see Endpoint::connected(), posts
  /// answer `again`, and those that queue wait.  Observer::on_peer_connected() or on_peer_failed() reports the end.  An
  /// endpoint that is there already is returned, without a report.
  /// The choice runs in progress(), under the Context's lock: the handshake of the shared-memory transport waits for a
  /// local peer that does not answer, at most 5 seconds.
  /// Errors: protocol (garbled), version_mismatch, peer_gone and busy (the former endpoint is there yet).
  Result<Endpoint*> connect_async(ByteSpan address);
  /// Ends an endpoint, which must not be used afterwards; see btl::Module::disconnect().
  /// Inside a handler, a completion or an Observer it takes effect when the outermost progress() ends, or the next one:
  /// until then messages of the peer may still be handled.
  void disconnect(Endpoint& endpoint) noexcept;

  /// Bootstrap without a launcher: accepts connections whose peers prove that they know the secret, and exchanges
  /// addresses with them.  The secret is Options::secret, else the file am_secret_file, else ~/.config/opal/secret,
  /// which is made at first use; "am_secret_file=none" asks for no proof.
  /// `host_port` is "host:port"; port 0 lets the system choose; all addresses of the host's name are used.  Returns the
  /// actual "host:port" of the first.  Observer::on_peer_connected() reports each peer.  If called before address(),
  /// the tcp transport listens at that address of this host alone, too, unless btl_tcp_if_include or
  /// btl_tcp_if_exclude are set.
  /// Errors: invalid_argument (not "host:port"; no HOME to hold the secret), unreachable, permission, os.
  Result<std::string> listen(std::string_view host_port);
  /// Connects to a Context that called listen() with the same secret.  Blocks at most for `timeout` (negative: for
  /// ever).  The log has the address of a failure.
  /// Errors: invalid_argument, unreachable, timed_out, permission (another secret), version_mismatch, protocol, os.
  Result<Endpoint*> connect_to(std::string_view host_port, std::chrono::milliseconds timeout);

  // --- Messages -----------------------------------------------------------------------------------------------------

  /// Errors: invalid_argument, limit_reached (the tag has a handler).
  Result<void> set_handler(Tag tag, const btl::Handler& handler);
  /// Messages that are larger than max_send arrive in buffers of `source`; without one in memory of the library.
  Result<void> set_handler(Tag tag, const btl::Handler& handler, const BufferSource& source);
  void clear_handler(Tag tag) noexcept;

  // --- Memory -------------------------------------------------------------------------------------------------------

  /// Makes [base, +size) accessible to every peer that has the Region's key, as long as the Region exists.
  Result<Region> register_memory(void* base, std::uint64_t size, Rights rights);
  /// The counts of the registration caches of all open transports; see Cache::statistics().
  [[nodiscard]] rcache::Statistics registration_statistics() const noexcept;
  /// The same for GPU memory of peers that is mapped here (docs/design/rcache.md, "Remote GPU memory").
  [[nodiscard]] rcache::Statistics remote_memory_statistics() const noexcept;
  /// Completes when every put and atomic posted before, on any endpoint, is visible at its target.
  Post flush(Completion& completion) noexcept;

  // --- Checkpoints (docs/design/checkpoint.md) ----------------------------------------------------------------------

  /// Begins a checkpoint.  Messages posted from now on wait until resume(): send_or_queue() keeps them, every other
  /// post answers `again`.  Messages posted before are still sent.  All connected Contexts take part, with the same
  /// `round`, which is higher than any before.  One-sided operations and large messages are not held: the caller waits
  /// for their completions first.
  void quiesce(std::uint64_t round);
  /// True when this Context's share is drained.  The caller calls progress() and quiet() until it was true at every
  /// Context.  Then nothing is in flight, every message posted before quiesce() was handled, puts and atomics are
  /// visible.
  [[nodiscard]] bool quiet() noexcept;
  /// Empties the registration caches, which answer `busy` until resume(), and unmaps GPU memory of peers.  Only Regions
  /// stay registered.  Errors: busy (not quiet, or the number of cached registrations in use).
  Result<void> checkpoint() noexcept;
  /// Opens the transports anew after the process was restored from an image.  Called between checkpoint() and resume();
  /// other threads may use the Context meanwhile.  address() and keys change; fd() must be watched anew; fragments and
  /// listen() end; handlers, endpoints and queued messages stay.  Peers connect by the new addresses; until then posts
  /// answer `again`.
  /// Errors: busy (no checkpoint(), or inside a handler); those of open(), after which no peer is reachable.
  Result<void> restart(const config::Store& store);
  /// Ends the checkpoint, complete or not.  progress() sends the queued messages, in order.
  void resume() noexcept;

  // --- Progress and waiting -----------------------------------------------------------------------------------------

  /// Runs at most about `budget` handlers.  Returns the number of events; 0: idle.
  /// At level `multiple` it returns 0 at once while another thread is in progress().
  std::size_t progress(std::size_t budget = 64) noexcept;
  /// Polls `from` first, so that a message of it is seen sooner.  Falls back to progress() if nothing arrived, and
  /// every eighth call.
  std::size_t progress_from(Endpoint& from, std::size_t budget) noexcept;
  /// progress() for a caller that holds lock().  Not from inside a handler or completion.  Never left to another
  /// thread, since that one cannot begin before the lock is free.
  std::size_t progress_locked(std::size_t budget = 64) noexcept;
  /// Calls progress(); when idle spins briefly, then sleeps until an event or `timeout` (negative: for ever).
  /// Returns the number of events; 0: timed out, or another thread woke this one.  At level `multiple` another thread's
  /// progress may receive the awaited message between the caller's test and the sleep: use wait_until() there.
  std::size_t wait(std::chrono::milliseconds timeout) noexcept { return wait_while(nullptr, nullptr, timeout); }

  /// Waits as wait() does until `condition()` is true or the time is over.  Returns the condition.  It is evaluated
  /// under the Context's lock, so it may read what handlers write, and a change is never missed.
  template <class Condition>
  bool wait_until(Condition condition, std::chrono::milliseconds timeout) noexcept {
    const auto missing = [](void* object) noexcept { return !(*static_cast<Condition*>(object))(); };
    // Most answers come within microseconds: poll for them before reading a clock.
    if (!holds(missing, &condition)) return true;
    const bool alone = !lock().real();  // then only progress() changes the condition
    for (int look = 0; look < looks_; ++look) {
      if (progress() == 0 && alone) continue;
      if (!holds(missing, &condition)) return true;
    }
    const Deadline deadline = Deadline::after(timeout);
    while (holds(missing, &condition)) {
      if (deadline.expired() || inherited()) return false;
      wait_while(missing, &condition, std::chrono::milliseconds{deadline.poll_timeout_ms()});
    }
    return true;
  }

  /// For conditions that change without progress(): threads in wait_until() evaluate theirs again.
  void wake_sleepers() noexcept;

  /// One descriptor for all transports, for the caller's event loop: call arm(); if it returns true, poll for reading.
  [[nodiscard]] int fd() const noexcept;
  bool arm() noexcept;

 private:
  friend class Endpoint;
  friend class Sleep;
  friend class AddressSpaceRegistration;
  friend class Region;
  friend class RegisteredPool;
  struct State;
  using Predicate = bool (*)(void* object) noexcept;
  /// wait(), but returns at once when the predicate (null: none) stopped holding before the sleep.
  std::size_t wait_while(Predicate holds, void* object, std::chrono::milliseconds timeout) noexcept;
  bool holds(Predicate predicate, void* object) noexcept;  ///< under the lock
  bool waits_for_room() noexcept;
  Result<Region> register_address_space(Rights rights);
  explicit Context(std::unique_ptr<State> state) noexcept;
  /// Polls of wait_until() before it reads a clock or yields a core that others want; about 30 ns each.
  const int looks_;
  std::unique_ptr<State> state_;
};

}  // namespace opal::am
