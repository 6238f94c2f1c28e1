// SPDX-License-Identifier: Apache-2.0
// What a peer may send on a connection of the out-of-band channel, notes and messages, while this side sends and its
// ways come and go: one byte says what happens, the next how long a piece is.  A piece is taken from the input, or is
// one that this side has sent itself, which looks right.  Nothing may crash, and what is delivered keeps the rules.
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <string>

#include "opal/am/context.hpp"
#include "runtime/oob/connection.hpp"

namespace {

namespace oob = runtime::oob;

/// A connection to itself: its base endpoint and its better one lead back here.
class End final : private oob::Upgrader {
 public:
  End() : base_(open()), upgrade_(open()) {
    (void)base_->set_handler(oob::kActiveMessageTag, opal::btl::bind<&End::on_sent>(*this, "fuzz, base"));
    (void)upgrade_->set_handler(oob::kActiveMessageTag, opal::btl::bind<&End::on_sent>(*this, "fuzz, better"));
    base_endpoint_ = *base_->connect(base_->address());
  }

  void run(opal::ByteSpan input) {
    for (const auto role : {oob::Connection::Role::asks, oob::Connection::Role::offers}) run(input, role);
  }

 private:
  static std::unique_ptr<opal::am::Context> open() {
    opal::config::Store store;
    store.set("am_transports", "self");
    return std::move(*opal::am::Context::open(store));
  }

  void run(opal::ByteSpan input, oob::Connection::Role role) {
    oob::Connection connection{*base_endpoint_, role, *this};
    oob::Assembler reference;
    sent_.clear();
    while (input.size() >= 2) {
      const auto what = std::to_integer<unsigned>(input[0]);
      const std::size_t length = std::min<std::size_t>(std::to_integer<std::size_t>(input[1]), input.size() - 2);
      const opal::ByteSpan content = input.subspan(2, length);
      input = input.subspan(2 + length);
      opal::am::Endpoint& from =
          (what & 8) != 0 && connection.upgrade() != nullptr ? *connection.upgrade() : *base_endpoint_;
      switch (what % 8) {
        case 0: feed(connection, reference, from, std::string{oob::as_text(content)}); break;
        case 1:
          if (!sent_.empty()) feed(connection, reference, from, sent_[what / 8 % sent_.size()]);
          break;
        case 2: (void)connection.stream().send(oob::Topic::user, std::string{oob::as_text(content)}); break;
        case 3: connection.step(); break;
        case 4: handshake(connection, content); break;
        case 5:
          if (oob::Note note; opal::read_object(content, note)) {
            oob::PieceHeader header{.topic = static_cast<std::uint16_t>(33 + what / 8 % 5)};
            feed(connection, reference, from,
                 std::string{oob::as_text(opal::bytes_of(header))} + std::string{oob::as_text(content)});
          }
          break;
        case 6:
          if (connection.upgrade() != nullptr && what > 200) connection.end();
          break;
        default: progress(); break;
      }
    }
    connection.end();
    progress();
  }

  /// What the connection makes of a message is what an assembler alone makes of it.
  static void feed(oob::Connection& connection, oob::Assembler& reference, opal::am::Endpoint& from,
                   const std::string& piece) {
    const auto message = connection.receive(from, oob::as_bytes(piece));
    const auto header = oob::read_header(oob::as_bytes(piece));
    if (!header || oob::is_note(oob::Topic{header->topic})) {
      if (message && *message != nullptr) std::abort();
      return;
    }
    if (!message) return;  // refused as a whole, also for what it acknowledges
    if (!connection.stream().is_for_this_incarnation(*header)) {
      if (message && *message != nullptr) std::abort();
      return;
    }
    const auto expected = reference.add(oob::as_bytes(piece));
    if (message && *message != nullptr) {
      if (!expected || *expected == nullptr) std::abort();
      if (oob::as_text((*message)->content) != oob::as_text((*expected)->content)) std::abort();
    }
  }

  void handshake(oob::Connection& connection, opal::ByteSpan content) {
    oob::Note note;
    if (!opal::read_object(content, note) || !connection.expects(note)) return;
    if (const auto endpoint = upgrade_->connect(upgrade_->address())) connection.on_upgrade_hello(**endpoint);
  }

  void progress() {
    while (base_->progress() + upgrade_->progress() != 0) {
    }
  }

  void on_sent(opal::btl::Delivery& delivery) noexcept {
    if (sent_.size() >= 64) sent_.pop_front();
    sent_.emplace_back(oob::as_text(delivery.data));
  }

  opal::ByteSpan upgrade_address() override { return upgrade_->address(); }
  opal::am::Endpoint* connect_upgrade(opal::ByteSpan address, const opal::am::Endpoint& /*base*/) override {
    const auto endpoint = upgrade_->connect(address);
    return endpoint ? *endpoint : nullptr;
  }
  void disconnect_upgrade(opal::am::Endpoint& endpoint) override { upgrade_->disconnect(endpoint); }

  std::unique_ptr<opal::am::Context> base_;
  std::unique_ptr<opal::am::Context> upgrade_;
  opal::am::Endpoint* base_endpoint_ = nullptr;
  std::deque<std::string> sent_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static End end;
  end.run(std::as_bytes(std::span{data, size}));
  return 0;
}
