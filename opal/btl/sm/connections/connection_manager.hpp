// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/connections/connection_manager.hpp — makes, watches and ends the connections of one module.  Its thread
// accepts peers and detects their end, also while the program computes.  The thread sleeps in epoll_wait(); messages
// and data do not pass through it.
//
// * Each connection keeps its Unix socket.  `goodbye` on it is a disconnect; end of file without goodbye is a death.
// * If both sides connect at once, the attempt of the smaller PeerId wins; the other connect() waits for it.
// * A forked child has no such thread and closes every inherited socket.  Otherwise the peers would not see the end of
//   the parent while the child lives.  The connections stay the parent's.
//
// The thread reports events to the module in a list, and sets has_events().  A mutex guards the list, the index table
// and the connection table.  Threads: the module's thread calls the public functions.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "opal/btl/sm/connections/handshake.hpp"
#include "opal/btl/sm/connections/link.hpp"
#include "opal/core/export.hpp"
#include "opal/core/result.hpp"
#include "opal/core/system/fd.hpp"
#include "opal/core/system/fork_listener.hpp"

namespace opal::btl::sm {

/// One report of the connection manager to the module.
struct ConnectionEvent {
  enum class Kind : std::uint8_t {
    accepted,      ///< a peer has connected; `link` is the connection
    disconnected,  ///< the peer of link `id` has disconnected
    died,          ///< the process of the peer of link `id` has ended
    answer,        ///< `answer` is the answer to ask() or expect_file(): its kind tells which
    closed,        ///< both sides have ended link `id`: the peer writes no new FIFO item with `index`
  };
  Kind kind;
  std::uint64_t id;            ///< Link::id; 0 with `closed`: connect() has failed
  std::uint32_t index;         ///< MessageLink::index
  std::unique_ptr<Link> link;  ///< only with `accepted`
  ReceivedHello answer{};      ///< only with `answer`
};

class OPAL_EXPORT ConnectionManager final : private ForkListener {
 public:
  /// Opens the socket with the name `door` and starts the thread.  The thread writes to the eventfd `doorbell` at each
  /// event.  `local` and `doorbell` must outlive the connection manager.  Errors: os.
  static Result<std::unique_ptr<ConnectionManager>> start(const LocalSide& local, const PeerId& door, int doorbell);
  /// Ends the thread and sends goodbye to all peers.  In a forked child: neither.
  ~ConnectionManager();
  ConnectionManager(const ConnectionManager&) = delete;
  ConnectionManager& operator=(const ConnectionManager&) = delete;

  /// Returns a connection to the peer at `address`: a new one, or the one that the peer has made meanwhile.
  /// Blocks at most about Config::connect_timeout.
  /// Errors: unreachable (also: no answer in time), peer_gone, protocol, version_mismatch, permission, limit_reached,
  /// no_memory, not_supported (in a forked child), os, or the error with which the peer refuses.
  Result<std::unique_ptr<Link>> connect(const Address& address);

  /// Ends a link: sends goodbye.  The event `closed` follows when the peer has ended the link too.
  void close(std::uint64_t id) noexcept;
  // Requests to the peer of a link.  The event `answer` follows; none if the peer ends, or if a socket is full and the
  // request or its answer is lost.  A socket holds more of them than a side asks for at a time (SharedMechanism::kMost
  // and KnemMechanism::kMost), so that is rare, and other mechanisms copy then.

  /// ask_pool: requests the descriptor of the peer's shared pool `pool`.  ask_cookie: the KNEM cookie of `region`.
  void ask(std::uint64_t id, HelloKind kind, std::uint32_t pool, const SoftwareHandle& region) noexcept;
  /// Permits the peer to send one descriptor.  Call before the active message that requests it is sent.
  void expect_file(std::uint64_t id) noexcept;
  /// Answers such a message: sends the descriptor `file`, which stays the caller's, or a refusal if it is -1.
  void give_file(std::uint64_t id, const SoftwareHandle& region, const FileNote& note, int file) noexcept;
  /// Frees the index for another peer.  Requires: `closed` was reported, and no item in the FIFO has the index.
  void release_index(std::uint32_t index) noexcept;

  [[nodiscard]] bool has_events() const noexcept { return has_events_.load(std::memory_order_acquire); }
  [[nodiscard]] std::vector<ConnectionEvent> take_events();

  /// True in a forked child: the connections belong to the parent.
  [[nodiscard]] bool inherited() const noexcept { return inherited_; }

 private:
  struct Connection {
    Fd socket;
    PeerId peer;
    std::uint32_t index = 0;
    bool established = false;                    // false: the peer has not sent hello
    bool we_closed = false;                      // close() was called
    bool peer_closed = false;                    // goodbye or end of file was received
    std::uint32_t asked = 0;                     // requests for pools, cookies and files without an answer
    std::shared_ptr<std::atomic<bool>> hung_up;  // RemoteMemory::hung_up of the link
  };
  /// An entry of peers_.  Exists while one of the members is set.
  struct PeerState {
    bool connecting = false;  // connect() to this peer runs
    std::uint64_t link = 0;   // id of the established link, 0: none
  };

  ConnectionManager(const LocalSide& local, Fd listener, Fd epoll, int doorbell);

  Result<std::unique_ptr<Link>> attempt(const Address& address, const Deadline& deadline, std::uint32_t index,
                                        bool& exposed);

  void before_fork() noexcept override;
  void after_fork_in_parent() noexcept override;
  void after_fork_in_child() noexcept override;

  /// Makes the thread see when `fd` is readable; `id`: of the connection.  False: failed, with errno.
  bool watch(const Fd& fd, std::uint64_t id) noexcept;
  void run();  // not noexcept: the destructor cancels the thread, which unwinds the stack
  void accept_connections() noexcept;
  void on_readable(std::uint64_t id) noexcept;
  void handshake(std::uint64_t id, int socket) noexcept;
  Result<bool> welcome(std::uint64_t id, int socket, ReceivedHello& received);

  /// True when a connection of `peer` must be answered with `crossing`: one in the other direction exists or wins.
  bool must_cross_locked(const PeerId& peer) noexcept;
  Result<std::uint32_t> take_index_locked() noexcept;
  void establish_locked(Connection& connection, Link& link, std::uint64_t id);
  std::unique_ptr<Link> take_accepted_locked(const PeerId& peer) noexcept;
  bool still_stands_locked(std::uint64_t id) noexcept;
  void give_pool_locked(const Connection& connection, std::uint32_t number) noexcept;
  void give_cookie_locked(const Connection& connection, const SoftwareHandle& region) noexcept;
  void peer_ended_locked(std::uint64_t id, bool goodbye) noexcept;
  void forget_link_locked(const PeerId& peer, std::uint64_t id) noexcept;
  void finish_locked(std::uint64_t id) noexcept;
  void report_locked(ConnectionEvent event) noexcept;

  const LocalSide& local_;
  Fd listener_;
  Fd epoll_;
  const int doorbell_;

  std::mutex mutex_;
  std::condition_variable changed_;                  // a link was established; connect() waits for it
  std::map<std::uint64_t, Connection> connections_;  // by link id
  std::unordered_map<PeerId, PeerState> peers_;
  std::vector<bool> indices_;  // by MessageLink::index; true: in use
  std::vector<ConnectionEvent> events_;
  std::atomic<bool> has_events_{false};
  bool inherited_ = false;
  std::uint64_t next_id_ = 16;  // smaller ids in epoll are the connection manager's own descriptors
  std::thread thread_;          // last: the thread uses all of the above
};

}  // namespace opal::btl::sm
