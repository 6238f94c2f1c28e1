// SPDX-License-Identifier: Apache-2.0
// opal/btl/shared/connected_transport.hpp — the base of a transport that keeps one endpoint per peer.  To
// MessageTransport it adds the bookkeeping of endpoints, the order of reports, and progress.  The order:
//
// * an ended endpoint is reported at the end of progress(), after the messages that receive() delivered;
// * operations pending on it complete first, then Observer::on_failed() runs, once;
// * a new connection of the same peer is accepted after that report, see vacant().
//
// A transport implements address(), connect(), send_inline(), wait_fd() and the functions below.  Its destructor calls
// end_all() first: the endpoints live in this class, so they would outlive the transport's own members.
// Threads: as btl::Module.
#pragma once
#include <algorithm>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "opal/btl/shared/message_transport.hpp"

namespace opal::btl {

template <class E>  // a btl::Endpoint
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
  /// Makes wait_fd() readable for what comes from now on, a chance to send what back-pressure held up included.
  /// Then polls once more.  False: receive() has work.
  virtual bool arm_wake_up() noexcept = 0;
  /// The opener disconnects `endpoint`.  Marks it dead with `why` and closes its connection.  True: what was posted
  /// before still goes out, so the endpoint stays until has_left().
  virtual bool leave(E& endpoint, const Error& why) noexcept = 0;
  [[nodiscard]] virtual bool has_left(const E& /*endpoint*/) const noexcept { return true; }
  /// Completes every operation pending on a dead endpoint with `why`.  A transport with operations of its own adds
  /// them.
  virtual void end_operations(E& endpoint, const Error& why) noexcept { emulation().endpoint_gone(endpoint, why); }
  /// The peer may connect again: a connection of it that waited can be accepted.
  virtual void on_vacant(const PeerId& /*peer*/) noexcept {}
  /// See Module::leave_to_parent().  A transport without descriptors that peers see closes nothing.
  void close_in_child() noexcept override = 0;

  // --- What a transport calls -------------------------------------------------------------------------------------

  /// The endpoints that live, one per peer.
  [[nodiscard]] const std::unordered_map<PeerId, std::unique_ptr<E>>& living() const noexcept { return living_; }
  /// The one that lives; null: none.
  [[nodiscard]] E* find(const PeerId& peer) const noexcept {
    const auto found = living_.find(peer);
    return found == living_.end() ? nullptr : found->second.get();
  }
  /// Those that have been disconnected and still send.
  [[nodiscard]] const std::vector<std::unique_ptr<E>>& leaving() const noexcept { return leaving_; }

  /// Adds an endpoint that connect() made.
  E& add(std::unique_ptr<E> endpoint) {
    std::unique_ptr<E>& place = living_[endpoint->peer()];
    place = std::move(endpoint);
    return *place;
  }
  /// Adds the endpoint of a peer that connected to this side, and reports it.  Requires: vacant().
  E& accept(std::unique_ptr<E> endpoint) {
    E& added = add(std::move(endpoint));
    host().observer.on_accepted(added);
    return added;
  }
  /// True when a connection of `peer` can be accepted: it has no endpoint that lives or is still to be reported.
  [[nodiscard]] bool vacant(const PeerId& peer) const noexcept {
    return find(peer) == nullptr &&
           std::none_of(to_report_.begin(), to_report_.end(), [&](const E* ended) { return ended->peer() == peer; });
  }
  /// The connection of a dead endpoint has ended, and all that arrived on it was delivered.  progress() reports it,
  /// once. Nothing happens when the endpoint does not live.
  void end(E& endpoint) {
    if (find(endpoint.peer()) != &endpoint) return;
    const auto found = living_.find(endpoint.peer());
    ended_.push_back(std::move(found->second));
    living_.erase(found);
    to_report_.push_back(&endpoint);
  }

  /// Removes an endpoint that was neither accepted nor returned by connect(): it is not reported.  It stays until
  /// has_left().
  void discard(E& endpoint) {
    if (std::unique_ptr<E> taken = take(endpoint); taken != nullptr) leaving_.push_back(std::move(taken));
  }

  /// Disconnects every endpoint; in a forked child destroys them, without a message or completion.
  void end_all() noexcept {
    if (inherited()) {
      living_.clear();
      ended_.clear();
      leaving_.clear();
    }
    while (!living_.empty()) disconnect(*living_.begin()->second);
    while (!ended_.empty()) disconnect(*ended_.back());
  }
  /// Destroys those that still send, whatever they have not sent.
  void stop_leaving() noexcept { leaving_.clear(); }

 private:
  /// Unreported; null: it is not here.
  std::unique_ptr<E> take(E& endpoint) noexcept {
    std::erase(to_report_, &endpoint);
    std::unique_ptr<E> taken;
    if (find(endpoint.peer()) == &endpoint) {
      taken = std::move(living_.extract(endpoint.peer()).mapped());
    } else if (const auto found =
                   std::find_if(ended_.begin(), ended_.end(), [&](const auto& one) { return one.get() == &endpoint; });
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
      host().observer.on_failed(*ended, why);
      if (vacant(peer)) on_vacant(peer);
      ++count;
    }
    return count;
  }

  std::unordered_map<PeerId, std::unique_ptr<E>> living_;
  std::vector<std::unique_ptr<E>> ended_;  // until disconnect()
  std::vector<E*> to_report_;              // of them, in order
  std::vector<std::unique_ptr<E>> leaving_;
  bool progressing_ = false;
};

}  // namespace opal::btl
