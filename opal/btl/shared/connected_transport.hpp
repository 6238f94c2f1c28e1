// SPDX-License-Identifier: Apache-2.0
// opal/btl/shared/connected_transport.hpp — the base of a transport with one endpoint per peer.  To MessageTransport it
// adds the ownership of the endpoints, progress(), and the order of reports:
//
// * An endpoint that has ended is reported at the end of progress(), after the messages that receive() delivered.
// * The operations pending on it complete first.  Then Observer::on_failed() runs, once.
// * A new connection of the same peer is accepted only after that report, see vacant().
//
// An endpoint is in one of three lists: living (in use; it may be dead until the transport calls end()), ended (dead;
// until disconnect()), leaving (disconnected; it still sends what was posted before).
// A transport implements address(), connect(), send_inline(), wait_fd() and the functions below.  Its destructor must
// call end_all() first: this class owns the endpoints, so they would outlive the transport's own members.
// Threads: as btl::Module.
#pragma once
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "opal/btl/shared/message_transport.hpp"
#include "opal/core/clock.hpp"

namespace opal::btl {

template <class E>  // derived from btl::Endpoint
class ConnectedTransport : public MessageTransport {
 public:
  void disconnect(btl::Endpoint& endpoint) noexcept final {
    if (inherited()) return;
    auto& own = static_cast<E&>(endpoint);
    std::unique_ptr<E> taken = take(own);
    if (taken == nullptr) return;
    const Error why{Errc::canceled, 0, "disconnect"};
    const bool lingers = leave(own, why);
    end_operations(own, why);
    const PeerId peer = own.peer();
    if (lingers) leaving_.push_back(std::move(taken));
    if (vacant(peer)) on_vacant(peer);
  }

  std::size_t progress(std::size_t budget) noexcept final {
    if (progressing_) return 0;
    progressing_ = true;
    std::size_t count = receive(budget);
    count += emulation().progress();
    if (!to_report_.empty()) [[unlikely]]
      count += report_ended();
    if (!leaving_.empty()) [[unlikely]]
      std::erase_if(leaving_, [this](const auto& endpoint) { return has_left(*endpoint); });
    progressing_ = false;
    return count;
  }

  bool arm() noexcept final {
    if (progressing_ || !to_report_.empty()) return false;
    if (!emulation().arm()) return false;
    return arm_wake_up() && to_report_.empty();
  }

 protected:
  using MessageTransport::MessageTransport;

  // --- What a transport implements --------------------------------------------------------------------------------

  /// Receives messages and runs their handlers, about `budget` of them; accepts and ends connections.  Returns the
  /// number of events.
  virtual std::size_t receive(std::size_t budget) noexcept = 0;
  /// Arms wait_fd(): whatever arrives from now on makes it readable, and so does room for messages that back-pressure
  /// has delayed.  Then polls all sources once more.  False: receive() has work.
  virtual bool arm_wake_up() noexcept = 0;
  /// Called by disconnect().  Marks `endpoint` dead with `why` and ends its connection.  True: messages posted before
  /// are still being sent, so the endpoint is destroyed only when has_left() is true.
  virtual bool leave(E& endpoint, const Error& why) noexcept = 0;
  [[nodiscard]] virtual bool has_left(const E& /*endpoint*/) const noexcept { return true; }
  /// Completes every operation pending on a dead endpoint with `why`.  A transport with its own operations overrides it
  /// and also calls this one.
  virtual void end_operations(E& endpoint, const Error& why) noexcept {
    pipelined().endpoint_gone(endpoint, why);
    emulation().endpoint_gone(endpoint, why);
  }
  /// vacant(peer) has become true: the transport may accept a connection of the peer that had to wait.
  virtual void on_vacant(const PeerId& /*peer*/) noexcept {}
  /// See Module::leave_to_parent().  Does nothing in a transport without descriptors that peers watch.
  void close_in_child() noexcept override = 0;

  // --- What a transport calls -------------------------------------------------------------------------------------

  /// The endpoints in use, one per peer.  Dead ones are among them until end().
  [[nodiscard]] const std::unordered_map<PeerId, std::unique_ptr<E>>& living() const noexcept { return living_; }
  /// The living endpoint of `peer`; null: none.
  [[nodiscard]] E* find(const PeerId& peer) const noexcept {
    const auto found = living_.find(peer);
    return found == living_.end() ? nullptr : found->second.get();
  }
  /// The endpoints that are disconnected and still send.
  [[nodiscard]] const std::vector<std::unique_ptr<E>>& leaving() const noexcept { return leaving_; }

