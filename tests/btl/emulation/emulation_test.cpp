// SPDX-License-Identifier: Apache-2.0
// Put, get, atomics and flush over messages: cutting, back-pressure, order of answers, bounds, ends.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "opal/btl/shared/rdma_wire.hpp"
#include "tests/btl/emulation/fake_transport.hpp"

namespace opal::test {
namespace {

struct Counted : Completion {
  Counted() {
    fn = [](Completion& self) noexcept { ++static_cast<Counted&>(self).calls; };
  }
  int calls = 0;
};

std::vector<std::byte> pattern(std::size_t size, unsigned seed) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>((i * 131 + i / 251 + seed) & 0xff);
  return bytes;
}

std::uint64_t address_of(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

class Emulation : public ::testing::Test {
 protected:
  FakePair pair{1024};
  FakeModule& a = pair.a.module;
  FakeModule& b = pair.b.module;
  btl::Endpoint& to_b = pair.a.module.endpoint();
  btl::Endpoint& to_a = pair.b.module.endpoint();

  MemoryHandle expose(FakeSide& side, std::vector<std::byte>& memory, Rights rights = Rights::all) {
    return *side.module.register_memory(memory.data(), memory.size(), rights);
  }
  Post put(const std::vector<std::byte>& from, std::vector<std::byte>& to, const MemoryHandle& handle,
           Completion& completion) {
    return a.put(to_b, from.data(), nullptr, address_of(to.data()), handle, from.size(), completion);
  }
  Post get(std::vector<std::byte>& to, const std::vector<std::byte>& from, const MemoryHandle& handle,
           Completion& completion) {
    return a.get(to_b, to.data(), nullptr, address_of(from.data()), handle, to.size(), completion);
  }
};

TEST_F(Emulation, APutCompletesOnlyWhenTheTargetHasAnswered) {
  std::vector<std::byte> region(5000);
  const MemoryHandle handle = expose(pair.b, region);
  const auto bytes = pattern(5000, 1);
  Counted completion;
  ASSERT_EQ(put(bytes, region, handle, completion), Post::queued);
  while (a.progress(64) != 0 || a.deliver_one()) {
  }
  EXPECT_EQ(region, bytes);
  EXPECT_EQ(completion.calls, 0) << "written, but the answer has not arrived";
  pair.settle();
  EXPECT_EQ(completion.calls, 1);
  EXPECT_TRUE(completion.ok());
}

TEST_F(Emulation, APutOfWhichAPieceInTheMiddleWasDroppedFails) {
  std::vector<std::byte> region(5000);
  const MemoryHandle handle = expose(pair.b, region);
  const auto bytes = pattern(5000, 1);
  Counted completion;
  ASSERT_EQ(put(bytes, region, handle, completion), Post::queued);
  while (a.progress(64) != 0) {
  }
  ASSERT_GT(a.outgoing.size(), 3U);
  FakeMessage& middle = a.outgoing[1];
  middle.bytes[sizeof(btl::wire::PutPiece)] ^= std::byte{1};  // the range was gone for a moment
  pair.settle();
  EXPECT_EQ(completion.calls, 1);
  EXPECT_FALSE(completion.ok()) << "not all of it was written";
}

TEST_F(Emulation, PiecesGoOutAsTheTransportAllows) {
  a.capacity = b.capacity = 1;
  std::vector<std::byte> region(20'000);
  const MemoryHandle handle = expose(pair.b, region);
  const auto bytes = pattern(region.size(), 2);
  Counted completion;
  ASSERT_EQ(put(bytes, region, handle, completion), Post::queued);
  EXPECT_EQ(a.outgoing.size(), 1U);
  EXPECT_FALSE(a.rdma().idle());
  EXPECT_EQ(a.progress(64), 0U) << "the one place is taken";
  pair.settle();
  EXPECT_EQ(completion.calls, 1);
  EXPECT_EQ(region, bytes);
  EXPECT_TRUE(a.rdma().idle());
}

TEST_F(Emulation, BothSidesAreInitiatorAndTargetAtOnceOverFullQueues) {
  a.capacity = b.capacity = 2;
  std::vector<std::byte> at_a(30'000);
  std::vector<std::byte> at_b(30'000);
  const MemoryHandle of_a = expose(pair.a, at_a);
  const MemoryHandle of_b = expose(pair.b, at_b);
  const auto from_a = pattern(15'000, 3);
  const auto from_b = pattern(15'000, 4);
  std::copy_n(from_a.begin(), 15'000, at_a.begin() + 15'000);
  std::copy_n(from_b.begin(), 15'000, at_b.begin() + 15'000);
  std::vector<std::byte> got_by_a(15'000);
  std::vector<std::byte> got_by_b(15'000);
  Counted done[4];
  const auto post = [](auto call) {
    Post answer = Post::again;
    answer = call();
    return answer;
  };
  ASSERT_EQ(post([&] { return a.put(to_b, from_a.data(), nullptr, address_of(at_b.data()), of_b, 15'000, done[0]); }),
            Post::queued);
  ASSERT_EQ(post([&] { return b.put(to_a, from_b.data(), nullptr, address_of(at_a.data()), of_a, 15'000, done[1]); }),
            Post::queued);
  const auto get_a = [&] {
    return a.get(to_b, got_by_a.data(), nullptr, address_of(at_b.data()) + 15'000, of_b, 15'000, done[2]);
  };
  const auto get_b = [&] {
    return b.get(to_a, got_by_b.data(), nullptr, address_of(at_a.data()) + 15'000, of_a, 15'000, done[3]);
  };
  Post first = Post::again;
  Post second = Post::again;
  while (first == Post::again || second == Post::again) {
    if (first == Post::again) first = get_a();
    if (second == Post::again) second = get_b();
    a.deliver_one();
    b.deliver_one();
  }
  pair.settle();
  for (const Counted& one : done) {
    EXPECT_EQ(one.calls, 1);
    EXPECT_TRUE(one.ok());
  }
  EXPECT_TRUE(std::equal(from_a.begin(), from_a.end(), at_b.begin()));
  EXPECT_TRUE(std::equal(from_b.begin(), from_b.end(), at_a.begin()));
  EXPECT_EQ(got_by_a, from_b);
  EXPECT_EQ(got_by_b, from_a);
}

TEST_F(Emulation, ASmallGetDoesNotWaitForALargeOne) {
  b.capacity = 4;
  auto region = pattern(1'000'000, 5);
  const MemoryHandle handle = expose(pair.b, region);
  std::vector<std::byte> large(region.size());
  std::vector<std::byte> small(100);
  Counted large_done;
  Counted small_done;
  ASSERT_EQ(get(large, region, handle, large_done), Post::queued);
  ASSERT_EQ(get(small, region, handle, small_done), Post::queued);
  for (int step = 0; step < 100 && small_done.calls == 0; ++step) {
    a.deliver_one();
    b.deliver_one();
    b.progress(64);
  }
  EXPECT_EQ(small_done.calls, 1);
  EXPECT_EQ(large_done.calls, 0);
  pair.settle();
  EXPECT_EQ(large_done.calls, 1);
  EXPECT_EQ(large, region);
  EXPECT_TRUE(std::equal(small.begin(), small.end(), region.begin()));
}

TEST_F(Emulation, WhatTheHandleShowsToBeOutsideIsRefusedWithoutAMessage) {
  std::vector<std::byte> region(4096);
  const MemoryHandle handle = expose(pair.b, region, Rights::remote_read);
  std::byte byte{};
  Counted completion;
  const std::uint64_t base = address_of(region.data());
  for (const auto& [address, size] : {std::pair<std::uint64_t, std::uint64_t>{base - 1, 1},
                                      {base + 4096, 1},
                                      {base, 4097},
                                      {base, ~0ULL},
                                      {~0ULL, 2},
                                      {0, 0}}) {
    EXPECT_EQ(a.get(to_b, &byte, nullptr, address, handle, size, completion), Post::failed);
    EXPECT_EQ(completion.error.code, Errc::invalid_argument);
  }
  EXPECT_EQ(a.put(to_b, &byte, nullptr, base, handle, 1, completion), Post::failed);
  EXPECT_EQ(completion.error.code, Errc::permission);
  EXPECT_EQ(a.put(to_b, &byte, nullptr, base, MemoryHandle{}, 1, completion), Post::failed);
  EXPECT_EQ(completion.error.code, Errc::invalid_argument);
  EXPECT_TRUE(a.outgoing.empty());
  EXPECT_EQ(completion.calls, 0);
}

TEST_F(Emulation, AStaleHandleIsRefusedByTheTarget) {
  std::vector<std::byte> region(4096);
  const MemoryHandle handle = expose(pair.b, region);
  ASSERT_TRUE(b.deregister_memory(handle));
  const auto bytes = pattern(4096, 6);
  std::vector<std::byte> sink(4096);
  Counted put_done;
  Counted get_done;
  Counted atomic_done;
  ASSERT_EQ(put(bytes, region, handle, put_done), Post::queued);
  ASSERT_EQ(get(sink, region, handle, get_done), Post::queued);
  const AtomicRequest request{AtomicOp::add, AtomicType::u64, align_up(address_of(region.data()), 8), &handle, 1};
  ASSERT_EQ(a.atomic(to_b, request, atomic_done), Post::queued);
  pair.settle();
  for (const Counted* one : {&put_done, &get_done, &atomic_done}) {
    EXPECT_EQ(one->calls, 1);
    EXPECT_EQ(one->error.code, Errc::invalid_argument);
  }
  EXPECT_EQ(region, std::vector<std::byte>(4096));
  EXPECT_EQ(sink, std::vector<std::byte>(4096));
}

TEST_F(Emulation, ARegistrationRemovedInTheMiddleStopsThePutThere) {
  a.capacity = 3;
  std::vector<std::byte> region(50'000);
  const MemoryHandle handle = expose(pair.b, region);
  const auto bytes = pattern(region.size(), 7);
  Counted completion;
  ASSERT_EQ(put(bytes, region, handle, completion), Post::queued);
  ASSERT_TRUE(a.deliver_one());
  ASSERT_TRUE(a.deliver_one());
  ASSERT_TRUE(b.deregister_memory(handle));
  const auto frozen = region;
  pair.settle();
  EXPECT_EQ(completion.calls, 1);
  EXPECT_EQ(completion.error.code, Errc::invalid_argument);
  EXPECT_EQ(region, frozen);
}

TEST_F(Emulation, ARegistrationRemovedInTheMiddleStopsTheGetThere) {
  b.capacity = 3;
  auto region = pattern(50'000, 8);
  const MemoryHandle handle = expose(pair.b, region);
  std::vector<std::byte> sink(region.size());
  Counted completion;
  ASSERT_EQ(get(sink, region, handle, completion), Post::queued);
  ASSERT_TRUE(a.deliver_one());
  ASSERT_TRUE(b.deliver_one());
  ASSERT_TRUE(b.deregister_memory(handle));
  std::fill(region.begin(), region.end(), std::byte{0x77});  // not the peer's business any more
  pair.settle();
  EXPECT_EQ(completion.calls, 1);
  EXPECT_EQ(completion.error.code, Errc::invalid_argument);
  EXPECT_EQ(std::count(sink.begin() + 4096, sink.end(), std::byte{0x77}), 0);
}

TEST_F(Emulation, EmptyOperationsAreCheckedAndComplete) {
  std::vector<std::byte> region(64);
  const MemoryHandle handle = expose(pair.b, region);
  Counted put_done;
  Counted get_done;
  ASSERT_EQ(a.put(to_b, nullptr, nullptr, address_of(region.data()) + 64, handle, 0, put_done), Post::queued);
  ASSERT_EQ(a.get(to_b, nullptr, nullptr, address_of(region.data()), handle, 0, get_done), Post::queued);
  pair.settle();
  EXPECT_EQ(put_done.calls, 1);
  EXPECT_TRUE(put_done.ok());
  EXPECT_EQ(get_done.calls, 1);
  EXPECT_TRUE(get_done.ok());
}

TEST_F(Emulation, FlushWaitsForThePutsAndAtomicsBeforeItOnly) {
  std::vector<std::byte> region(4096);
  const MemoryHandle handle = expose(pair.b, region);
  const auto bytes = pattern(64, 9);
  Counted before;
  Counted flushed;
  Counted after;
  EXPECT_EQ(a.flush(&to_b, flushed), Post::done) << "nothing is under way";
  ASSERT_EQ(put(bytes, region, handle, before), Post::queued);
  ASSERT_EQ(a.flush(nullptr, flushed), Post::queued);
  ASSERT_EQ(put(bytes, region, handle, after), Post::queued);
  ASSERT_TRUE(a.deliver_one());
  ASSERT_TRUE(b.deliver_one());
  EXPECT_EQ(before.calls, 1);
  EXPECT_EQ(flushed.calls, 1);
  EXPECT_EQ(after.calls, 0);
  pair.settle();
  EXPECT_EQ(flushed.calls, 1);
  EXPECT_EQ(after.calls, 1);
}

TEST_F(Emulation, TooManyOperationsAtOnceAreToldToComeAgain) {
  a.capacity = 10'000;
  std::vector<std::byte> region(64);
  const MemoryHandle handle = expose(pair.b, region);
  const std::byte byte{1};
  std::vector<Counted> completions(10'000);
  std::size_t posted = 0;
  while (a.put(to_b, &byte, nullptr, address_of(region.data()), handle, 1, completions[posted]) == Post::queued) {
    ASSERT_LT(++posted, completions.size());
  }
  EXPECT_EQ(posted, 1024U);
  pair.settle();
  EXPECT_EQ(std::count_if(completions.begin(), completions.end(), [](const Counted& one) { return one.calls == 1; }),
            1024);
  EXPECT_EQ(a.put(to_b, &byte, nullptr, address_of(region.data()), handle, 1, completions[0]), Post::queued);
  pair.settle();
}

TEST_F(Emulation, AGoneEndpointEndsEveryOperationOnceAndLaterAnswersFindNothing) {
  std::vector<std::byte> region(50'000);
  const MemoryHandle handle = expose(pair.b, region);
  const auto bytes = pattern(region.size(), 10);
  std::vector<std::byte> sink(region.size());
  a.capacity = 20;
  Counted completions[3];
  Counted flushed;
  ASSERT_EQ(put(bytes, region, handle, completions[0]), Post::queued);
  ASSERT_EQ(get(sink, region, handle, completions[1]), Post::queued);
  const AtomicRequest request{AtomicOp::add, AtomicType::u64, align_up(address_of(region.data()), 8), &handle, 1};
  ASSERT_EQ(a.atomic(to_b, request, completions[2]), Post::queued);
  ASSERT_EQ(a.flush(nullptr, flushed), Post::queued);
  a.endpoint().kill({Errc::peer_gone});
  a.rdma().endpoint_gone(to_b, {Errc::peer_gone, 0, "test"});
  for (const Counted& one : completions) {
    EXPECT_EQ(one.calls, 1);
    EXPECT_EQ(one.error.code, Errc::peer_gone);
  }
  EXPECT_EQ(flushed.calls, 1);
  EXPECT_TRUE(a.rdma().idle());
  pair.settle();  // the answers of what had been sent
  for (const Counted& one : completions) EXPECT_EQ(one.calls, 1);
  EXPECT_EQ(sink, std::vector<std::byte>(region.size()));
  EXPECT_EQ(put(bytes, region, handle, completions[0]), Post::failed);
}

}  // namespace
}  // namespace opal::test
