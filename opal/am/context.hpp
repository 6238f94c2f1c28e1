// SPDX-License-Identifier: Apache-2.0
// opal/am/context.hpp — active messages and one-sided access for everybody: opens the transports, finds the best one to
// each peer, runs the handlers, waits.
// Owns its modules and endpoints.  Peers: whoever connects gets an Endpoint, and one that comes back another; of a dead
// one nothing but the object stays until disconnect().  Handlers run inside progress()/wait(), one at a time; they may
// post, must not block, call progress() or disconnect. Threads: Options::threads.  One lock guards progress: for
// threads that are not to wait for each other open a Context per thread; they share nothing that sending or receiving
// writes (docs/design/lanes.md).
#pragma once
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "opal/am/endpoint.hpp"
#include "opal/am/lock.hpp"
#include "opal/am/region.hpp"
#include "opal/btl/registry.hpp"
#include "opal/core/clock.hpp"
#include "opal/core/config_store.hpp"
#include "opal/core/export.hpp"
#include "opal/core/secret.hpp"
#include "opal/rcache/statistics.hpp"

namespace opal::am {

/// Told about peers; from inside progress().  Defaults do nothing.
class Observer {
 public:
  virtual ~Observer() = default;
  /// A peer that we did not connect() to; one that comes back has a new Endpoint.
  virtual void on_peer_connected(Endpoint& /*peer*/) noexcept {}
  /// Everything pending on the endpoint has completed with an error.  It stays dead, and valid until disconnect(),
  /// which is called later: not from here.
  virtual void on_peer_failed(Endpoint& /*peer*/, const Error& /*why*/) noexcept {}
};

struct Options {
  ThreadLevel threads = ThreadLevel::single;
  Observer* observer = nullptr;             ///< must outlive the Context
  const btl::Registry* registry = nullptr;  ///< null: the built-in transports
  std::optional<Secret> secret = {};        ///< null: that of am_secret_file, by default this user's
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
  /// This process is a forked child of the one that opened the Context.  Then it does nothing: posts and connect() fail
  /// with not_supported, progress() and wait() return 0, the destructor ends nothing.  Only restart() takes it over.
  [[nodiscard]] bool inherited() const noexcept;
  /// The lock under which handlers run: a layer above that guards its own state with it needs no second one.
  [[nodiscard]] Lock& lock() noexcept;
  [[nodiscard]] std::vector<TransportState> transports() const;

  // --- Peers
  // ----------------------------------------------------------------------------------------------------------

  /// The address blob with which any process can connect() to this Context; a few hundred bytes.
  [[nodiscard]] ByteSpan address() const noexcept;
  /// The endpoint to the Context that published `address`; the existing one if there is one.  Errors: protocol
  /// (garbled), version_mismatch, unreachable (text in Endpoint::explain form is logged).
  Result<Endpoint*> connect(ByteSpan address);
  /// Ends an endpoint; see btl::Module::disconnect.  Not from inside a handler or completion.
  void disconnect(Endpoint& endpoint) noexcept;

  /// Bootstrap without a launcher: accepts connections that prove to know the secret and then exchange address blobs,
  /// nothing else.  The secret: Options::secret, else the file am_secret_file, else ~/.config/opal/secret, which is
  /// made at first use; "am_secret_file=none" asks for no proof.  "host:port", port 0 picks one; all addresses of the
  /// host's name.  Returns the actual "host:port" of the first.  Each peer that arrives is reported through
  /// Observer::on_peer_connected.  Called before address(), it has tcp listen at that address of this host alone, too,
  /// unless btl_tcp_if_include or btl_tcp_if_exclude say where.
  /// Errors: invalid_argument (not "host:port"; no HOME to hold the secret), unreachable, permission, os.
  Result<std::string> listen(std::string_view host_port);
  /// Blocks until the exchange with a listen()ing Context that has the same secret is done, at most for `timeout`
  /// (negative: for ever).  A failure is logged with the address.  Errors: invalid_argument, unreachable, timed_out,
  /// permission (another secret), version_mismatch, protocol, os.
  Result<Endpoint*> connect_to(std::string_view host_port, std::chrono::milliseconds timeout);

  // --- Messages
  // -------------------------------------------------------------------------------------------------------

  /// Errors: invalid_argument, limit_reached (the tag has a handler).
  Result<void> set_handler(Tag tag, const btl::Handler& handler);
  void clear_handler(Tag tag) noexcept;

