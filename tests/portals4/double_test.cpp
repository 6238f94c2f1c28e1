// SPDX-License-Identifier: Apache-2.0
// The double within one process: initialization, movement of data, matching, atomics.
#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "tests/portals4/test_side.hpp"

namespace opal::test::portals4 {
namespace {

constexpr unsigned kPut = PTL_ME_OP_PUT;
constexpr unsigned kBoth = PTL_ME_OP_PUT | PTL_ME_OP_GET;

TEST(Portals4Interface, NothingWorksBeforeTheInitialization) {
  ptl_handle_ni_t ni = 0;
  ptl_handle_eq_t queue = 0;
  ptl_event_t event;
  EXPECT_EQ(PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_MATCHING | PTL_NI_PHYSICAL, PTL_PID_ANY, nullptr, nullptr, &ni),
            PTL_NO_INIT);
  EXPECT_EQ(PtlEQAlloc(ni, 1, &queue), PTL_NO_INIT);
  EXPECT_EQ(PtlEQGet(queue, &event), PTL_NO_INIT);
  EXPECT_EQ(PtlAtomicSync(), PTL_NO_INIT);
}

TEST(Portals4Interface, SecondInitializationReturnsTheSameInterface) {
  const Side side;
  {
    const Side second;
    EXPECT_EQ(second.ni, side.ni);
    EXPECT_NE(second.portal, side.portal);
  }
  ptl_process_t id{};
  EXPECT_EQ(PtlGetPhysId(side.ni, &id), PTL_OK);
  EXPECT_EQ(id.phys.nid, 1U);
  EXPECT_EQ(id.phys.pid, static_cast<ptl_pid_t>(::getpid()));
  ptl_uid_t uid = 0;
  EXPECT_EQ(PtlGetUid(side.ni, &uid), PTL_OK);
  EXPECT_EQ(uid, ::getuid());
}

TEST(Portals4Interface, OnlyMatchingPhysicalInterfacesExist) {
  const Side side;
  ptl_handle_ni_t ni = 0;
  for (const int options : {PTL_NI_MATCHING | PTL_NI_LOGICAL, PTL_NI_NO_MATCHING | PTL_NI_PHYSICAL, 0}) {
    EXPECT_EQ(PtlNIInit(PTL_IFACE_DEFAULT, static_cast<unsigned>(options), PTL_PID_ANY, nullptr, nullptr, &ni),
              PTL_ARG_INVALID);
  }
}

TEST(Portals4Interface, EnvironmentSetsTheLimits) {
  ::setenv("OPAL_PORTALS4_DOUBLE_MAX_ENTRIES", "2", 1);
  ::setenv("OPAL_PORTALS4_DOUBLE_MAX_MESSAGE", "100", 1);
  ::setenv("OPAL_PORTALS4_DOUBLE_NO_ATOMICS", "1", 1);
  {
    const Side side;
    EXPECT_EQ(side.limits.max_entries, 2);
    EXPECT_EQ(side.limits.max_list_size, 2);
    EXPECT_EQ(side.limits.max_msg_size, 100U);
    EXPECT_EQ(side.limits.features & PTL_COHERENT_ATOMICS, 0U);
    char bytes[200] = {};
    const ptl_me_t fields = Side::entry(bytes, 1, kPut);
    const ptl_handle_me_t first = side.append(fields);
    side.append(fields);
    ptl_handle_me_t refused = 0;
    EXPECT_EQ(PtlMEAppend(side.ni, side.portal, &fields, PTL_PRIORITY_LIST, nullptr, &refused), PTL_LIST_TOO_LONG);
    ptl_pt_index_t other = 0;
    EXPECT_EQ(PtlPTAlloc(side.ni, 0, PTL_EQ_NONE, PTL_PT_ANY, &other), PTL_OK);
    EXPECT_EQ(PtlMEAppend(side.ni, other, &fields, PTL_PRIORITY_LIST, nullptr, &refused), PTL_NO_SPACE);
    EXPECT_EQ(PtlMEUnlink(first), PTL_OK);
    EXPECT_EQ(PtlMEUnlink(first), PTL_ARG_INVALID);
    side.append(fields);
    EXPECT_EQ(PtlPut(side.memory, Side::at(bytes), 101, PTL_ACK_REQ, side.id, 0, 0, 0, nullptr, 0), PTL_ARG_INVALID);
    EXPECT_EQ(PtlGet(side.memory, Side::at(bytes), 101, side.id, 0, 0, 0, nullptr), PTL_ARG_INVALID);
  }
  ::unsetenv("OPAL_PORTALS4_DOUBLE_MAX_ENTRIES");
  ::unsetenv("OPAL_PORTALS4_DOUBLE_MAX_MESSAGE");
  ::unsetenv("OPAL_PORTALS4_DOUBLE_NO_ATOMICS");
  const Side side;
  EXPECT_EQ(side.limits.max_entries, 4096);
  EXPECT_NE(side.limits.features & PTL_COHERENT_ATOMICS, 0U);
}

TEST(Portals4Move, PutArrivesWithItsEventsAndIsAcknowledged) {
  const Side side;
  std::string memory(32, '.');
  const std::string text = "hello";
  int cookie = 0;
  side.append(Side::entry(memory.data(), memory.size(), kPut, 7), &cookie);
  side.put(text.data(), text.size(), side.id, 7, 3, memory.data(), 99);

  const ptl_event_t put = Side::next(side.target_queue);
  EXPECT_EQ(put.type, PTL_EVENT_PUT);
  EXPECT_EQ(put.ni_fail_type, PTL_NI_OK);
  EXPECT_EQ(put.start, memory.data() + 3);
  EXPECT_EQ(put.user_ptr, &cookie);
  EXPECT_EQ(put.hdr_data, 99U);
  EXPECT_EQ(put.match_bits, 7U);
  EXPECT_EQ(put.rlength, 5U);
  EXPECT_EQ(put.mlength, 5U);
  EXPECT_EQ(put.remote_offset, 3U);
  EXPECT_EQ(put.initiator.phys.pid, side.id.phys.pid);
  EXPECT_EQ(put.pt_index, side.portal);
  EXPECT_EQ(memory.substr(0, 9), "...hello.");

  side.expect_own(PTL_EVENT_SEND);
  const ptl_event_t acknowledged = Side::next(side.initiator_queue);
  EXPECT_EQ(acknowledged.type, PTL_EVENT_ACK);
  EXPECT_EQ(acknowledged.user_ptr, memory.data());
  EXPECT_EQ(acknowledged.mlength, 5U);
  EXPECT_EQ(acknowledged.remote_offset, 3U);
}

TEST(Portals4Move, GetReadsTheEntryAndIsTruncatedAtItsEnd) {
  const Side side;
  std::string memory = "0123456789";
  std::string result(8, '.');
  side.append(Side::entry(memory.data(), memory.size(), PTL_ME_OP_GET));
  side.get(result.data(), result.size(), side.id, 0, 6);
  const ptl_event_t reply = Side::next(side.initiator_queue);
  EXPECT_EQ(reply.type, PTL_EVENT_REPLY);
  EXPECT_EQ(reply.mlength, 4U);
  EXPECT_EQ(reply.user_ptr, result.data());
  EXPECT_EQ(result, "6789....");
  const ptl_event_t read = Side::next(side.target_queue);
  EXPECT_EQ(read.type, PTL_EVENT_GET);
  EXPECT_EQ(read.rlength, 8U);
  EXPECT_EQ(read.mlength, 4U);
}

TEST(Portals4Move, SixtyFourMebibytesMoveInOneOperation) {
  const Side side;
  std::vector<std::uint32_t> from(std::size_t{16} << 20);
  std::iota(from.begin(), from.end(), 1U);
  std::vector<std::uint32_t> memory(from.size());
  std::vector<std::uint32_t> back(from.size());
  side.append(Side::entry(memory.data(), memory.size() * 4, kBoth));
  side.put(from.data(), from.size() * 4, side.id);
  side.get(back.data(), back.size() * 4, side.id);
  side.expect_own(PTL_EVENT_SEND);
  side.expect_own(PTL_EVENT_ACK);
  side.expect_own(PTL_EVENT_REPLY);
  EXPECT_EQ(memory, from);
  EXPECT_EQ(back, from);
}

TEST(Portals4Move, DescriptorOptionsSuppressEvents) {
  const Side side;
  char bytes[2] = {};
  side.append(Side::entry(bytes, 2, kPut));
  const ptl_handle_md_t no_send = side.bind(PTL_MD_EVENT_SEND_DISABLE);
  const ptl_handle_md_t no_success = side.bind(PTL_MD_EVENT_SUCCESS_DISABLE);
  const ptl_pt_index_t nowhere = 60;
  EXPECT_EQ(PtlPut(no_success, Side::at(bytes), 1, PTL_ACK_REQ, side.id, side.portal, 0, 1, nullptr, 0), PTL_OK);
  EXPECT_EQ(PtlPut(no_success, Side::at(bytes), 1, PTL_ACK_REQ, side.id, nowhere, 0, 1, nullptr, 0), PTL_OK);
  EXPECT_EQ(PtlPut(no_send, Side::at(bytes), 1, PTL_ACK_REQ, side.id, side.portal, 0, 1, nullptr, 0), PTL_OK);
  EXPECT_EQ(PtlPut(side.memory, Side::at(bytes), 1, PTL_NO_ACK_REQ, side.id, side.portal, 0, 1, nullptr, 0), PTL_OK);
  for (int events = 0; events < 3; ++events) side.expect_target(PTL_EVENT_PUT);
  // The last put is sent before the target answers the first.
  std::multiset<int> types;
  for (int events = 0; events < 3; ++events) types.insert(Side::next(side.initiator_queue).type);
  EXPECT_EQ(types, (std::multiset<int>{PTL_EVENT_SEND, PTL_EVENT_ACK, PTL_EVENT_ACK}));
  EXPECT_EQ(PtlMDRelease(no_send), PTL_OK) << "no operation is pending after its last event";
  EXPECT_EQ(PtlMDRelease(no_send), PTL_ARG_INVALID);
}

TEST(Portals4Move, WrongArgumentsAreRefused) {
  const Side side;
  char bytes[8] = {};
  const ptl_md_t fields{bytes, 8, 0, PTL_EQ_NONE, PTL_CT_NONE};
  ptl_handle_md_t small = 0;
  ASSERT_EQ(PtlMDBind(side.ni, &fields, &small), PTL_OK);
  EXPECT_EQ(PtlPut(small, 4, 5, PTL_ACK_REQ, side.id, 0, 0, 0, nullptr, 0), PTL_ARG_INVALID);
  EXPECT_EQ(PtlGet(small, PTL_SIZE_MAX, 2, side.id, 0, 0, 0, nullptr), PTL_ARG_INVALID);
  EXPECT_EQ(PtlPut(12345, 0, 1, PTL_ACK_REQ, side.id, 0, 0, 0, nullptr, 0), PTL_ARG_INVALID);
  EXPECT_EQ(PtlAtomic(small, 0, 8, PTL_ACK_REQ, side.id, 0, 0, 0, nullptr, 0, PTL_SUM, 9), PTL_ARG_INVALID);
  EXPECT_EQ(PtlAtomic(small, 0, 6, PTL_ACK_REQ, side.id, 0, 0, 0, nullptr, 0, PTL_SUM, PTL_INT32_T), PTL_ARG_INVALID);
  EXPECT_EQ(PtlAtomic(small, 0, 8, PTL_ACK_REQ, side.id, 0, 0, 0, nullptr, 0, PTL_SWAP, PTL_INT64_T), PTL_ARG_INVALID);
  ptl_pt_index_t index = 0;
  EXPECT_EQ(PtlPTAlloc(side.ni, PTL_PT_FLOWCTRL, PTL_EQ_NONE, PTL_PT_ANY, &index), PTL_PT_EQ_NEEDED);
  EXPECT_EQ(PtlPTAlloc(side.ni, 0, PTL_EQ_NONE, side.portal, &index), PTL_PT_IN_USE);
  EXPECT_EQ(PtlPTAlloc(side.ni, 0, PTL_EQ_NONE, 64, &index), PTL_ARG_INVALID);
  const ptl_handle_me_t entry = side.append(Side::entry(bytes, 8, kPut));
  EXPECT_EQ(PtlPTFree(side.ni, side.portal), PTL_PT_IN_USE);
  EXPECT_EQ(PtlMEUnlink(entry), PTL_OK);
  EXPECT_EQ(PtlPTFree(side.ni, side.portal), PTL_OK);
}

TEST(Portals4Match, FirstEntryWithEqualBitsOutsideTheIgnoredOnesTakesTheMessage) {
  const Side side;
  char bytes[3] = {};
  ptl_me_t other = Side::entry(bytes, 1, kPut, 0x11);
  ptl_me_t stranger = Side::entry(bytes + 1, 1, kPut, 0x21);
  stranger.match_id.phys.pid = side.id.phys.pid + 1;
  ptl_me_t wanted = Side::entry(bytes + 2, 1, kPut, 0x2f);
  wanted.ignore_bits = 0x0f;
  side.append(other);
  side.append(stranger);
  side.append(wanted);
  side.put("x", 1, side.id, 0x21);
  EXPECT_EQ(Side::next(side.target_queue).start, bytes + 2);
  side.expect_acknowledged();
  side.put("y", 1, side.id, 0x31);
  side.expect_acknowledged(PTL_NI_DROPPED);
}

TEST(Portals4Match, MessageThatWouldBeTruncatedPassesByAnEntryThatForbidsIt) {
  const Side side;
  char bytes[8] = {};
  side.append(Side::entry(bytes, 2, kPut | PTL_ME_NO_TRUNCATE));
  side.put("long", 4, side.id);
  side.expect_acknowledged(PTL_NI_DROPPED);
  side.append(Side::entry(bytes + 2, 3, kPut));
  side.put("long", 4, side.id);
  side.expect_own(PTL_EVENT_SEND);
  EXPECT_EQ(Side::next(side.initiator_queue).mlength, 3U);
  EXPECT_EQ(std::string(bytes + 2, 4), std::string("lon\0", 4));
}

TEST(Portals4Match, OperationThatTheEntryForbidsIsAViolation) {
  const Side side;
  std::uint64_t word = 5;
  std::uint64_t result = 0;
  side.append(Side::entry(&word, 8, kPut));
  side.get(&result, 8, side.id);
  side.expect_own(PTL_EVENT_REPLY, PTL_NI_OP_VIOLATION);
  EXPECT_EQ(PtlFetchAtomic(side.memory, Side::at(&result), side.memory, Side::at(&word), 8, side.id, side.portal, 0, 0,
                           nullptr, 0, PTL_SUM, PTL_UINT64_T),
            PTL_OK);
  side.expect_own(PTL_EVENT_SEND);
  side.expect_own(PTL_EVENT_REPLY, PTL_NI_OP_VIOLATION);
  EXPECT_EQ(word, 5U);
  Side::expect_empty(side.target_queue);
}

TEST(Portals4Match, MessageToAnEntryOfTheTableThatIsNotAllocatedIsDropped) {
  const Side side;
  char byte = 0;
  for (const ptl_pt_index_t index : {60U, 1000000U}) {
    EXPECT_EQ(PtlPut(side.memory, Side::at(&byte), 1, PTL_ACK_REQ, side.id, index, 0, 0, nullptr, 0), PTL_OK);
    side.expect_acknowledged(PTL_NI_DROPPED);
  }
}

template <class T>
void expect_atomics(ptl_datatype_t type) {
  const Side side;
  T word[2] = {static_cast<T>(-6), 3};
  T data[2] = {4, 12};
  T old[2] = {};
  side.append(Side::entry(word, sizeof word, kBoth));
  const auto fetch = [&](ptl_op_t operation, T value) {
    data[0] = value;
    EXPECT_EQ(PtlFetchAtomic(side.memory, Side::at(old), side.memory, Side::at(data), sizeof(T), side.id, side.portal,
                             0, 0, nullptr, 0, operation, type),
              PTL_OK);
    side.expect_own(PTL_EVENT_SEND);
    side.expect_own(PTL_EVENT_REPLY);
    side.expect_target(PTL_EVENT_FETCH_ATOMIC);
    return old[0];
  };
  const auto swap = [&](ptl_op_t operation, T value, T operand) {
    data[0] = value;
    EXPECT_EQ(PtlSwap(side.memory, Side::at(old), side.memory, Side::at(data), sizeof(T), side.id, side.portal, 0, 0,
                      nullptr, 0, &operand, operation, type),
              PTL_OK);
    side.expect_own(PTL_EVENT_SEND);
    side.expect_own(PTL_EVENT_REPLY);
    side.expect_target(PTL_EVENT_FETCH_ATOMIC);
    return old[0];
  };
  const T bigger = std::max(static_cast<T>(-6), T{1});
  EXPECT_EQ(fetch(PTL_MAX, 1), static_cast<T>(-6));
  EXPECT_EQ(fetch(PTL_MIN, 2), bigger);
  EXPECT_EQ(swap(PTL_SWAP, 0x30, 0), std::min(bigger, T{2}));
  EXPECT_EQ(fetch(PTL_BOR, 0x0f), T{0x30});
  EXPECT_EQ(fetch(PTL_BAND, 0x1f), T{0x3f});
  EXPECT_EQ(fetch(PTL_BXOR, 0x01), T{0x1f});
  EXPECT_EQ(swap(PTL_CSWAP, 0, 7), T{0x1e});
  EXPECT_EQ(swap(PTL_CSWAP, 0x55, 0x1e), T{0x1e});
  EXPECT_EQ(swap(PTL_MSWAP, 0xaa, 0xf0), T{0x55});
  EXPECT_EQ(word[0], T{0xa5});
  data[0] = 1;
  EXPECT_EQ(PtlAtomic(side.memory, Side::at(data), 2 * sizeof(T), PTL_ACK_REQ, side.id, side.portal, 0, 0, nullptr, 0,
                      PTL_SUM, type),
            PTL_OK);
  side.expect_acknowledged();
  side.expect_target(PTL_EVENT_ATOMIC);
  EXPECT_EQ(word[0], T{0xa6});
  EXPECT_EQ(word[1], T{15});
}

TEST(Portals4Atomic, AllOperationsWorkOnAllDatatypes) {
  expect_atomics<std::int32_t>(PTL_INT32_T);
  expect_atomics<std::uint32_t>(PTL_UINT32_T);
  expect_atomics<std::int64_t>(PTL_INT64_T);
  expect_atomics<std::uint64_t>(PTL_UINT64_T);
}

}  // namespace
}  // namespace opal::test::portals4
