// SPDX-License-Identifier: Apache-2.0
#include "runtime/oob/connection.hpp"

#include "opal/am/context.hpp"

namespace runtime::oob {

opal::am::Endpoint* connect_if_better(opal::am::Context& context, ByteSpan address, const opal::am::Endpoint& base) {
  const auto endpoint = context.connect(address);
  if (!endpoint) return nullptr;
  if ((*endpoint)->attributes().exclusivity > base.attributes().exclusivity) return *endpoint;
  context.disconnect(**endpoint);
  return nullptr;
}

Connection::Connection(opal::am::Endpoint& base, Role role, BetterWays& ways)
    : first_(base), ways_(ways), role_(role), stream_(base) {
  due_ += stream_.traffic();
}

Result<const Assembler::Message*> Connection::receive(opal::am::Endpoint& from, ByteSpan piece) {
  OPAL_TRY_ASSIGN(const PieceHeader header, read_header(piece));
  const Topic topic{header.topic};
  if (!is_note(topic) || topic == Topic::acknowledge) return stream_.receive(piece);
  OPAL_TRY(stream_.receive(piece));
  if (stream_.is_for_this_life(header)) OPAL_TRY(on_note(from, topic, piece.subspan(sizeof header)));
  return nullptr;
}

Result<void> Connection::on_note(opal::am::Endpoint& from, Topic topic, ByteSpan content) {
  Note note;
  if (!opal::read_object(content, note)) return Error{Errc::protocol, 0, "oob: note too short", content.size()};
  switch (topic) {
    case Topic::want:
      // Both ask when they have connected to each other at the same time.
      if (role_ == Role::asks && first_.context().id() < first_.peer()) return {};
      if (note.generation <= generation_ && role_ == Role::offers) {
        return Error{Errc::protocol, 0, "oob: a better way is wanted again", note.generation};
      }
      role_ = Role::offers;
      generation_ = note.generation;
      dropped_ = better_ != nullptr;
      asked_ = true;
      return {};
    case Topic::offer:
      if (state_ == State::wanted && note.generation == generation_) {
        token_ = note.token;
        offer_ = as_text(content.subspan(sizeof note));
        if (offer_.empty()) state_ = State::none;
      }
      return {};
    case Topic::greeted:
      if (state_ == State::greeting && &from == better_ && note.generation == generation_) {
        state_ = State::up;
        stream_.open_better(*better_);
      }
      return {};
    case Topic::drop:
      if (note.generation != generation_) return {};
      dropped_ = dropped_ || better_ != nullptr;
      if (state_ == State::offered) state_ = State::none;  // its greeting may still come: nobody is there any more
      return {};
    default: return Error{Errc::protocol, 0, "oob: a greeting at a wrong place"};
  }
}

bool Connection::expects(const Note& note) const noexcept {
  return state_ == State::offered && note.generation == generation_ && note.token == token_;
}

void Connection::on_greeting(opal::am::Endpoint& better) {
  better_ = &better;
  state_ = State::up;
  post(better, Topic::greeted);
  stream_.open_better(better);
}

bool Connection::worthwhile() const noexcept {
  return role_ == Role::asks && state_ == State::none && stream_.base() != nullptr && generation_ < kAttempts &&
         stream_.traffic() >= due_;
}

bool Connection::needs_step() const noexcept {
  return dropped_ || asked_ || !offer_.empty() || worthwhile() || (better_ != nullptr && better_->dead()) ||
         (stream_.base() != nullptr && first_.dead()) || !alive();
}

void Connection::step() {
  if (stream_.base() != nullptr && first_.dead()) stream_.close(first_);
  if (better_ != nullptr && (dropped_ || better_->dead())) lose();
  dropped_ = false;
  if (asked_) answer_want();
  if (!offer_.empty()) greet();
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
  const ByteSpan address = ways_.better_address();
  const bool fits = sizeof(PieceHeader) + sizeof(Note) + address.size() <= first_.attributes().max_send;
  token_ = opal::PeerId::random().low;
  state_ = address.empty() || !fits ? State::none : State::offered;
  post(first_, Topic::offer, state_ == State::offered ? address : ByteSpan{});
}

void Connection::greet() {
  const std::string address = std::exchange(offer_, {});
  better_ = ways_.connect_better(as_bytes(address), first_);
  if (better_ == nullptr) {
    generation_ = kAttempts;  // what does not reach it now never will
    state_ = State::none;
    return;
  }
  state_ = State::greeting;
  post(*better_, Topic::greet);
}

/// The better way is over, whoever has found out: the other side is told, since it may not see it.
void Connection::lose() {
  opal::am::Endpoint& over = *std::exchange(better_, nullptr);
  stream_.close(over);
  if (stream_.base() != nullptr && !dropped_) post(first_, Topic::drop);
  ways_.disconnect_better(over);
  state_ = State::none;
}

void Connection::end() {
  stream_.stay();
  if (better_ != nullptr) ways_.disconnect_better(*std::exchange(better_, nullptr));
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
