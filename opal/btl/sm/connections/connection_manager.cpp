// SPDX-License-Identifier: Apache-2.0
// The connection manager's thread, which accepts connections.  connection_manager_connect.cpp has the functions that
// the module's thread calls.
#include "opal/btl/sm/connections/connection_manager.hpp"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <system_error>

#include "opal/core/log.hpp"
#include "opal/mpool/shared_directory.hpp"

namespace opal::btl::sm {
namespace {

constexpr std::uint64_t kListenerId = 1;
constexpr int kMostMessages = 16;            // read from one peer before other peers have their turn
constexpr std::ptrdiff_t kMostSilent = 256;  // maximum of accepted connections without a hello, each a descriptor
constexpr int kPauseMs = 100;                // milliseconds between two tries to accept when descriptors have run out

/// Waits for events.  The thread can be cancelled only here.
int wait_cancelable(int epoll, std::span<epoll_event> events) {
  int state = 0;
  ::pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state);
  const int count = ::epoll_wait(epoll, events.data(), static_cast<int>(events.size()), -1);
  const int os_errno = errno;
  ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
  errno = os_errno;
  return count;
}

/// Starts a thread with all signals blocked, so that signal handlers run in the program's own threads only.
template <class Body>
Result<std::thread> start_quiet_thread(Body body) {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  Result<std::thread> result = Error{Errc::os, EAGAIN, "start thread (sm connection manager)"};
  try {
    result = std::thread{body};
  } catch (const std::system_error& error) {
    result = Error{Errc::os, error.code().value(), "start thread (sm connection manager)"};
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return result;
}

}  // namespace

ConnectionManager::ConnectionManager(const LocalSide& local, Fd listener, Fd epoll, int doorbell)
    : local_(local),
      listener_(std::move(listener)),
      epoll_(std::move(epoll)),
      doorbell_(doorbell),
      indices_(wire::kMaxPeers) {}

Result<std::unique_ptr<ConnectionManager>> ConnectionManager::start(const LocalSide& local, const PeerId& door,
                                                                    int doorbell) {
  OPAL_TRY_ASSIGN(Fd listener, listen_at(door));
  Fd epoll{::epoll_create1(EPOLL_CLOEXEC)};
  if (!epoll) return Error{Errc::os, errno, "epoll_create1(sm connection manager)"};
  std::unique_ptr<ConnectionManager> connection_manager{
      new ConnectionManager{local, std::move(listener), std::move(epoll), doorbell}};
  if (!connection_manager->watch(connection_manager->listener_, kListenerId)) {
    return Error{Errc::os, errno, "epoll_ctl(sm connection manager)"};
  }
  connection_manager->follow_forks();  // first: a child that is forked after the thread has started must know of it
  OPAL_TRY_ASSIGN(connection_manager->thread_, start_quiet_thread([self = connection_manager.get()] { self->run(); }));
  return connection_manager;
}

ConnectionManager::~ConnectionManager() {
  unfollow_forks();
  if (inherited_ || !thread_.joinable()) return;
  // Cancelled, not woken by a descriptor: the program may have closed all descriptors.
  (void)::pthread_cancel(thread_.native_handle());
  thread_.join();
  for (auto& [id, connection] : connections_) {
    if (connection.established && !connection.we_closed) {
      (void)send_hello(connection.socket.get(), local_.plain(HelloKind::goodbye, connection.peer));
    }
  }
}

bool ConnectionManager::watch(const Fd& fd, std::uint64_t id) noexcept {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = id;
  return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd.get(), &event) == 0;
}

void ConnectionManager::run() {
  int state = 0;
  ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
  std::array<epoll_event, 16> events;
  for (;;) {
    const int count = wait_cancelable(epoll_.get(), events);
    if (count < 0 && errno != EINTR) {
      log::error("btl.sm", "connection manager: epoll_wait failed ({}): no more peers can connect", errno);
      return;
    }
    for (int i = 0; i < count; ++i) {
      const std::uint64_t id = events[static_cast<std::size_t>(i)].data.u64;
      if (id == kListenerId) {
        accept_connections();
      } else {
        on_readable(id);
      }
    }
  }
}

