// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/connections/connection_manager.hpp — the thread that accepts and makes connections, also while the
// program computes, and that notices when a peer hangs up.  It sleeps in epoll; no data passes through it.
//
// * Each connection keeps its Unix socket.  `goodbye` on it is a disconnect, a hang-up without goodbye a death.
// * If both sides connect at once, the attempt of the smaller PeerId wins; the other connect() waits for it.
// * A forked child has no such thread and closes every socket it has inherited.  Otherwise a death of its parent would
//   not be seen while the child lives.  The connections stay the parent's.
//
// Events for the module go into a list behind a mutex; an atomic flag says that it is not empty.  The two threads share
// that list, the index table and the connection table.  Threads: public functions are the module's.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "opal/btl/sm/connections/handshake.hpp"
#include "opal/btl/sm/connections/link.hpp"
#include "opal/btl/sm/single_copy/knem.hpp"
#include "opal/btl/sm/single_copy/shared_mechanism.hpp"
#include "opal/core/export.hpp"
#include "opal/core/result.hpp"
#include "opal/core/system/fd.hpp"
#include "opal/core/system/fork_listener.hpp"

namespace opal::btl::sm {

/// What the connection manager has to report.
struct ConnectionEvent {
  enum class Kind : std::uint8_t {
    accepted,      ///< a peer has connected; `link` is it
    disconnected,  ///< the peer of link `id` has disconnected
    died,          ///< the process of the peer of link `id` has ended
    pool,          ///< the peer of link `id` has given, or refused, shared pool `pool.number`
    cookie,        ///< the peer of link `id` has answered for a registration of its own
    file,          ///< the peer of link `id` has sent a descriptor, or refused to
    closed,        ///< both sides have ended link `id`: no new message can bear `index`
  };
  Kind kind;
  std::uint64_t id;
  std::uint32_t index;
  std::unique_ptr<Link> link;
  PeerPool pool{};
  KnemCookie cookie{};
  ReceivedFile file{};
};

class OPAL_EXPORT ConnectionManager final : private ForkListener {
 public:
  /// Opens the socket `door` and starts the thread.  `local` and `doorbell`, which is written at each event, must
  /// outlive the connection manager.  Errors: os.
  static Result<std::unique_ptr<ConnectionManager>> start(const LocalSide& local, const PeerId& door, int doorbell);
  /// Disconnects from all peers; in a forked child it does nothing.
  ~ConnectionManager();
  ConnectionManager(const ConnectionManager&) = delete;
  ConnectionManager& operator=(const ConnectionManager&) = delete;

  /// A connection to the peer at `address`, ours or the one that the peer has made meanwhile.
  /// Errors: unreachable, peer_gone, protocol, version_mismatch, permission, limit_reached, no_memory, not_supported
  /// (in a forked child), os.
  Result<std::unique_ptr<Link>> connect(const Address& address);

  /// Ends a link: goodbye to the peer.  `closed` follows when the peer has ended it too.
  void close(std::uint64_t id) noexcept;
  /// Asks the peer of a link for a shared pool; the event `pool` follows, unless the peer ends.
  void ask_pool(std::uint64_t id, std::uint32_t number) noexcept;
  /// Asks the peer of a link for the KNEM cookie of a registration; the event `cookie` follows, unless the peer
  /// ends.
  void ask_cookie(std::uint64_t id, const SoftwareHandle& region) noexcept;
  /// A message has asked the peer of a link for a descriptor; the event `file` follows, unless the peer ends.
  void expect_file(std::uint64_t id) noexcept;
  /// The answer to such a message: `file`, or a refusal for -1.
  void give_file(std::uint64_t id, const SoftwareHandle& region, const FileNote& note, int file) noexcept;
  /// After `closed`, when no old message can bear the index any more.
  void release_index(std::uint32_t index) noexcept;

  [[nodiscard]] bool has_events() const noexcept { return has_events_.load(std::memory_order_acquire); }
  [[nodiscard]] std::vector<ConnectionEvent> take_events();

  /// True in a forked child: what this side has with its peers is the parent's.
  [[nodiscard]] bool inherited() const noexcept { return inherited_; }

 private:
  struct Connection {
    Fd socket;
    PeerId peer;
    std::uint32_t index = 0;
    bool established = false;  // false: connected, has not said hello
    bool we_closed = false;
    bool peer_closed = false;
    std::uint32_t asked = 0;  // for pools, cookies and files, not yet answered
    std::shared_ptr<std::atomic<bool>> hung_up;
  };
  /// What the table of peers says about one.
  struct PeerState {
    bool connecting = false;  // connect() is at work
    std::uint64_t link = 0;   // established link, 0 = none
  };

  ConnectionManager(const LocalSide& local, Fd listener, Fd epoll, int doorbell);

  Result<std::unique_ptr<Link>> attempt(const Address& address, const Deadline& deadline, std::uint32_t index,
                                        bool& exposed);

  void before_fork() noexcept override;
  void after_fork_in_parent() noexcept override;
  void after_fork_in_child() noexcept override;

  void run();  // not noexcept: its end is a cancellation, which unwinds the stack
  void accept_connections() noexcept;
  void stop_listening() noexcept;
  void listen_again() noexcept;
  void drop_oldest_silent_locked() noexcept;
  void on_readable(std::uint64_t id) noexcept;
  void handshake(std::uint64_t id, int socket) noexcept;
  Result<void> welcome(std::uint64_t id, int socket, ReceivedHello& received, bool& crossing);

  /// True when an unauthenticated connection must be told to use the connection in the other direction.
  bool must_cross_locked(const PeerId& peer) noexcept;
  Result<std::uint32_t> take_index_locked() noexcept;
  void establish_locked(Connection& connection, Link& link, std::uint64_t id);
  std::unique_ptr<Link> take_accepted_locked(const PeerId& peer) noexcept;
  bool still_stands_locked(std::uint64_t id) noexcept;
  void ask(std::uint64_t id, Hello& question) noexcept;
  void give_pool_locked(const Connection& connection, std::uint32_t number) noexcept;
  void peer_ended_locked(std::uint64_t id, bool goodbye) noexcept;
  void forget_link_locked(const PeerId& peer, std::uint64_t id) noexcept;
  void finish_locked(std::uint64_t id) noexcept;
  void report_locked(ConnectionEvent event) noexcept;

  const LocalSide& local_;
  Fd listener_;
  Fd epoll_;
  const int doorbell_;

  std::mutex mutex_;
  std::condition_variable changed_;                            // a peer's state, for connect()
  std::unordered_map<std::uint64_t, Connection> connections_;  // by link id
  std::unordered_map<PeerId, PeerState> peers_;
  std::vector<bool> indices_;  // true = taken
  std::vector<ConnectionEvent> events_;
  std::atomic<bool> has_events_{false};
  bool inherited_ = false;
  std::uint64_t next_id_ = 16;  // below: the connection manager's own descriptors
  std::size_t silent_ = 0;      // unauthenticated connections that have not said hello
  bool deaf_ = false;           // the listener is not watched for a while; the thread's own
  std::thread thread_;          // last: it uses all of the above
};

}  // namespace opal::btl::sm
