// SPDX-License-Identifier: Apache-2.0
// Connection setup: the module's list of peers, and an endpoint's states until it is connected (endpoint.hpp).
// Runs inside connect() and progress().  Threads: as the module.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "opal/btl/verbs/module.hpp"
#include "opal/core/log.hpp"
#include "opal/rcache/cache.hpp"

namespace opal::btl::verbs {
namespace {

constexpr std::chrono::milliseconds kRest{50};              // before the next attempt after a refusal (busy)
constexpr std::chrono::milliseconds kAddressTimeout{5000};  // per step of address and route resolution
constexpr std::uint32_t kFirstWindow = 2;                   // messages; until the peer requests more
constexpr std::uint32_t kFirstSends = 8;                    // buffers

void refuse(rdma_cm_id* id, wire::Reason reason) noexcept {
  log::debug("btl.verbs", "refused a connection, reason {}", static_cast<unsigned>(reason));
  const wire::Refusal refusal{wire::kMagic, reason};
  (void)rdma_reject(id, &refusal, sizeof refusal);
}

const char* text_of(wire::Reason reason) noexcept {
  switch (reason) {
    case wire::Reason::unauthenticated: return "verbs: refused: the peer refused this side's proof of the job's secret";
    case wire::Reason::different: return "verbs: refused: the peer has another btl_verbs_max_send, or another version";
    case wire::Reason::full:
      return "verbs: refused: the peer has no buffers left (its btl_verbs_receive_buffers), or its "
             "device has failed";
    default: return "verbs: refused";
  }
}

}  // namespace

// ---- A module's peers -------------------------------------------------------------------------------------------

Result<std::uint32_t> Module::reserve_window() {
  if (send_buffers_.count() == 0) OPAL_TRY(grow(send_buffers_, std::min(kFirstSends, most_sends_)));
  const std::uint32_t limit = device_.receive_limit();
  const std::uint32_t window = std::min(kFirstWindow, config_.credits);
  if (window + reserve_ > limit - promised_receives_)
    return Error{Errc::limit_reached, 0, "verbs: btl_verbs_receive_buffers are all taken", limit};
  OPAL_TRY(promise_receives(window + reserve_));
  return window;
}

Result<void> Module::promise_receives(std::uint32_t count) {
  const std::uint32_t promised = promised_receives_ + count;
  if (promised > receive_buffers_.count()) {
    const std::uint32_t more = promised - receive_buffers_.count();
    OPAL_TRY(device_.reserve_completions(more));
    if (auto grown = grow(receive_buffers_, more); !grown) {
      device_.release_completions(more);
      return grown;
    }
    while (const Buffer* buffer = receive_buffers_.take()) post_receive(*buffer);
  }
  promised_receives_ = promised;
  return {};
}

/// Buffers and cached registrations share the limit of registered memory: flushes the cache if the limit is reached.
Result<void> Module::grow(BufferPool& pool, std::uint32_t count) {
  auto grown = pool.grow(device_, count);
  if (grown || grown.error().code != Errc::limit_reached || registrations() == nullptr) return grown;
  registrations()->flush();
  return pool.grow(device_, count);
}

bool Module::widen_window(std::uint32_t count) noexcept {
  if (promised_receives_ + count > device_.receive_limit() / 2) return false;
  if (BufferPool::total() + count * receive_buffers_.stride() > message_memory_) return false;
  return promise_receives(count).has_value();
}

Buffer* Module::make_send_buffers() noexcept {
  const std::uint32_t count = send_buffers_.count();
  if (count >= most_sends_) return nullptr;
  const std::uint32_t more = std::min(count, most_sends_ - count);
  if (BufferPool::total() + more * send_buffers_.stride() > message_memory_) return nullptr;
  if (const auto grown = grow(send_buffers_, more); !grown) {
    log::info("btl.verbs", "no more than {} buffers for sending: {}", count, opal::to_string(grown.error()));
    most_sends_ = count;
  }
  return send_buffers_.take();
}

void Module::enter(const Connection& connection, Connection::Owner& user) {
  queues_[connection.pair()->qp_num] = &user;
}

void Module::leave(const Connection& connection) noexcept {
  if (connection.pair() != nullptr) queues_.erase(connection.pair()->qp_num);
}

Result<btl::Endpoint*> Module::connect(const PeerId& peer, ByteSpan address) {
  OPAL_TRY_ASSIGN(const wire::Address decoded, decode(address));
  if (decoded.id != peer) return Error{Errc::protocol, 0, "verbs address: it is another peer's"};
  if (peer == parameters().id) return Error{Errc::unreachable, 0, "verbs: does not connect a process to itself"};
  if (Endpoint* known = find(peer); known != nullptr) {
    known->visible = true;
    return known;
  }
  if (gone_.code != Errc{}) return gone_;
  OPAL_TRY_ASSIGN(const std::uint32_t window, reserve_window());
  auto created = std::make_unique<Endpoint>(*this, peer, window);
  const Secret key = parameters().secret.derive(wire::kConnectionKey, bytes_of(decoded.token));
  OPAL_TRY(created->dial(socket_of(decoded), key));
  created->visible = true;
  return &add(std::move(created));
}

void Module::on_request(const CmEvent& event) noexcept {
  CmId id{event.id};
  id->context = nullptr;
  wire::Request request{};
  if (gone_.code != Errc{}) return refuse(id.get(), wire::Reason::full);
  if (!read_object(event.bytes(), request)) return refuse(id.get(), wire::Reason::unauthenticated);
  if (request.version != wire::kWireVersion) return refuse(id.get(), wire::Reason::different);
  if (request.purpose == wire::Purpose::messages) return accept_messages(id, event, request);
  if (request.purpose == wire::Purpose::one_sided) return accept_one_sided(id, event, request);
  refuse(id.get(), wire::Reason::unauthenticated);
}

void Module::accept_messages(CmId& id, const CmEvent& event, const wire::Request& request) noexcept {
  if (!is_genuine(key_, request, bytes_of(parameters().id)) || request.from == parameters().id) {
    log::warn("btl.verbs", "a connection was refused: its request does not prove that it belongs to this job");
    return refuse(id.get(), wire::Reason::unauthenticated);
  }
  if (request.max_send != config_.max_send.bytes || request.window == 0) {
    log::warn("btl.verbs", "peer {} was refused: btl_verbs_max_send is {} there and {} here",
              opal::to_string(request.from), request.max_send, config_.max_send.bytes);
    return refuse(id.get(), wire::Reason::different);
  }
  Endpoint* known = find(request.from);
  if (known != nullptr && known->searching() && parameters().id < request.from)
    return refuse(id.get(), wire::Reason::crossing);
  if (known != nullptr && known->state() == Endpoint::State::half_open && !known->visible) {
    known->end({Errc::peer_gone, 0, "verbs: the peer has given up this connection"});
    known = nullptr;
  }
  if (known != nullptr && !known->searching()) {
    if (known->superseded()) known->end({Errc::peer_gone, 0, "verbs: the peer has opened a new connection"});
    return refuse(id.get(), wire::Reason::busy);
  }
  std::unique_ptr<Endpoint> created;
  if (known == nullptr) {
    const auto window = reserve_window();
    if (!window) {
      log::warn("btl.verbs", "peer {} was refused: {}", opal::to_string(request.from), opal::to_string(window.error()));
      return refuse(id.get(), wire::Reason::full);
    }
    created = std::make_unique<Endpoint>(*this, request.from, *window);
    known = created.get();
  }
  if (const auto accepted = known->accept(id, event, request, key_); !accepted) {
    log::warn("btl.verbs", "peer {} was refused: {}", opal::to_string(request.from), opal::to_string(accepted.error()));
    return refuse(id.get(), wire::Reason::full);
  }
  if (created != nullptr) add(std::move(created));
}

void Module::accept_one_sided(CmId& id, const CmEvent& event, const wire::Request& request) noexcept {
  Endpoint* const known = find(request.from);
  if (known == nullptr || known->state() != Endpoint::State::connected) {
    return refuse(id.get(), wire::Reason::busy);  // the peer's confirm may still arrive
  }
  if (!known->serve(id, event, request)) refuse(id.get(), wire::Reason::unauthenticated);
}

wire::Request Module::make_request(wire::Purpose purpose, std::uint32_t window, const Nonce& nonce, const Secret& key,
                                   const PeerId& peer) const noexcept {
  wire::Request request{wire::kWireVersion,
                        purpose,
                        static_cast<std::uint16_t>(window),
                        static_cast<std::uint32_t>(config_.max_send.bytes),
                        parameters().id,
                        nonce,
                        {}};
  sign(key, request, bytes_of(peer));
  return request;
}

// ---- An endpoint's way to its connection ------------------------------------------------------------------------

Endpoint::Endpoint(Module& module, const PeerId& peer, std::uint32_t window)
    : btl::Endpoint(module, peer), verbs_(module), window_(window) {}

Endpoint::~Endpoint() {
  queue_.reset();  // discards its collected requests
  drop_connection();
  verbs_.release_window(window_);
}

Connection::Settings Endpoint::settings() const noexcept {
  const Config& config = verbs_.config();
  Connection::Settings settings;
  settings.shape = {sends_for(config.credits), static_cast<std::uint32_t>(std::min<std::uint64_t>(
                                                   config.inline_size.bytes, RequestList::kInlined))};
  settings.ack_timeout = static_cast<std::uint8_t>(config.ack_timeout);
  settings.timeout_ms = static_cast<int>(std::min(kAddressTimeout, config.connect_timeout).count());
  return settings;
}

void Endpoint::drop_connection() noexcept {
  if (connection_ == nullptr) return;
  verbs_.leave(*connection_);
  connection_.reset();
  post_collected();  // without a connection: discards them
  retire(posted_);
  unsignalled_ = 0;
  holds_buffers_ = false;
}

Result<void> Endpoint::dial(const SocketAddress& to, const Secret& key) {
  to_ = to;
  key_ = key;
  give_up_ns_ = Module::time_after(verbs_.config().connect_timeout);
  return dial_again();
}

Result<void> Endpoint::dial_again() {
  request_ = verbs_.make_request(wire::Purpose::messages, window_, fresh_nonce(), key_, peer());
  state_ = State::dialing;
  connection_ = std::make_unique<Connection>(verbs_.device(), settings(), this);
  return connection_->dial(verbs_.events(), verbs_.socket(), to_, bytes_of(request_));
}

Result<void> Endpoint::accept(CmId& id, const CmEvent& event, const wire::Request& request, const Secret& key) {
  if (state_ == State::dialing && verbs_.device().iwarp()) crossed_.take(std::move(connection_));
  drop_connection();
  wire::Reply reply{window_, 0, fresh_nonce(), {}};
  sign(key, reply, bytes_of(request));
  connection_ = std::make_unique<Connection>(verbs_.device(), settings(), this);
  if (auto accepted = connection_->accept(id, event.peer_reads, bytes_of(reply)); !accepted) {
    connection_.reset();
    if (searching()) rest(0);  // this side dials again; the caller destroys a new endpoint
    return accepted;
  }
  session_ = session_key(key, wire::kSessionKey, request.nonce, reply.nonce);
  most_credits_ = std::min<std::uint32_t>(request.window, verbs_.config().credits);
  sent_.assign(connection_->shape().sends, nullptr);
  posted_ = retired_ = 0;
  state_ = State::half_open;
  give_up_ns_ = Module::time_after(kHandshakeTimeout);
  verbs_.enter(*connection_, *this);
  return {};
}

void Endpoint::rest(std::uint64_t ns) noexcept {
  drop_connection();
  state_ = State::resting;
  again_ns_ = now_ns() + ns;
}

void Endpoint::on_connected(ByteSpan bytes) noexcept {
  if (state_ != State::dialing) return;  // an acceptor waits for the confirmation
  wire::Reply reply{};
  if (!read_object(bytes, reply) || !is_genuine(key_, reply, bytes_of(request_)) || reply.window == 0) {
    return end({Errc::permission, 0, "verbs: the peer did not prove that it knows the job's secret"});
  }
  session_ = session_key(key_, wire::kSessionKey, request_.nonce, reply.nonce);
  most_credits_ = std::min(reply.window, verbs_.config().credits);
  credits_ = 0;
  sent_.assign(connection_->shape().sends, nullptr);
  posted_ = retired_ = 0;
  state_ = State::connected;
  verbs_.enter(*connection_, *this);
  confirm();
}

void Endpoint::on_refused(ByteSpan bytes) noexcept {
  wire::Refusal refusal{};
  if (state_ != State::dialing) return on_lost({Errc::peer_gone, ECONNRESET, "verbs: the connection was not taken"});
  if (!read_object(bytes, refusal) || refusal.magic != wire::kMagic) {
    return on_lost({Errc::unreachable, ECONNREFUSED, "verbs: no process listens at the peer's address"});
  }
  switch (refusal.reason) {
    case wire::Reason::crossing:  // the peer's request is in flight; dial again in case it is lost
    case wire::Reason::busy: return rest(static_cast<std::uint64_t>(std::chrono::nanoseconds{kRest}.count()));
    default: return on_lost({Errc::unreachable, 0, text_of(refusal.reason)});
  }
}

void Endpoint::on_lost(const Error& why) noexcept {
  if (state_ == State::connected) return break_off(why);
  if (searching()) log::warn("btl.verbs", "cannot connect to peer {}: {}", to_string(peer()), opal::to_string(why));
  end(why);
}

void Endpoint::end(const Error& why) noexcept {
  if (state_ == State::ended) return;
  if (connection_ != nullptr) where_ = describe();
  state_ = State::ended;
  broken_ = false;
  if (!leaving_) mark_dead(why);
  drop_one_sided_queue();
  served_.reset();
  drop_connection();
  if (!leaving_) verbs_.on_ended(*this);
}

std::uint64_t Endpoint::wake_ns() const noexcept {
  switch (state_) {
    case State::resting: return std::min(again_ns_, give_up_ns_);
    case State::dialing:
    case State::half_open: return give_up_ns_;
    case State::connected: return leaving_ ? give_up_ns_ : 0;
    default: return 0;
  }
}

void Endpoint::on_time(std::uint64_t now) noexcept {
  if (now >= give_up_ns_) {
    if (leaving_) return end({Errc::timed_out, 0, "verbs: close timeout"});
    return on_lost({Errc::unreachable, ETIMEDOUT, "verbs: no connection within the time for it"});
  }
  if (state_ != State::resting || now < again_ns_) return;
  if (const auto dialled = dial_again(); !dialled) on_lost(dialled.error());
}

bool Endpoint::one_sided() const noexcept { return !verbs_.device().iwarp(); }

OneSidedQueue* Endpoint::one_sided_queue() noexcept {
  if (!one_sided()) return nullptr;
  if (queue_ == nullptr) queue_ = std::make_unique<OneSidedQueue>(verbs_, *this);
  return queue_->hopeless() ? nullptr : queue_.get();
}

void Endpoint::drop_one_sided_queue() noexcept {
  if (queue_ != nullptr) queue_->drop();
}

bool Endpoint::serve(CmId& id, const CmEvent& event, const wire::Request& request) noexcept {
  std::uint64_t number = 0;
  if (!is_genuine(session_, request, bytes_of(verbs_.parameters().id)) || !read_object(ByteSpan{request.nonce}, number))
    return false;
  if (number <= served_number_) return false;  // a replay
  served_number_ = number;
  served_.reset();
  Connection::Settings served = settings();
  served.shape = {1, 0};
  served.remote_access = true;
  wire::Reply reply{1, 0, fresh_nonce(), {}};
  sign(session_, reply, bytes_of(request));
  served_ = std::make_unique<Connection>(verbs_.device(), served, nullptr);
  const auto accepted = served_->accept(id, event.peer_reads, bytes_of(reply));
  if (!accepted) {
    log::warn("btl.verbs", "peer {}: no one-sided connection: {}", to_string(peer()),
              opal::to_string(accepted.error()));
    served_.reset();
  }
  return accepted.has_value();
}

bool Endpoint::superseded() noexcept {
  const std::uint64_t now = now_ns();
  if (superseded_ns_ == 0) superseded_ns_ = now;
  return now - superseded_ns_ > static_cast<std::uint64_t>(std::chrono::nanoseconds{kHandshakeTimeout}.count());
}

std::string Endpoint::describe() const {
  const std::string way = fmt::format("{} to {}", verbs_.device().name(),
                                      to_ == SocketAddress{} ? "a peer that connected to this side" : to_string(to_));
  if (searching()) return "connecting: " + way;
  if (state_ == State::ended) return fmt::format("ended ({}): {}", opal::to_string(error()), where_);
  return fmt::format("{}, MTU {}, {} messages to it and {} from it at a time{}", way,
                     connection_ != nullptr ? connection_->mtu() : 0, most_credits_, window_,
                     one_sided() ? "" : "; put and get as messages");
}

}  // namespace opal::btl::verbs