void ConnectionManager::accept_connections() noexcept {
  for (;;) {
    Fd socket{::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
    if (!socket) {
      // The process has no descriptor left, or the kernel no memory.  The listener stays readable, so the thread pauses
      // before it tries again.
      if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) (void)::poll(nullptr, 0, kPauseMs);
      return;
    }
    // Every user can connect to an abstract name.
    if (!pid_of_peer(socket.get())) continue;
    const std::lock_guard lock{mutex_};
    const auto is_silent = [](const auto& connection) { return !connection.second.established; };
    if (std::ranges::count_if(connections_, is_silent) >= kMostSilent) {
      connections_.erase(std::ranges::find_if(connections_, is_silent));  // the oldest, since ids ascend
    }
    const std::uint64_t id = next_id_++;
    if (watch(socket, id)) connections_[id].socket = std::move(socket);
  }
}

void ConnectionManager::on_readable(std::uint64_t id) noexcept {
  int unauthenticated = -1;
  {
    const std::lock_guard lock{mutex_};
    const auto found = connections_.find(id);
    if (found == connections_.end()) return;  // ended since epoll reported it
    if (found->second.established) {
      (void)still_stands_locked(id);
      return;
    }
    unauthenticated = found->second.socket.get();  // only this thread touches unauthenticated connections
  }
  handshake(id, unauthenticated);
}

void ConnectionManager::handshake(std::uint64_t id, int socket) noexcept {
  auto received = receive_hello(socket, Deadline::after(std::chrono::nanoseconds{0}));
  if (received && received->hello.kind == HelloKind::hello) {
    const auto accepted = welcome(id, socket, *received);
    if (accepted && *accepted) return;
    const PeerId& from = received->hello.from;
    if (accepted) {
      (void)send_hello(socket, local_.plain(HelloKind::crossing, from));
    } else {
      log::info("btl.sm", "an unauthenticated connection is refused: {}", to_string(accepted.error()));
      (void)send_hello(socket, local_.plain(HelloKind::refused, from, accepted.error().code));
    }
  }
  const std::lock_guard lock{mutex_};
  connections_.erase(id);  // closes the socket
}

bool ConnectionManager::must_cross_locked(const PeerId& peer) noexcept {
  const auto found = peers_.find(peer);
  if (found == peers_.end()) return false;
  if (found->second.link != 0 && still_stands_locked(found->second.link)) return true;
  // still_stands_locked may have dropped the entry
  const auto now = peers_.find(peer);
  return now != peers_.end() && now->second.connecting && local_.self() < peer;
}

/// Makes the connection that a hello requests.  False: it crosses one in the other direction.
Result<bool> ConnectionManager::welcome(std::uint64_t id, int socket, ReceivedHello& received) {
  const PeerId peer = received.hello.from;
  OPAL_TRY_ASSIGN(const pid_t pid, pid_of_peer(socket));
  if (peer == local_.self()) return Error{Errc::invalid_argument, 0, "sm: this is the module itself", 0};
  std::uint32_t index = 0;
  {
    const std::lock_guard lock{mutex_};
    if (must_cross_locked(peer)) return false;
    OPAL_TRY_ASSIGN(index, take_index_locked());
  }
  auto link = local_.prepare(peer, index);
  Result<void> completed;
  if (link) completed = local_.complete(**link, pid, received);
  const std::lock_guard lock{mutex_};
  // connect() may have begun or even succeeded meanwhile.
  if (!link || !completed || must_cross_locked(peer)) {
    indices_[index] = false;  // the peer does not know it
    if (!link) return link.error();
    if (!completed) return completed.error();
    return false;
  }
  Connection& connection = connections_[id];
  establish_locked(connection, **link, id);
  Link& established = **link;
  // The event precedes the answer: once the peer has the answer it may send messages, and progress() must find the
  // endpoint for them.
  report_locked({ConnectionEvent::Kind::accepted, id, index, std::move(*link)});
  if (!local_.introduce(socket, HelloKind::accept, established)) peer_ended_locked(id, false);
  return true;
}

void ConnectionManager::establish_locked(Connection& connection, Link& link, std::uint64_t id) {
  link.id = id;
  connection.peer = link.peer;
  connection.index = link.index;
  connection.hung_up = link.hung_up;
  connection.established = true;
  peers_[link.peer].link = id;
  changed_.notify_all();
}

