// SPDX-License-Identifier: Apache-2.0
#include "runtime/oob/connection.hpp"

#include "opal/am/context.hpp"
#include "opal/core/system/random.hpp"

namespace runtime::oob {

Connection::Connection(opal::am::Endpoint& base, Role role, Upgrader& upgrader)
    : first_(base), upgrader_(upgrader), role_(role), stream_(base) {
  due_ += stream_.traffic();
}

Result<const Assembler::Message*> Connection::receive(opal::am::Endpoint& from, ByteSpan piece) {
  OPAL_TRY_ASSIGN(const PieceHeader header, read_header(piece));
  const Topic topic{header.topic};
  if (!is_note(topic) || topic == Topic::acknowledge) return stream_.receive(piece);
  OPAL_TRY(stream_.receive(piece));
  if (stream_.is_for_this_incarnation(header)) OPAL_TRY(on_note(from, topic, piece.subspan(sizeof header)));
  return nullptr;
}

Result<void> Connection::on_note(opal::am::Endpoint& from, Topic topic, ByteSpan content) {
  Note note;
  if (!opal::read_object(content, note)) return Error{Errc::protocol, 0, "oob: note too short", content.size()};
  switch (topic) {
    case Topic::want:
      // Both sides have connected at the same time, and both send want: only that of the lower PeerId is answered.
      if (role_ == Role::asks && first_.context().id() < first_.peer()) return {};
      if (note.generation <= generation_ && role_ == Role::offers) {
        return Error{Errc::protocol, 0, "oob: a transport upgrade is wanted again", note.generation};
      }
      role_ = Role::offers;
      generation_ = note.generation;
      dropped_ = upgrade_ != nullptr;
      asked_ = true;
      return {};
    case Topic::offer:
      if (state_ == State::wanted && note.generation == generation_) {
        token_ = note.token;
        offer_ = as_text(content.subspan(sizeof note));
        if (offer_.empty()) state_ = State::none;
      }
      return {};
    case Topic::upgrade_ready:
      if (state_ == State::confirming && &from == upgrade_ && note.generation == generation_) {
        state_ = State::up;
        stream_.open_upgrade(*upgrade_);
      }
      return {};
    case Topic::drop:
      if (note.generation != generation_) return {};
      dropped_ = dropped_ || upgrade_ != nullptr;
      if (state_ == State::offered) state_ = State::none;  // its upgrade_hello may still come, and is not expected
      return {};
    default: return Error{Errc::protocol, 0, "oob: an upgrade_hello that was not expected"};
  }
}

bool Connection::expects(const Note& note) const noexcept {
  return state_ == State::offered && note.generation == generation_ && note.token == token_;
}

void Connection::on_upgrade_hello(opal::am::Endpoint& upgrade) {
  upgrade_ = &upgrade;
  state_ = State::up;
  post(upgrade, Topic::upgrade_ready);
  stream_.open_upgrade(upgrade);
}

bool Connection::worthwhile() const noexcept {
  return role_ == Role::asks && state_ == State::none && stream_.base() != nullptr && generation_ < kAttempts &&
         stream_.traffic() >= due_;
}

bool Connection::needs_step() const noexcept {
  return dropped_ || asked_ || !offer_.empty() || worthwhile() || (upgrade_ != nullptr && upgrade_->dead()) ||
         (stream_.base() != nullptr && first_.dead()) || !alive();
}

void Connection::step() {
  if (stream_.base() != nullptr && first_.dead()) stream_.close(first_);
  if (upgrade_ != nullptr && (dropped_ || upgrade_->dead())) lose();
  dropped_ = false;
  if (asked_) answer_want();
  if (!offer_.empty()) send_hello();
  if (worthwhile()) want();
}

/// The next attempt comes after eight times as many messages as this one.
void Connection::want() {
  ++generation_;
  due_ = stream_.traffic() + (kWorthwhile << (3 * generation_));
  state_ = State::wanted;
  post(first_, Topic::want);
}

void Connection::answer_want() {
  asked_ = false;
  const ByteSpan address = upgrader_.upgrade_address();
  const bool fits = sizeof(PieceHeader) + sizeof(Note) + address.size() <= first_.attributes().max_send;
  token_ = opal::random_u64();
  state_ = address.empty() || !fits ? State::none : State::offered;
  post(first_, Topic::offer, state_ == State::offered ? address : ByteSpan{});
}

void Connection::send_hello() {
  const std::string address = std::exchange(offer_, {});
  upgrade_ = upgrader_.connect_upgrade(as_bytes(address), first_);
  if (upgrade_ == nullptr) {
    generation_ = kAttempts;  // what does not reach it now never will
    state_ = State::none;
    return;
  }
  state_ = State::confirming;
  post(*upgrade_, Topic::upgrade_hello);
}

/// Ends the transport upgrade here and sends drop, since the peer may not see the end of its endpoint.
void Connection::lose() {
  opal::am::Endpoint& over = *std::exchange(upgrade_, nullptr);
  stream_.close(over);
  if (stream_.base() != nullptr && !dropped_) post(first_, Topic::drop);
  upgrader_.disconnect_upgrade(over);
  state_ = State::none;
}

void Connection::end() {
  stream_.cancel_change();
  if (upgrade_ != nullptr) upgrader_.disconnect_upgrade(*std::exchange(upgrade_, nullptr));
  state_ = State::none;
  asked_ = dropped_ = false;
  offer_.clear();
  generation_ = kAttempts;
}

void Connection::post(opal::am::Endpoint& to, Topic topic, ByteSpan rest) {
  const Note note{.generation = generation_, .token = token_};
  PieceHeader header = stream_.header(topic);
  header.total = static_cast<std::uint32_t>(sizeof note + rest.size());
  std::string content{as_text(opal::bytes_of(note))};
  content += as_text(rest);
  (void)to.send_or_queue(kActiveMessageTag, opal::bytes_of(header), as_bytes(content));  // fails when `to` has died
}

}  // namespace runtime::oob
