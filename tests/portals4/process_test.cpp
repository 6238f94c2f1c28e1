// SPDX-License-Identifier: Apache-2.0
// The double between processes: order, death of either side, fork, and a peer that does not keep to the format.
#include <sys/socket.h>

#include <chrono>
#include <cstdlib>
#include <numeric>
#include <thread>
#include <vector>

#include "opal/core/sanitizer.hpp"
#include "tests/portals4/descriptor.hpp"
#include "tests/portals4/test_side.hpp"
#include "tests/portals4/wire.hpp"

namespace opal::test::portals4 {
namespace {

constexpr unsigned kBoth = PTL_ME_OP_PUT | PTL_ME_OP_GET;

/// A target with one entry over `words`, passive until its parent closes the pipe.
void serve(Child& self, std::size_t words) {
  std::vector<std::uint64_t> memory(words);
  std::iota(memory.begin(), memory.end(), 100U);
  const Side side;
  side.append(Side::entry(memory.data(), memory.size() * 8, kBoth));
  self.tell(side.id);
  self.wait_for_end();
}

TEST(Portals4Processes, PassiveTargetServesAllOperations) {
  Child target{[](Child& self) { serve(self, 4); }};
  const Side side;
  const auto id = target.hear<ptl_process_t>();
  std::uint64_t value = 7;
  std::uint64_t result = 0;
  side.put(&value, 8, id, 0, 8);
  EXPECT_EQ(PtlAtomic(side.memory, Side::at(&value), 8, PTL_ACK_REQ, id, side.portal, 0, 8, nullptr, 0, PTL_SUM,
                      PTL_UINT64_T),
            PTL_OK);
  side.get(&result, 8, id, 0, 8);
  int events[16] = {};
  for (int count = 0; count < 5; ++count) ++events[Side::next(side.initiator_queue).type];
  EXPECT_EQ(events[PTL_EVENT_SEND], 2);
  EXPECT_EQ(events[PTL_EVENT_ACK], 2);
  EXPECT_EQ(events[PTL_EVENT_REPLY], 1);
  EXPECT_EQ(result, 14U);
  EXPECT_EQ(PtlSwap(side.memory, Side::at(&result), side.memory, Side::at(&value), 8, id, side.portal, 0, 0, nullptr, 0,
                    nullptr, PTL_SWAP, PTL_UINT64_T),
            PTL_OK);
  side.expect_own(PTL_EVENT_SEND);
  side.expect_own(PTL_EVENT_REPLY);
  EXPECT_EQ(result, 100U);
}

TEST(Portals4Processes, MessagesOfBothDirectionsKeepTheirOrder) {
  constexpr std::uint64_t kMessages = 500;
  const auto exchange = [](const Side& side, ptl_process_t peer) {
    std::vector<std::uint64_t> sent(kMessages);
    std::iota(sent.begin(), sent.end(), 0U);
    for (const std::uint64_t& value : sent) side.put(&value, 8, peer, 0, 0, nullptr, value);
    for (std::uint64_t number = 0; number < kMessages; ++number) {
      const ptl_event_t put = Side::next(side.target_queue);
      EXPECT_EQ(put.hdr_data, number);
      EXPECT_EQ(put.initiator.phys.pid, peer.phys.pid);
      EXPECT_EQ(*static_cast<const std::uint64_t*>(put.start), number);
    }
    for (std::uint64_t events = 0; events < 2 * kMessages; ++events) Side::next(side.initiator_queue);
  };
  const auto run = [&](Child& other) {
    std::vector<std::uint64_t> memory(kMessages);
    const Side side{0, 2 * kMessages};
    side.append(Side::entry(memory.data(), kMessages * 8, PTL_ME_OP_PUT | PTL_ME_MANAGE_LOCAL));
    other.tell(side.id);
    exchange(side, other.hear<ptl_process_t>());
    other.tell(1);  // the peer has its answers
    other.hear<int>();
  };
  Child child{run};
  run(child);
}

TEST(Portals4Processes, DeathOfTheTargetEndsAllOperationsInFlightAndLater) {
  constexpr std::size_t kWords = std::size_t{4} << 20;
  Child target{[](Child& self) { serve(self, kWords); }};
  const Side side;
  const auto id = target.hear<ptl_process_t>();
  std::vector<std::uint64_t> data(kWords);
  std::uint64_t result = 0;
  side.get(&result, 8, id);
  side.expect_own(PTL_EVENT_REPLY);

  target.stop();
  side.put(data.data(), 8, id);           // fits into the socket: sent, and never answered
  side.put(data.data(), kWords * 8, id);  // does not fit
  side.get(data.data(), kWords * 8, id);
  EXPECT_EQ(PtlPut(side.memory, Side::at(data.data()), 8, PTL_NO_ACK_REQ, id, side.portal, 0, 0, nullptr, 0), PTL_OK);
  side.expect_own(PTL_EVENT_SEND);
  Side::expect_empty(side.initiator_queue);
  EXPECT_EQ(PtlMDRelease(side.memory), PTL_IN_USE);
  target.kill();
  side.expect_own(PTL_EVENT_ACK, PTL_NI_UNDELIVERABLE);
  side.expect_own(PTL_EVENT_SEND, PTL_NI_UNDELIVERABLE);
  side.expect_own(PTL_EVENT_ACK, PTL_NI_UNDELIVERABLE);
  side.expect_own(PTL_EVENT_REPLY, PTL_NI_UNDELIVERABLE);
  side.expect_own(PTL_EVENT_SEND, PTL_NI_UNDELIVERABLE);

  side.put(data.data(), 8, id);
  side.expect_own(PTL_EVENT_SEND, PTL_NI_UNDELIVERABLE);
  side.expect_own(PTL_EVENT_ACK, PTL_NI_UNDELIVERABLE);
  side.get(data.data(), 8, id);
  side.expect_own(PTL_EVENT_REPLY, PTL_NI_UNDELIVERABLE);
  Side::expect_empty(side.initiator_queue);
  EXPECT_EQ(PtlMDRelease(side.memory), PTL_OK);
}

TEST(Portals4Processes, TargetKilledAmidTransfersHurtsNothingElse) {
  constexpr std::size_t kWords = std::size_t{2} << 20;
  Child victim{[](Child& self) { serve(self, kWords); }};
  Child survivor{[](Child& self) { serve(self, kWords); }};
  const Side side;
  const auto dying = victim.hear<ptl_process_t>();
  const auto living = survivor.hear<ptl_process_t>();
  std::vector<std::uint64_t> data(kWords);
  std::vector<std::uint64_t> read(kWords);
  for (int rounds = 0; rounds < 20; ++rounds) {
    side.put(data.data(), kWords * 8, dying);
    side.get(read.data(), kWords * 8, dying);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds{20});
  victim.kill();
  for (int events = 0; events < 60; ++events) Side::next(side.initiator_queue);
  Side::expect_empty(side.initiator_queue);
  side.get(read.data(), kWords * 8, living);
  side.expect_own(PTL_EVENT_REPLY);
  EXPECT_EQ(read.back(), 100 + kWords - 1);
}

TEST(Portals4Processes, InitiatorThatDiesAmidAPutLeavesAFailedEventAndNoEntryInUse) {
  const Side side;
  std::vector<char> memory(1 << 20);
  const ptl_handle_me_t entry = side.append(Side::entry(memory.data(), memory.size(), PTL_ME_OP_PUT | PTL_ME_USE_ONCE));
  {
    Descriptor socket = Descriptor::stream_socket();
    ASSERT_EQ(connect_to(socket, side.id.phys.pid), Transfer::complete);
    wire::Request request;
    request.pt_index = side.portal;
    request.length = memory.size();
    std::size_t done = 0;
    const std::byte part[100] = {};
    ASSERT_EQ(send(socket, reinterpret_cast<const std::byte*>(&request), sizeof request, part, sizeof part, done),
              Transfer::complete);
    // A get is a violation as long as the entry is linked.
    char unused = 0;
    do {
      side.get(&unused, 1, side.id);
    } while (Side::next(side.initiator_queue).ni_fail_type == PTL_NI_OP_VIOLATION);
    EXPECT_EQ(PtlMEUnlink(entry), PTL_IN_USE);
  }
  side.expect_target(PTL_EVENT_PUT, PTL_NI_UNDELIVERABLE);
  side.expect_target(PTL_EVENT_AUTO_UNLINK);
  EXPECT_EQ(PtlMEUnlink(entry), PTL_ARG_INVALID);
}

TEST(Portals4Processes, PeerThatDoesNotKeepToTheFormatIsCutOff) {
  const Side side;
  char byte = 0;
  side.append(Side::entry(&byte, 1, kBoth));
  wire::Request good;
  good.pt_index = side.portal;
  std::vector<wire::Request> bad(5, good);
  bad[0].magic = 0;
  bad[1].kind = static_cast<wire::Kind>(9);
  bad[2].length = wire::kMaxLength + 1;
  bad[3].kind = wire::Kind::atomic;
  bad[3].datatype = 200;
  bad[4].kind = wire::Kind::atomic;
  bad[4].datatype = PTL_INT64_T;
  bad[4].operation = PTL_SUM;
  bad[4].length = wire::kMaxAtomicLength + 8;
  for (const wire::Request& request : bad) {
    Descriptor socket = Descriptor::stream_socket();
    ASSERT_EQ(connect_to(socket, side.id.phys.pid), Transfer::complete);
    std::size_t done = 0;
    send(socket, reinterpret_cast<const std::byte*>(&request), sizeof request, nullptr, 0, done);
    std::byte answer{};
    Transfer result = Transfer::again;
    for (done = 0; result == Transfer::again; std::this_thread::yield()) result = receive(socket, &answer, 1, done);
    EXPECT_EQ(result, Transfer::ended);
  }
  side.put("x", 1, side.id);
  side.expect_acknowledged();
}

TEST(Portals4Processes, MemoryThatIsNotAccessibleFailsTheOperationOnly) {
  const Side side;
  std::vector<char> data(1 << 20);
  side.append(Side::entry(nullptr, data.size(), PTL_ME_OP_PUT, 1));
  side.append(Side::entry(data.data(), data.size(), kBoth, 2));
  side.put(data.data(), data.size(), side.id, 1);
  side.expect_acknowledged(PTL_NI_SEGV);
  side.get(nullptr, data.size(), side.id, 2);
  side.expect_own(PTL_EVENT_REPLY, PTL_NI_SEGV);
  side.put(data.data(), data.size(), side.id, 2);
  side.expect_acknowledged();
}

#if !OPAL_THREAD_SANITIZER  // it has no threads in the child of a process with threads
TEST(Portals4Fork, ChildStartsAnewAndTheParentGoesOn) {
  const Side side;
  char byte = 0;
  side.append(Side::entry(&byte, 1, kBoth));
  side.put("x", 1, side.id);
  side.expect_acknowledged();
  {
    Child child{[&](Child&) {
      ptl_event_t event{};
      EXPECT_EQ(PtlEQGet(side.target_queue, &event), PTL_NO_INIT);
      char own = 0;
      const Side anew;
      EXPECT_EQ(anew.id.phys.pid, static_cast<ptl_pid_t>(::getpid()));
      anew.append(Side::entry(&own, 1, kBoth));
      anew.put("y", 1, anew.id);
      anew.expect_acknowledged();
      EXPECT_EQ(own, 'y');
      anew.put("z", 1, side.id);
      anew.expect_acknowledged();
    }};
  }
  side.expect_target(PTL_EVENT_PUT);
  side.expect_target(PTL_EVENT_PUT);
  EXPECT_EQ(byte, 'z');
}
#endif

TEST(Portals4Fork, ChildDoesNotHideTheDeathOfItsParent) {
  Child target{[](Child& self) {
    char byte = 0;
    const Side side;
    side.append(Side::entry(&byte, 1, kBoth));
    self.tell(side.id);
    self.hear<int>();  // the initiator is connected
    if (::fork() == 0) {
      self.tell(::getpid());  // fork() has returned here, so the descriptors are closed
      ::alarm(60);
      ::pause();
    }
    self.wait_for_end();
  }};
  const Side side;
  const auto id = target.hear<ptl_process_t>();
  side.put("x", 1, id);
  side.expect_acknowledged();
  target.tell(1);
  const auto grandchild = target.hear<pid_t>();
  target.kill();
  side.put("x", 1, id);
  side.expect_own(PTL_EVENT_SEND, PTL_NI_UNDELIVERABLE);
  side.expect_own(PTL_EVENT_ACK, PTL_NI_UNDELIVERABLE);
  EXPECT_EQ(::kill(grandchild, SIGKILL), 0);
}

TEST(Portals4Fork, ProcessMayExitWithoutPtlFini) {
  Child child{[](Child&) {
    static const Side* const side = new Side;
    side->put("x", 1, side->id);
    std::exit(0);  // destructors run beside the progress thread
  }};
}

}  // namespace
}  // namespace opal::test::portals4