Result<std::uint32_t> ConnectionManager::take_index_locked() noexcept {
  const auto free = std::ranges::find(indices_, false);
  if (free == indices_.end()) return Error{Errc::limit_reached, 0, "sm: too many local peers", indices_.size()};
  *free = true;
  return static_cast<std::uint32_t>(free - indices_.begin());
}

/// Handles the messages of an established link: requests, answers and goodbye.  False: the peer has ended the link.
bool ConnectionManager::still_stands_locked(std::uint64_t id) noexcept {
  for (int messages = 0;; ++messages) {
    const auto found = connections_.find(id);
    if (found == connections_.end() || found->second.peer_closed) return false;
    if (messages == kMostMessages) return true;  // epoll reports further messages
    Connection& connection = found->second;
    auto received = receive_hello(connection.socket.get(), Deadline::after(std::chrono::nanoseconds{0}));
    if (!received && received.error().code == Errc::timed_out) return true;
    const HelloKind kind = received ? received->hello.kind : HelloKind{};
    if (kind == HelloKind::ask_pool) {
      give_pool_locked(connection, received->hello.pool);
    } else if (kind == HelloKind::ask_cookie) {
      give_cookie_locked(connection, received->hello.region);
    } else if ((kind == HelloKind::pool || kind == HelloKind::cookie || kind == HelloKind::file) &&
               connection.asked != 0) {
      --connection.asked;
      report_locked({ConnectionEvent::Kind::answer, id, connection.index, nullptr, std::move(*received)});
    } else {
      const bool goodbye = kind == HelloKind::goodbye;
      if (received && !goodbye)
        log::info("btl.sm", "peer {} sent an unexpected message on its socket; its connection is ended",
                  to_string(connection.peer));
      peer_ended_locked(id, goodbye);
      return false;
    }
  }
}

void ConnectionManager::give_pool_locked(const Connection& connection, std::uint32_t number) noexcept {
  Hello answer = local_.plain(HelloKind::pool, connection.peer);
  answer.pool = number;
  const auto access = mpool::open_shared_pool(number);
  if (access) answer.pool_base = access->base;
  const int fd = access ? access->fd.get() : -1;
  // If the socket is full, the peer does without the pool.
  (void)send_hello(connection.socket.get(), answer, {&fd, access ? 1U : 0U});
}

void ConnectionManager::give_cookie_locked(const Connection& connection, const SoftwareHandle& region) noexcept {
  Hello answer = local_.plain(HelloKind::cookie, connection.peer);
  const KnemCookie made = local_.cookie_of(region);
  answer.region = made.region;
  answer.knem_cookie = made.cookie;
  (void)send_hello(connection.socket.get(), answer);
}

void ConnectionManager::peer_ended_locked(std::uint64_t id, bool goodbye) noexcept {
  Connection& connection = connections_[id];
  if (connection.peer_closed) return;
  connection.peer_closed = true;
  connection.hung_up->store(true, std::memory_order_release);
  (void)::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, connection.socket.get(), nullptr);
  forget_link_locked(connection.peer, id);
  if (!connection.we_closed)
    report_locked(
        {goodbye ? ConnectionEvent::Kind::disconnected : ConnectionEvent::Kind::died, id, connection.index, nullptr});
  finish_locked(id);
}

void ConnectionManager::forget_link_locked(const PeerId& peer, std::uint64_t id) noexcept {
  const auto found = peers_.find(peer);
  if (found == peers_.end() || found->second.link != id) return;
  found->second.link = 0;
  if (!found->second.connecting) peers_.erase(found);
}

void ConnectionManager::finish_locked(std::uint64_t id) noexcept {
  const auto found = connections_.find(id);
  if (!found->second.we_closed || !found->second.peer_closed) return;
  const std::uint32_t index = found->second.index;
  connections_.erase(found);
  report_locked({ConnectionEvent::Kind::closed, id, index, nullptr});
}

void ConnectionManager::report_locked(ConnectionEvent event) noexcept {
  events_.push_back(std::move(event));
  has_events_.store(true, std::memory_order_release);
  (void)::eventfd_write(doorbell_, 1);
}

}  // namespace opal::btl::sm
