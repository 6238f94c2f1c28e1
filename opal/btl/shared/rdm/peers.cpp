// SPDX-License-Identifier: Apache-2.0
// The transport's list of peers, and the handshake of an endpoint.  Runs inside connect() and progress().
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "opal/btl/shared/proofs.hpp"
#include "opal/btl/shared/rdm/transport.hpp"
#include "opal/core/clock.hpp"
#include "opal/core/log.hpp"
#include "opal/core/system/random.hpp"

namespace opal::btl::rdm {
namespace {

constexpr std::chrono::milliseconds kRepeat{500};  // until the next Hello; the network may have lost the first one
constexpr std::size_t kMostWaiting = 1024;         // Hellos that wait for the end of an older endpoint

/// A descriptor that becomes readable when the process ends; empty with errno if there is none.
Fd watch_process(std::uint32_t process) noexcept {
  return Fd{static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(process), 0))};
}

}  // namespace

// ---- A transport's peers -------------------------------------------------------------------------------------------

Result<std::unique_ptr<Endpoint>> Transport::make_endpoint(const PeerId& peer, const Address& address) {
  OPAL_TRY(check_network(address.head, address_.head));
  OPAL_TRY_ASSIGN(const std::uint64_t to, reach(address));
  std::uint32_t slot = 0;
  if (free_slots_.empty()) {
    slot = static_cast<std::uint32_t>(slots_.size());
    slots_.push_back(nullptr);
  } else {
    slot = free_slots_.back();
    free_slots_.pop_back();
  }
  auto made = std::make_unique<Endpoint>(*this, peer, address, to, slot);
  slots_[slot] = made.get();
  return made;
}

void Transport::release(std::uint32_t slot, Fd& process, std::uint32_t pending) noexcept {
  slots_[slot] = nullptr;
  free_slots_.push_back(slot);
  send_buffers_.replace(pending);
  if (process) waiting_.unwatch(process.get());
  process.reset();
}

Result<btl::Endpoint*> Transport::connect(const PeerId& peer, ByteSpan bytes) {
  OPAL_TRY_ASSIGN(const Address address, decode(bytes, address_.head.magic));
  if (address.head.id != peer) return Error{Errc::protocol, 0, "address: it is another peer's"};
  if (peer == parameters().id) return Error{Errc::unreachable, 0, "does not connect a module to itself"};
  if (Endpoint* known = find(peer); known != nullptr) {
    known->visible = true;
    return known;
  }
  OPAL_TRY_ASSIGN(auto created, make_endpoint(peer, address));
  created->visible = true;
  Endpoint& endpoint = add(std::move(created));
  endpoint.dial();
  return &endpoint;
}

void Transport::on_vacant(const PeerId& peer) noexcept {
  auto waiting = waiting_hellos_.extract(peer);
  if (!waiting.empty()) on_hello(waiting.mapped());
}

void Transport::drop_stray(const char* what) noexcept {
  if (strays_++ == 0) log::warn(log_name(), "dropped {}; later ones are dropped without a message", what);
  log::debug(log_name(), "dropped {}", what);
}

void Transport::on_hello(ByteSpan payload) noexcept {
  wire::Hello hello{};
  if (!read_object(payload, hello)) return drop_stray("a Hello that is too short");
  const ByteSpan blob = payload.subspan(sizeof hello);
  if (hello.version != wire::kWireVersion) return drop_stray("a Hello of another version of OPAL");
  const bool genuine = hello.address_size == blob.size() && is_genuine(key_, hello, bytes_of(parameters().id), blob);
  if (!genuine || hello.from == parameters().id) {
    return drop_stray("a Hello that does not prove that it belongs to this job");
  }
  const auto address = decode(blob, address_.head.magic);
  if (!address || address->head.id != hello.from) return drop_stray("a Hello with a bad address");
  if (hello.max_send != attributes().max_send || hello.window == 0) {
    return drop_stray("a Hello of a peer with another size of messages");
  }
  Endpoint* known = find(hello.from);
  if (known != nullptr && known->has_accepted(hello)) {  // the peer has repeated it
    if (known->state() == Endpoint::State::half_open) known->repeat_welcome(), known->resume();
    return;
  }
  if (known != nullptr && known->state() == Endpoint::State::dialing) {
    if (parameters().id < hello.from) return;  // a crossing: this side's attempt remains
    count_event();
    return known->accept(hello);
  }
  if (known != nullptr && known->state() == Endpoint::State::half_open && !known->visible) {
    known->end({Errc::peer_gone, 0, "the peer has started a new handshake"});
  }
  if (!vacant(hello.from)) {
    // Not end(): a goodbye tells the peer of it if the Hello is a replay.
    if (known != nullptr && known->superseded()) {
      known->break_off({Errc::peer_gone, ECONNRESET, "the peer has opened a new connection"});
    }
    if (waiting_hellos_.size() < kMostWaiting) waiting_hellos_[hello.from] = {payload.begin(), payload.end()};
    return;
  }
  auto created = make_endpoint(hello.from, *address);
  if (!created) {
    log::warn(log_name(), "peer {} is not accepted: {}", opal::to_string(hello.from), opal::to_string(created.error()));
    return;
  }
  count_event();
  add(std::move(*created)).accept(hello);
}

