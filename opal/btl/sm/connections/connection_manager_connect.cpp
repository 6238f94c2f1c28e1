// SPDX-License-Identifier: Apache-2.0
// The functions of the connection manager that the module's thread calls, and the fork handlers.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <memory>

#include "opal/btl/sm/connections/connection_manager.hpp"

namespace opal::btl::sm {

Result<std::unique_ptr<Link>> ConnectionManager::connect(const Address& address) {
  if (inherited_) return Error{Errc::not_supported, 0, "sm connect: a forked process needs a Context of its own"};
  const PeerId& peer = address.peer;
  const Deadline deadline = Deadline::after(local_.config().connect_timeout);
  std::uint32_t index = 0;
  {
    const std::lock_guard lock{mutex_};
    if (auto link = take_accepted_locked(peer)) return link;
    OPAL_TRY_ASSIGN(index, take_index_locked());
    peers_[peer].connecting = true;
  }
  bool exposed = false;
  auto link = attempt(address, deadline, index, exposed);
  std::unique_lock lock{mutex_};
  PeerState& state = peers_[peer];
  state.connecting = false;
  if (!link || *link == nullptr) {
    // The peer may have used an index that it knows: Connections releases it as that of a closed link.
    if (exposed) {
      report_locked({ConnectionEvent::Kind::closed, 0, index, nullptr});
    } else {
      indices_[index] = false;
    }
  }
  if (link && *link == nullptr) {  // the peer's own attempt wins: waits for it
    while (peers_[peer].link == 0 && !deadline.expired()) {
      changed_.wait_for(lock, std::min<std::chrono::nanoseconds>(deadline.remaining(), std::chrono::seconds{1}));
    }
    if (auto crossed = take_accepted_locked(peer)) {
      link = std::move(crossed);
    } else {
      link = Error{Errc::unreachable, 0, "sm connect: the peer wanted to connect to us, but did not"};
    }
  }
  if (const auto now = peers_.find(peer); now != peers_.end() && now->second.link == 0) peers_.erase(now);
  return link;
}

/// Connects to the peer's socket.  Null: the connection comes from the other side.  Sets `exposed` when the peer may
/// know `index`.
Result<std::unique_ptr<Link>> ConnectionManager::attempt(const Address& address, const Deadline& deadline,
                                                         std::uint32_t index, bool& exposed) {
  OPAL_TRY_ASSIGN(Fd socket, connect_to(address.door, deadline));
  OPAL_TRY_ASSIGN(const pid_t pid, pid_of_peer(socket.get()));
  OPAL_TRY_ASSIGN(std::unique_ptr<Link> link, local_.prepare(address.peer, index));
  exposed = true;
  OPAL_TRY(local_.introduce(socket.get(), HelloKind::hello, *link));
  auto received = receive_hello(socket.get(), deadline);
  if (!received && received.error().code == Errc::timed_out) {
    return Error{Errc::unreachable, 0, "sm connect: the peer does not answer in time"};
  }
  if (!received) return received.error();
  switch (received->hello.kind) {
    case HelloKind::crossing: return std::unique_ptr<Link>{};
    case HelloKind::accept: break;
    case HelloKind::refused: {
      const std::uint32_t code = received->hello.refusal;
      const bool known =
          code >= static_cast<std::uint32_t>(Errc::busy) && code <= static_cast<std::uint32_t>(Errc::internal);
      return Error{known ? static_cast<Errc>(code) : Errc::protocol, 0, "sm connect: refused by the peer", code};
    }
    default: return Error{Errc::protocol, 0, "sm connect: unexpected answer"};
  }
  if (const auto completed = local_.complete(*link, pid, *received); !completed) {
    (void)send_hello(socket.get(), local_.plain(HelloKind::goodbye, address.peer));
    return completed.error();
  }
  const std::lock_guard lock{mutex_};
  const std::uint64_t id = next_id_++;
  Connection& connection = connections_[id];
  connection.socket = std::move(socket);
  establish_locked(connection, *link, id);
  // Without epoll the peer's death would not be noticed, so there is no connection then.
  if (!watch(connection.socket, id)) {
    const int error = errno;
    forget_link_locked(address.peer, id);
    connections_.erase(id);
    return Error{Errc::os, error, "epoll_ctl(sm link)"};
  }
  return link;
}

std::unique_ptr<Link> ConnectionManager::take_accepted_locked(const PeerId& peer) noexcept {
  const auto state = peers_.find(peer);
  if (state == peers_.end() || state->second.link == 0) return nullptr;
  const auto found = std::ranges::find_if(events_, [&](const ConnectionEvent& event) {
    return event.kind == ConnectionEvent::Kind::accepted && event.id == state->second.link;
  });
  if (found == events_.end()) return nullptr;
  std::unique_ptr<Link> link = std::move(found->link);
  events_.erase(found);
  return link;
}

void ConnectionManager::close(std::uint64_t id) noexcept {
  const std::lock_guard lock{mutex_};
  const auto found = connections_.find(id);
  if (inherited_ || found == connections_.end() || found->second.we_closed) return;
  Connection& connection = found->second;
  connection.we_closed = true;
  forget_link_locked(connection.peer, id);
  if (!connection.peer_closed) {
    (void)send_hello(connection.socket.get(), local_.plain(HelloKind::goodbye, connection.peer));
  }
  finish_locked(id);
}

void ConnectionManager::ask(std::uint64_t id, HelloKind kind, std::uint32_t pool,
                            const SoftwareHandle& region) noexcept {
  const std::lock_guard lock{mutex_};
  const auto found = connections_.find(id);
  if (found == connections_.end() || found->second.we_closed || found->second.peer_closed) return;
  Hello question = local_.plain(kind, found->second.peer);
  question.pool = pool;
  question.region = region;
  if (send_hello(found->second.socket.get(), question)) ++found->second.asked;
}

void ConnectionManager::expect_file(std::uint64_t id) noexcept {
  const std::lock_guard lock{mutex_};
  if (const auto found = connections_.find(id); found != connections_.end()) ++found->second.asked;
}

void ConnectionManager::give_file(std::uint64_t id, const SoftwareHandle& region, const FileNote& note,
                                  int file) noexcept {
  const std::lock_guard lock{mutex_};
  const auto found = connections_.find(id);
  if (inherited_ || found == connections_.end() || found->second.we_closed || found->second.peer_closed) return;
  Hello answer = local_.plain(HelloKind::file, found->second.peer, file < 0 ? Errc::not_supported : Errc{});
  answer.region = region;
  answer.note = note;
  // If the socket is full, the peer does without the file.
  (void)send_hello(found->second.socket.get(), answer, {&file, file < 0 ? 0U : 1U});
}

void ConnectionManager::release_index(std::uint32_t index) noexcept {
  const std::lock_guard lock{mutex_};
  indices_[index] = false;
}

std::vector<ConnectionEvent> ConnectionManager::take_events() {
  const std::lock_guard lock{mutex_};
  has_events_.store(false, std::memory_order_release);
  return std::exchange(events_, {});
}

// ---- Forks

void ConnectionManager::before_fork() noexcept { mutex_.lock(); }

void ConnectionManager::after_fork_in_parent() noexcept { mutex_.unlock(); }

/// Closes the sockets: peers see the parent's end only when their last descriptor is closed.  The child keeps the
/// memory.
void ConnectionManager::after_fork_in_child() noexcept {
  inherited_ = true;
  for (auto& [id, connection] : connections_) connection.socket.reset();
  listener_.reset();
  epoll_.reset();  // parent and child share the epoll set
  // In the child neither the thread nor a waiting thread exists, so it must not join or wake one.
  std::construct_at(&thread_);
  std::construct_at(&changed_);
  mutex_.unlock();
}

}  // namespace opal::btl::sm
