// SPDX-License-Identifier: Apache-2.0
// The double within one process: entries that unlink themselves, flow control, full queues, waiting, threads.
#include <atomic>
#include <chrono>
#include <initializer_list>
#include <string>
#include <thread>
#include <vector>

#include "tests/portals4/test_side.hpp"

namespace opal::test::portals4 {
namespace {

constexpr unsigned kPut = PTL_ME_OP_PUT;

TEST(Portals4Entries, ManagedEntryIsFilledInOrderAndUnlinkedWhenLessThanMinFreeIsLeft) {
  const Side side;
  std::string memory(10, '.');
  ptl_me_t fields = Side::entry(memory.data(), memory.size(), kPut | PTL_ME_MANAGE_LOCAL);
  fields.min_free = 4;
  const ptl_handle_me_t entry = side.append(fields, memory.data());
  side.put("abc", 3, side.id, 0, 7);  // the initiator's offset is ignored
  side.put("def", 3, side.id);
  side.put("g", 1, side.id);
  side.put("h", 1, side.id);
  for (const unsigned offset : {0U, 3U, 6U}) {
    const ptl_event_t put = Side::next(side.target_queue);
    EXPECT_EQ(put.type, PTL_EVENT_PUT);
    EXPECT_EQ(put.start, memory.data() + offset);
  }
  const ptl_event_t unlinked = Side::next(side.target_queue);
  EXPECT_EQ(unlinked.type, PTL_EVENT_AUTO_UNLINK);
  EXPECT_EQ(unlinked.user_ptr, memory.data());
  EXPECT_EQ(unlinked.pt_index, side.portal);
  EXPECT_EQ(memory, "abcdefg...");
  int dropped = 0;
  for (int events = 0; events < 8; ++events) {
    const ptl_event_t event = Side::next(side.initiator_queue);
    if (event.ni_fail_type != PTL_NI_OK) ++dropped;
    if (event.type == PTL_EVENT_ACK && event.ni_fail_type == PTL_NI_OK) {
      EXPECT_EQ(event.remote_offset % 3, 0U);
    }
  }
  EXPECT_EQ(dropped, 1);
  EXPECT_EQ(PtlMEUnlink(entry), PTL_ARG_INVALID) << "it is gone";
}

TEST(Portals4Entries, EntryForOneUseIsUnlinkedByItsMessage) {
  const Side side;
  char byte = 0;
  ptl_me_t fields = Side::entry(&byte, 1, kPut | PTL_ME_USE_ONCE);
  fields.options &= ~unsigned{PTL_ME_EVENT_LINK_DISABLE};
  side.append(fields);
  side.expect_target(PTL_EVENT_LINK);
  fields.options |= PTL_ME_EVENT_LINK_DISABLE | PTL_ME_EVENT_UNLINK_DISABLE | PTL_ME_EVENT_COMM_DISABLE;
  side.append(fields);
  for (const auto result : std::initializer_list<ptl_ni_fail_t>{PTL_NI_OK, PTL_NI_OK, PTL_NI_DROPPED}) {
    side.put("x", 1, side.id);
    side.expect_acknowledged(result);
  }
  side.expect_target(PTL_EVENT_PUT);
  side.expect_target(PTL_EVENT_AUTO_UNLINK);
  Side::expect_empty(side.target_queue);
}

TEST(Portals4Flow, MessageWithoutAnEntryDisablesAFlowControlledPortalUntilItIsEnabled) {
  const Side side{PTL_PT_FLOWCTRL};
  char byte = 0;
  side.put("x", 1, side.id);
  side.expect_acknowledged(PTL_NI_PT_DISABLED);
  const ptl_event_t disabled = Side::next(side.target_queue);
  EXPECT_EQ(disabled.type, PTL_EVENT_PT_DISABLED);
  EXPECT_EQ(disabled.pt_index, side.portal);

  side.append(Side::entry(&byte, 1, kPut));
  side.put("y", 1, side.id);
  side.expect_acknowledged(PTL_NI_PT_DISABLED);
  Side::expect_empty(side.target_queue);
  EXPECT_EQ(PtlPTEnable(side.ni, side.portal), PTL_OK);
  side.put("z", 1, side.id);
  side.expect_acknowledged();
  side.expect_target(PTL_EVENT_PUT);
  EXPECT_EQ(byte, 'z');
}

TEST(Portals4Flow, PortalDisabledByTheProgramRefusesWithoutAnEvent) {
  const Side side;
  char byte = 0;
  side.append(Side::entry(&byte, 1, kPut));
  EXPECT_EQ(PtlPTDisable(side.ni, side.portal), PTL_OK);
  side.put("x", 1, side.id);
  side.expect_acknowledged(PTL_NI_PT_DISABLED);
  Side::expect_empty(side.target_queue);
}

TEST(Portals4Flow, FullQueueOfAFlowControlledPortalDisablesItAndLosesNothing) {
  const Side side{PTL_PT_FLOWCTRL, 2};
  char byte = 0;
  side.append(Side::entry(&byte, 1, kPut));
  for (int puts = 0; puts < 4; ++puts) {
    side.put("x", 1, side.id);
    side.expect_acknowledged(puts < 2 ? PTL_NI_OK : PTL_NI_PT_DISABLED);
  }
  side.expect_target(PTL_EVENT_PUT);
  side.expect_target(PTL_EVENT_PUT);
  side.expect_target(PTL_EVENT_PT_DISABLED, PTL_NI_PT_DISABLED);
  Side::expect_empty(side.target_queue);
}

TEST(Portals4Flow, FullQueueWithoutFlowControlLosesTheOldestEventsAndTellsSo) {
  const Side side{0, 2};
  char byte = 0;
  side.append(Side::entry(&byte, 1, kPut));
  for (ptl_hdr_data_t number = 0; number < 4; ++number) {
    side.put("x", 1, side.id, 0, 0, nullptr, number);
    side.expect_acknowledged();
  }
  ptl_event_t event{};
  EXPECT_EQ(PtlEQGet(side.target_queue, &event), PTL_EQ_DROPPED);
  EXPECT_EQ(event.hdr_data, 2U);
  EXPECT_EQ(PtlEQGet(side.target_queue, &event), PTL_OK);
  EXPECT_EQ(event.hdr_data, 3U);
  EXPECT_EQ(PtlEQGet(side.target_queue, &event), PTL_EQ_EMPTY);
}

TEST(Portals4Queues, PollWaitsForAnyQueueAndEndsAtItsTimeout) {
  const Side side;
  const ptl_handle_eq_t queues[] = {side.initiator_queue, side.target_queue};
  ptl_event_t event{};
  unsigned which = 7;
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(PtlEQPoll(queues, 2, 50, &event, &which), PTL_EQ_EMPTY);
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds{50});
  EXPECT_EQ(PtlEQPoll(queues, 2, 0, &event, &which), PTL_EQ_EMPTY);