// ---- The handshake of an endpoint -------------------------------------------------------------------------------

Endpoint::Endpoint(Transport& transport, const PeerId& peer, Address address, std::uint64_t to, std::uint32_t slot)
    : btl::Endpoint(transport, peer),
      transport_(transport),
      address_(std::move(address)),
      to_(to),
      slot_(slot),
      key_(static_cast<std::uint32_t>(random_u64())),
      connector_key_(transport.parameters().secret.derive(wire::kConnectionKey, bytes_of(address_.head.token))) {
  const wire::AddressHead& own = transport.own_address().head;
  const bool other_process_here = address_.head.host == own.host && address_.head.process != own.process;
  if (!other_process_here || !transport.settings().watch_processes) return;
  process_ = watch_process(address_.head.process);
  if (process_) {
    if (!transport.waiting().watch(process_.get())) process_.reset();
  } else if (errno == ESRCH) {
    break_off({Errc::peer_gone, ESRCH, "the peer's process has ended"});
  }
}

void Endpoint::dial() noexcept {
  nonce_ = fresh_nonce();
  const ByteSpan blob = transport_.address();
  hello_ = {wire::kWireVersion,
            static_cast<std::uint16_t>(transport_.settings().window),
            static_cast<std::uint32_t>(transport_.attributes().max_send),
            slot_,
            key_,
            blob.size(),
            transport_.parameters().id,
            nonce_,
            {}};
  sign(connector_key_, hello_, bytes_of(peer()), blob);
  give_up_ns_ = transport_.time_after(transport_.settings().connect_timeout);
  send_hello();
}

void Endpoint::send_hello() noexcept {
  again_ns_ = transport_.time_after(kRepeat);
  hello_due_ = !send_control(wire::Kind::hello, bytes_of(hello_), transport_.address());
}

void Endpoint::accept(const wire::Hello& hello) noexcept {
  hello_due_ = false;
  peer_slot_ = hello.slot;
  peer_key_ = hello.key;
  nonce_ = hello.nonce;
  most_credits_ = hello.window;
  welcome_ = {slot_, key_, transport_.settings().window, fresh_nonce(), {}};
  sign(transport_.key(), welcome_, bytes_of(hello));
  session_ = session_key(transport_.key(), wire::kSessionKey, hello.nonce, welcome_.nonce);
  state_ = State::half_open;
  give_up_ns_ = transport_.time_after(transport_.settings().confirm_timeout);
  again_ns_ = transport_.time_after(transport_.settings().ping_interval);
  welcome_due_ = true;
  resume();
}

void Endpoint::on_welcome(ByteSpan payload) noexcept {
  wire::Welcome welcome{};
  if (state_ != State::dialing) return;  // repeated
  if (!read_object(payload, welcome) || !is_genuine(connector_key_, welcome, bytes_of(hello_)) || welcome.window == 0) {
    return transport_.drop_stray("a Welcome that does not prove that it belongs to this job");
  }
  hello_due_ = false;
  welcome_ = welcome;
  peer_slot_ = welcome.slot;
  peer_key_ = welcome.key;
  most_credits_ = static_cast<std::uint32_t>(std::min<std::uint64_t>(welcome.window, UINT8_MAX));
  session_ = session_key(connector_key_, wire::kSessionKey, nonce_, welcome.nonce);
  state_ = State::connected;
  again_ns_ = transport_.time_after(transport_.settings().ping_interval);
  confirm_due_ = true;
  resume();
  transport_.on_confirmed(*this);
}

void Endpoint::on_confirm(ByteSpan payload) noexcept {
  wire::Confirm confirm{};
  if (state_ != State::half_open) return;
  if (!read_object(payload, confirm) || !is_genuine(session_, confirm, bytes_of(welcome_))) {
    return transport_.drop_stray("a Confirm that does not prove that it belongs to this job");
  }
  welcome_due_ = false;
  most_credits_ = std::min<std::uint32_t>(most_credits_, UINT8_MAX);
  credits_ = most_credits_;
  state_ = State::connected;
  again_ns_ = transport_.time_after(transport_.settings().ping_interval);
  transport_.on_confirmed(*this);
}

}  // namespace opal::btl::rdm
