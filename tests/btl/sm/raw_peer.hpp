// SPDX-License-Identifier: Apache-2.0
// tests/btl/sm/raw_peer.hpp — a peer made of the transport's own parts, but one that writes into shared memory whatever
// a test wants: the broken neighbour from whom a module must protect itself and its other peers.
#pragma once
#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <cstring>
#include <memory>
#include <vector>

#include "opal/btl/sm/connections/link.hpp"
#include "tests/conformance/side.hpp"

namespace opal::btl::sm {

class RawPeer {
 public:
  /// Connects to `victim` properly; everything after that is up to the test.
  explicit RawPeer(test::Side& victim) : RawPeer(victim.id(), *Address::decode(victim.module().address())) {
    const std::size_t before = victim.accepted.size();  // what is there already may have been disconnected
    auto answer = say_hello();
    EXPECT_TRUE(answer) << to_string(answer.error());
    EXPECT_EQ(answer->hello.kind, HelloKind::accept);
    inbox_there = must(mpool::SharedPool::attach(answer->fds.inbox.get()));
    segment_there = must(mpool::SharedPool::attach(answer->fds.segment.get()));
    EXPECT_TRUE(local.complete(*link, 0, *answer));
    const auto find = [&] {
      for (std::size_t i = before; i < victim.accepted.size() && there == nullptr; ++i) {
        if (victim.accepted[i]->peer() == id) there = victim.accepted[i];
      }
      return there != nullptr;
    };
    EXPECT_TRUE(test::pump(find, victim));
  }

  /// Only opens the socket.
  RawPeer(const PeerId& victim, const Address& address)
      : inbox(must(Inbox::create(id, config.fifo_slots))),
        doorbell(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        registrations(must(RegistrationTable::create(64))),
        local(config, id, inbox.fd(), registrations, doorbell.get(), {}, KernelDevices::open({}), true),
        link(must(local.prepare(victim, 5))),
        segment(must(mpool::SharedPool::attach(link->out->fd()))),
        socket(must(connect_to(address.door, Deadline::after(std::chrono::seconds{5})))) {}

  /// The honest greeting.
  Result<ReceivedHello> say_hello() {
    OPAL_TRY(local.introduce(socket.get(), HelloKind::hello, *link));
    return receive_hello(socket.get(), Deadline::after(std::chrono::seconds{10}));
  }

  /// Header of our segment to the victim, and of the victim's segment to us.
  [[nodiscard]] wire::SegmentHeader& header() { return *reinterpret_cast<wire::SegmentHeader*>(segment.data()); }
  [[nodiscard]] wire::SegmentHeader& header_there() {
    return *reinterpret_cast<wire::SegmentHeader*>(segment_there.data());
  }
  [[nodiscard]] wire::InboxHeader& inbox_header() { return *reinterpret_cast<wire::InboxHeader*>(inbox_there.data()); }
  /// The slots of the victim's FIFO.
  [[nodiscard]] FifoSlots slots() {
    return {reinterpret_cast<std::atomic<std::uint64_t>*>(inbox_there.data() + sizeof(wire::InboxHeader)),
            inbox_header().slots};
  }

  /// Writes a fragment with this header and announces it.
  void push(wire::FragmentHeader fragment, ByteSpan data = {}) {
    const FragmentRef place = link->out->fragments().take(std::max<std::size_t>(data.size(), 64), false);
    ASSERT_TRUE(place);
    *place.header = fragment;
    copy_to(place.body(), data);
    link->out->fragments().sent(place);
    announce(place.line);
  }
  void announce(std::uint32_t line) { ASSERT_TRUE(link->inbox.fifo().push({link->index_there, line})); }
  /// An honest message.
  void send(Tag tag, ByteSpan data, std::uint32_t flags = 0) {
    push({static_cast<std::uint32_t>(data.size()), tag, seq++, 0, flags}, data);
  }

  template <class T>
  static T must(Result<T> result) {
    if (!result) {
      std::fprintf(stderr, "raw peer: %s\n", to_string(result.error()).c_str());
      std::abort();
    }
    return std::move(result).value();
  }

  PeerId id = PeerId::random();
  Config config;
  Inbox inbox;
  Fd doorbell;
  RegistrationTable registrations;
  LocalSide local;
  std::unique_ptr<Link> link;
  Mapping segment;        // of our own outgoing segment, to write into as we please
  Mapping inbox_there;    // the victim's inbox, all of it
  Mapping segment_there;  // the victim's segment to us
  Fd socket;
  std::uint16_t seq = 0;
  btl::Endpoint* there = nullptr;  // what we are to the victim
};

}  // namespace opal::btl::sm