  // --- Memory
  // ---------------------------------------------------------------------------------------------------------

  /// Makes [base, +size) reachable for whoever gets the Region's key, as long as the Region lives.
  Result<Region> register_memory(void* base, std::uint64_t size, Rights rights);
  /// What the registration caches of all open transports have counted, and hold now; see Cache::statistics().
  [[nodiscard]] rcache::Statistics registration_statistics() const noexcept;
  /// The same for memory of peers' GPUs that is mapped here (docs/design/rcache.md, "Remote GPU memory").
  [[nodiscard]] rcache::RgpusmStatistics remote_memory_statistics() const noexcept;
  /// Completes when every put and atomic posted before, on any endpoint, is visible at its target.
  Post flush(Completion& completion) noexcept;

  // --- Checkpoints (docs/design/checkpoint.md)
  // ----------------------------------------------------------------------------------------

  /// Messages posted from now on wait until resume(): send_or_queue keeps them, everything else answers `again`.  What
  /// was posted before still goes out.  All Contexts that are connected take part, with the same `round`, higher than
  /// any before.  One-sided operations are not held: whoever posts them waits for their ends first.
  void quiesce(std::uint64_t round);
  /// Call progress() until this is true, and go on calling it until it was true at every Context: then nothing is under
  /// way between them, every message posted before quiesce() has been handled, puts and atomics are visible.
  [[nodiscard]] bool quiet() noexcept;
  /// Empties the registration caches, which answer `busy` until resume(), and unmaps peers' GPU memory: nothing but
  /// Regions is registered.
  /// Errors: busy (not quiet, or that many cached registrations are in use).
  Result<void> checkpoint() noexcept;
  /// After the process came back from an image: between checkpoint() and resume(); other threads may do what they like.
  /// Transports are opened anew: address() and keys change, fd() has to be watched anew, fragments and listen() are
  /// gone; handlers, endpoints and what waits on them stay.  Peers connect by new addresses; until then posts answer
  /// `again`.  Errors: busy (no checkpoint(), or inside a handler), those of open(): nothing is reachable then.
  Result<void> restart(const config::Store& store);
  /// Goes on, also when the checkpoint was given up: what waited goes out from progress(), in order.
  void resume() noexcept;

  // --- Progress and waiting
  // -------------------------------------------------------------------------------------------

  /// Runs at most about `budget` handlers; returns how much happened, 0 = idle.
  /// At level `multiple` it leaves the work to another thread that is at it, and returns 0.
  std::size_t progress(std::size_t budget = 64) noexcept;
  /// The same for somebody who waits for a message of `from`, which it finds sooner: looks there a moment, then, if
  /// nothing has come, and now and then otherwise, everywhere.
  std::size_t progress_from(Endpoint& from, std::size_t budget) noexcept;
  /// As progress() for who holds lock(), not from inside a handler or completion: never left to another thread, which
  /// could not begin before the lock is free.
  std::size_t progress_locked(std::size_t budget = 64) noexcept;
  /// Progresses; when idle spins briefly, then sleeps until something happens or `timeout` passed (negative: for ever).
  /// Returns how much happened, 0 = timed out or woken by another thread.  At level `multiple` another thread's
  /// progress may bring what you wait for between your look and the sleep: use wait_until there.
  std::size_t wait(std::chrono::milliseconds timeout) noexcept { return wait_while(nullptr, nullptr, timeout); }

  /// Waits, as wait() does, until `condition()` holds or the time is over; returns whether it holds.  The condition is
  /// looked at under the Context's lock, so it may read what handlers write, and is never missed.
  template <class Condition>
  bool wait_until(Condition condition, std::chrono::milliseconds timeout) noexcept {
    const auto missing = [](void* object) noexcept { return !(*static_cast<Condition*>(object))(); };
    // Most answers come within microseconds: look for them without asking a clock.
    if (!holds(missing, &condition)) return true;
    const bool alone = !lock().real();  // then nothing changes but by progress()
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

  /// For a condition that changes without any progress: threads that sleep in wait_until() look at theirs again.
  void wake_sleepers() noexcept;

  /// One descriptor for all transports, for an event loop of one's own: arm(), and if it says true, poll for reading.
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
  /// Looks of wait_until() before it asks a clock, or gives away a core that others want: each takes some 30 ns.
  const int looks_;
  std::unique_ptr<State> state_;
};

}  // namespace opal::am
