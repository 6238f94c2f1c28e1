// SPDX-License-Identifier: Apache-2.0
// Two Contexts of one process over every real transport: peers, messages, memory.
#include <gmock/gmock.h>

#include <cstring>

#include "tests/am/pair.hpp"

namespace opal::test {
namespace {

class ContextPair : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    auto connected = a.context->connect(b.context->address());
    ASSERT_TRUE(connected);
    to_b = *connected;
  }
  template <class Operation>
  Error finish_both(Operation operation) {
    return finish(operation, *a.context, *b.context);
  }
  Side a{GetParam()};
  Side b{GetParam()};
  am::Endpoint* to_b = nullptr;
};
INSTANTIATE_TEST_SUITE_P(Over, ContextPair, ::testing::ValuesIn(joining_transports()),
                         [](const auto& info) { return info.param; });

TEST_P(ContextPair, MessagesArriveAndTheAnswerFindsItsWayBack) {
  const std::uint64_t word = 7;
  ASSERT_EQ(to_b->send_or_queue(kTag, bytes_of(word), {}), Post::done);
  ASSERT_TRUE(pump([&] { return b.messages == 1; }, *a.context, *b.context));
  EXPECT_EQ(b.from->peer(), a.context->id());
  EXPECT_THAT(b.connected, ::testing::ElementsAre(b.from));
  ASSERT_EQ(b.from->send_or_queue(kTag, bytes_of(word), bytes_of(word)), Post::done);
  ASSERT_TRUE(pump([&] { return a.messages == 1; }, *a.context, *b.context));
  EXPECT_EQ(a.from, to_b);
  EXPECT_EQ(a.bytes, 16u);
}

TEST_P(ContextPair, AFloodThroughSendOrQueueLosesNothing) {
  const std::vector<std::byte> payload(1000, std::byte{5});
  for (int i = 0; i < 5000; ++i) ASSERT_EQ(to_b->send_or_queue(kTag, {}, payload), Post::done) << i;
  EXPECT_TRUE(pump([&] { return b.messages == 5000; }, *a.context, *b.context)) << b.messages;
  EXPECT_EQ(b.bytes, 5'000'000u);
}

TEST_P(ContextPair, DisconnectingAndConnectingAgainGivesAWorkingEndpoint) {
  const std::uint64_t word = 1;
  for (std::size_t round = 1; round <= 20; ++round) {
    ASSERT_EQ(to_b->send_or_queue(kTag, bytes_of(word), {}), Post::done);
    ASSERT_TRUE(pump([&] { return b.messages == round; }, *a.context, *b.context));
    a.context->disconnect(*to_b);
    b.context->disconnect(*b.from);
    auto connected = a.context->connect(b.context->address());
    ASSERT_TRUE(connected);
    to_b = *connected;
  }
}

TEST_P(ContextPair, PutsAndGetsReachTheMiddleOfARegionAndNothingBeside) {
  std::vector<std::uint64_t> memory(1000, 1);
  auto region = b.context->register_memory(memory.data(), memory.size() * 8, Rights::all);
  ASSERT_TRUE(region);
  EXPECT_EQ(region->base(), memory.data());
  EXPECT_EQ(region->size(), 8000u);
  auto key = to_b->unpack_key(region->key());
  ASSERT_TRUE(key);
  const std::vector<std::uint64_t> source(10, 2);
  const auto middle = reinterpret_cast<std::uint64_t>(&memory[500]);
  EXPECT_EQ(finish_both([&](Completion& end) { return to_b->put(source.data(), middle, *key, 80, end); }).code, Errc{});
  EXPECT_EQ(memory[499], 1u);
  EXPECT_EQ(memory[500], 2u);
  EXPECT_EQ(memory[509], 2u);
  EXPECT_EQ(memory[510], 1u);
  std::vector<std::uint64_t> back(12);
  EXPECT_EQ(finish_both([&](Completion& end) { return to_b->get(back.data(), middle - 8, *key, 96, end); }).code,
            Errc{});
  EXPECT_TRUE(std::equal(back.begin(), back.end(), &memory[499]));

  const auto past = reinterpret_cast<std::uint64_t>(memory.data() + memory.size()) - 8;
  EXPECT_NE(finish_both([&](Completion& end) { return to_b->put(source.data(), past, *key, 9, end); }).code, Errc{});
  EXPECT_EQ(memory.back(), 1u);
}