  char byte = 0;
  side.append(Side::entry(&byte, 1, kPut));
  const ptl_handle_md_t silent = side.bind(PTL_MD_EVENT_SUCCESS_DISABLE);
  std::thread later{[&] {
    std::this_thread::sleep_for(std::chrono::milliseconds{20});
    EXPECT_EQ(PtlPut(silent, Side::at("x"), 1, PTL_ACK_REQ, side.id, side.portal, 0, 0, nullptr, 0), PTL_OK);
  }};
  EXPECT_EQ(PtlEQPoll(queues, 2, PTL_TIME_FOREVER, &event, &which), PTL_OK);
  EXPECT_EQ(which, 1U);
  later.join();
}

TEST(Portals4Queues, WaitIsInterruptedWhenTheQueueIsFreed) {
  const Side side;
  std::thread waiting{[&] {
    ptl_event_t event{};
    EXPECT_EQ(PtlEQWait(side.initiator_queue, &event), PTL_INTERRUPTED);
  }};
  std::this_thread::sleep_for(std::chrono::milliseconds{50});
  EXPECT_EQ(PtlEQFree(side.initiator_queue), PTL_OK);
  waiting.join();
  ptl_event_t event{};
  EXPECT_EQ(PtlEQGet(side.initiator_queue, &event), PTL_ARG_INVALID);
}

TEST(Portals4Threads, ConcurrentPutsAndUpdatesOfTheHostAllTakeEffect) {
  const Side side;
  constexpr int kThreads = 4;
  constexpr int kUpdates = 200;
  std::uint64_t sum = 0;
  const std::uint64_t one = 1;
  side.append(Side::entry(&sum, sizeof sum, kPut | PTL_ME_EVENT_COMM_DISABLE));
  const ptl_handle_md_t quiet = side.bind(PTL_MD_EVENT_SEND_DISABLE);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&] {
      for (int update = 0; update < kUpdates; ++update) {
        EXPECT_EQ(PtlAtomic(quiet, Side::at(&one), 8, PTL_ACK_REQ, side.id, side.portal, 0, 0, nullptr, 0, PTL_SUM,
                            PTL_UINT64_T),
                  PTL_OK);
        std::atomic_ref{sum}.fetch_add(1);
      }
    });
  }
  for (int events = 0; events < kThreads * kUpdates; ++events) side.expect_own(PTL_EVENT_ACK);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::atomic_ref{sum}.load(), std::uint64_t{2} * kThreads * kUpdates);
}

}  // namespace
}  // namespace opal::test::portals4