  /// Adds an endpoint that connect() has made.  Requires: the peer has no living endpoint.
  E& add(std::unique_ptr<E> endpoint) {
    std::unique_ptr<E>& place = living_[endpoint->peer()];
    place = std::move(endpoint);
    return *place;
  }
  /// Adds the endpoint of a peer that connected to this side, and reports it.  Requires: vacant().
  E& accept(std::unique_ptr<E> endpoint) {
    E& added = add(std::move(endpoint));
    parameters().observer.on_accepted(added);
    return added;
  }
  /// True when a connection of `peer` can be accepted: it has no living endpoint and none whose end is unreported.
  [[nodiscard]] bool vacant(const PeerId& peer) const noexcept {
    return find(peer) == nullptr &&
           std::ranges::none_of(to_report_, [&](const E* ended) { return ended->peer() == peer; });
  }
  /// Makes progress() report the end of `endpoint`, once.  Does nothing unless it is living.
  /// Requires: the endpoint is dead, its connection is closed, and all messages that arrived on it were delivered.
  void end(E& endpoint) {
    if (find(endpoint.peer()) != &endpoint) return;
    const auto found = living_.find(endpoint.peer());
    ended_.push_back(std::move(found->second));
    living_.erase(found);
    to_report_.push_back(&endpoint);
  }

  /// Removes an endpoint that was neither accepted nor returned by connect(), without a report.  It is destroyed when
  /// has_left() is true.
  void discard(E& endpoint) {
    if (std::unique_ptr<E> taken = take(endpoint); taken != nullptr) leaving_.push_back(std::move(taken));
  }

  /// Disconnects every endpoint; in a forked child destroys them, without a message or completion.  The destructor of
  /// the transport must call it.
  void end_all() noexcept {
    if (inherited()) {
      living_.clear();
      ended_.clear();
      leaving_.clear();
    }
    while (!living_.empty()) disconnect(*living_.begin()->second);
    while (!ended_.empty()) disconnect(*ended_.back());
  }
  /// For the destructor, after end_all(): progresses until all endpoints have left, for at most `time`; then
  /// stop_leaving().
  void wait_for_leaving(std::chrono::milliseconds time) noexcept {
    const Deadline deadline = Deadline::after(time);
    while (!leaving_.empty() && !deadline.expired()) {
      if (progress(1) == 0 && arm()) {
        pollfd fd{wait_fd(), POLLIN, 0};
        (void)::poll(&fd, 1, deadline.poll_timeout_ms());
      }
    }
    stop_leaving();
  }
  /// Destroys the leaving endpoints; messages that they have not sent are lost.
  void stop_leaving() noexcept { leaving_.clear(); }

  /// Calls visit(endpoint) for the living and the leaving endpoints.
  template <class Visit>
  void for_each_sending(Visit visit) const noexcept {
    for (const auto& [peer, endpoint] : living_) visit(*endpoint);
    for (const auto& endpoint : leaving_) visit(*endpoint);
  }

  // --- For endpoints with timers: E::wake_ns() is when E::on_time() is to be called, in ns of now_ns(); 0: never

  /// The earliest wake_ns(); 0: none.
  [[nodiscard]] std::uint64_t first_wake_ns() const noexcept {
    std::uint64_t first = 0;
    for_each_sending([&](const E& endpoint) {
      const std::uint64_t at = endpoint.wake_ns();
      if (at != 0 && (first == 0 || at < first)) first = at;
    });
    return first;
  }
  /// Calls on_time(now) of the endpoints whose time has come.
  void run_timers(std::uint64_t now) noexcept {
    const auto due = [now](const E& endpoint) {
      const std::uint64_t at = endpoint.wake_ns();
      return at != 0 && at <= now;
    };
    for (E* const endpoint : sending(due)) endpoint->on_time(now);
  }
  /// Ends the endpoints that are E::broken().
  void end_broken() noexcept {
    for (E* const endpoint : sending([](const E& one) { return one.broken(); })) endpoint->end_with_reason();
  }

 private:
  /// The living and the leaving endpoints for which which(endpoint) is true.  A list, since what is done with them may
  /// change living_.
  template <class Which>
  std::vector<E*> sending(Which which) noexcept {
    std::vector<E*> found;
    for_each_sending([&](E& endpoint) {
      if (which(endpoint)) found.push_back(&endpoint);
    });
    return found;
  }

  /// Takes the endpoint out of living_ or ended_ and cancels its report.  Null: it is in neither.
  std::unique_ptr<E> take(E& endpoint) noexcept {
    std::erase(to_report_, &endpoint);
    std::unique_ptr<E> taken;
    if (find(endpoint.peer()) == &endpoint) {
      taken = std::move(living_.extract(endpoint.peer()).mapped());
    } else if (const auto found = std::ranges::find_if(ended_, [&](const auto& one) { return one.get() == &endpoint; });
               found != ended_.end()) {
      taken = std::move(*found);
      ended_.erase(found);
    }
    return taken;
  }

  std::size_t report_ended() noexcept {
    std::size_t count = 0;
    while (!to_report_.empty()) {
      E* const ended = to_report_.front();
      to_report_.erase(to_report_.begin());
      const Error why = ended->error();
      const PeerId peer = ended->peer();
      end_operations(*ended, why);
      parameters().observer.on_failed(*ended, why);
      if (vacant(peer)) on_vacant(peer);
      ++count;
    }
    return count;
  }

  std::unordered_map<PeerId, std::unique_ptr<E>> living_;
  std::vector<std::unique_ptr<E>> ended_;    // until disconnect()
  std::vector<E*> to_report_;                // endpoints in ended_ whose report is due, oldest first
  std::vector<std::unique_ptr<E>> leaving_;  // until has_left()
  bool progressing_ = false;                 // progress() runs
};

}  // namespace opal::btl