TEST_P(ContextPair, ARegionsEndMakesItsKeyStale) {
  std::uint64_t memory = 1;
  const std::uint64_t value = 2;
  MemoryHandle key;
  {
    auto region = b.context->register_memory(&memory, sizeof memory, Rights::all);
    ASSERT_TRUE(region);
    key = *to_b->unpack_key(region->key());
    am::Region moved = std::move(*region);
    EXPECT_EQ(moved.size(), sizeof memory);
  }
  const auto where = reinterpret_cast<std::uint64_t>(&memory);
  EXPECT_NE(finish_both([&](Completion& end) { return to_b->put(&value, where, key, 8, end); }).code, Errc{});
  EXPECT_EQ(memory, 1u);
}

TEST_P(ContextPair, ExposedMemoryIsReachableByItsHandle) {
  std::vector<std::uint64_t> memory(100, 3);
  const std::uint64_t word = 1;
  ASSERT_EQ(to_b->send_or_queue(kTag, bytes_of(word), {}), Post::done);
  ASSERT_TRUE(pump([&] { return b.messages == 1; }, *a.context, *b.context));
  auto exposed = b.from->expose(memory.data(), memory.size() * 8, Rights::remote_read);
  ASSERT_TRUE(exposed);
  const auto handle = MemoryHandle::from_bytes(exposed->handle());
  ASSERT_TRUE(handle);
  std::uint64_t got = 0;
  const auto where = reinterpret_cast<std::uint64_t>(&memory[50]);
  EXPECT_EQ(finish_both([&](Completion& end) { return to_b->get(&got, where, *handle, 8, end); }).code, Errc{});
  EXPECT_EQ(got, 3u);
  EXPECT_NE(finish_both([&](Completion& end) { return to_b->put(&word, where, *handle, 8, end); }).code, Errc{})
      << "only reading was allowed";
  EXPECT_EQ(memory[50], 3u);
}

TEST_P(ContextPair, FlushOfTheContextCoversEveryPutBefore) {
  std::vector<std::uint64_t> memory(64);
  auto region = b.context->register_memory(memory.data(), memory.size() * 8, Rights::all);
  ASSERT_TRUE(region);
  const MemoryHandle key = *to_b->unpack_key(region->key());
  std::vector<std::uint64_t> source(memory.size());
  std::vector<Flag> flags(memory.size());
  for (std::size_t i = 0; i < memory.size(); ++i) {
    source[i] = i + 1;
    const auto where = reinterpret_cast<std::uint64_t>(&memory[i]);
    Post post = Post::again;
    ASSERT_TRUE(pump([&] { return (post = to_b->put(&source[i], where, key, 8, flags[i])) != Post::again; }, *a.context,
                     *b.context));
    ASSERT_NE(post, Post::failed);
  }
  EXPECT_EQ(finish_both([&](Completion& end) { return a.context->flush(end); }).code, Errc{});
  EXPECT_EQ(memory, source);
  ASSERT_TRUE(pump([&] { return std::all_of(flags.begin(), flags.end(), [](const Flag& flag) { return flag.ok(); }); },
                   *a.context, *b.context));
}

TEST(Context, TalksToItself) {
  Side side{"self"};
  auto self = side.context->connect(side.context->address());
  ASSERT_TRUE(self);
  const std::uint64_t word = 1;
  ASSERT_EQ((*self)->send_inline(kTag, bytes_of(word), {}), Post::done);
  EXPECT_EQ(side.messages, 0u) << "never from inside a send";
  EXPECT_TRUE(pump([&] { return side.messages == 1; }, *side.context));
}

TEST(Context, GarbledAddressesAreRefused) {
  Side side{"self"};
  std::vector<std::byte> address(side.context->address().begin(), side.context->address().end());
  EXPECT_FALSE(side.context->connect({}));
  EXPECT_FALSE(side.context->connect(ByteSpan{address}.first(10)));
  address[0] = std::byte{0};
  const auto connected = side.context->connect(address);
  ASSERT_FALSE(connected);
  EXPECT_EQ(connected.error().code, Errc::protocol);
}

TEST(Context, UnknownTransportOrBadVariableDoesNotOpen) {
  for (const auto& [name, value] :
       {std::pair{"am_transports", "pigeon"}, {"am_spin", "-1"}, {"am_pending_limit", "x"}}) {
    config::Store store;
    store.set(name, value);
    const auto opened = am::Context::open(store);
    ASSERT_FALSE(opened) << name;
    EXPECT_EQ(opened.error().code, Errc::invalid_argument);
  }
}

TEST(Context, NoTransportLeftDoesNotOpen) {
  config::Store store;
  std::string all = "^self";
  for (const std::string& name : joining_transports()) all += "," + name;
  store.set("am_transports", all);
  const auto opened = am::Context::open(store, {.registry = &all_transports()});
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, Errc::unreachable);
}

}  // namespace
}  // namespace opal::test
