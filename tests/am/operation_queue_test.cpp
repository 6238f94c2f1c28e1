// SPDX-License-Identifier: Apache-2.0
// put, get and atomics that queue, puts with notification, and messages in parts, over every transport.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "tests/am/pair.hpp"

namespace opal::test {
namespace {

constexpr Tag kNotification = kTag + 1;

class OneSided : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    to_b = *a->context->connect(b->context->address());
    region = *b->context->register_memory(memory.data(), memory.size() * sizeof memory[0], Rights::all);
    ASSERT_EQ(to_b->send_or_queue(kTag, bytes_of(std::uint64_t{0}), {}), Post::done);
    ASSERT_TRUE(pump_both([&] { return b->messages == 1; }));
    handle = *to_b->unpack_key(region.key());
  }
  template <class Condition>
  [[nodiscard]] bool pump_both(Condition condition) {
    return pump(condition, *a->context, *b->context);
  }
  [[nodiscard]] std::uint64_t address(std::size_t index) const {
    return reinterpret_cast<std::uint64_t>(&memory[index]);
  }
  [[nodiscard]] AtomicRequest add_one(std::size_t index) const {
    return {AtomicOp::add, AtomicType::u64, address(index), &handle, 1};
  }

  std::unique_ptr<Side> a = std::make_unique<Side>(GetParam());
  std::unique_ptr<Side> b = std::make_unique<Side>(GetParam());
  std::vector<std::uint64_t> memory = std::vector<std::uint64_t>(8192);
  am::Endpoint* to_b = nullptr;
  am::Region region;
  MemoryHandle handle;
};
INSTANTIATE_TEST_SUITE_P(Over, OneSided, ::testing::ValuesIn(joining_transports()),
                         [](const auto& info) { return info.param; });

TEST_P(OneSided, PutsGetsAndAtomicsThatQueueNeverAnswerAgain) {
  constexpr std::size_t kEach = 3000;  // more than a transport has operations in flight
  std::vector<std::uint64_t> sources(kEach);
  std::vector<std::uint64_t> destinations(kEach);
  std::vector<Flag> ends(3 * kEach);
  std::size_t queued = 0;
  for (std::size_t i = 0; i < kEach; ++i) {
    sources[i] = i + 1;
    for (const Post post : {to_b->put_or_queue(&sources[i], address(i), handle, 8, ends[3 * i]),
                            to_b->atomic_or_queue(add_one(8000), ends[3 * i + 1]),
                            to_b->get_or_queue(&destinations[i], address(8001), handle, 8, ends[3 * i + 2])}) {
      ASSERT_TRUE(post == Post::done || post == Post::queued);
      queued += post == Post::queued ? 1 : 0;
    }
  }
  Flag flushed;
  const Post flush = to_b->flush(flushed);
  std::size_t ended = 0;
  ASSERT_TRUE(pump_both([&] {
    ended = 0;
    for (const Flag& end : ends) ended += static_cast<std::size_t>(end.calls);
    return ended == queued && (flush == Post::done || flushed.calls == 1);
  }));
  for (const Flag& end : ends) EXPECT_TRUE(end.ok() && end.calls <= 1);
  for (std::size_t i = 0; i < kEach; ++i) ASSERT_EQ(memory[i], i + 1);
  EXPECT_EQ(memory[8000], kEach);
}

TEST_P(OneSided, AFlushCoversTheOperationsThatWait) {
  for (const bool all : {false, true}) {
    std::vector<Flag> ends(3000);
    memory[8000] = 0;
    std::uint64_t seen = 0;
    for (Flag& end : ends) ASSERT_NE(to_b->atomic_or_queue(add_one(8000), end), Post::failed);
    const Error error = finish(
        [&](Completion& end) {
          const Post post = all ? a->context->flush(end) : to_b->flush(end);
          EXPECT_NE(post, Post::again);
          return post;
        },
        *a->context, *b->context);
    seen = memory[8000];
    EXPECT_EQ(error.code, Errc{});
    EXPECT_EQ(seen, ends.size()) << (all ? "all endpoints" : "one endpoint");
    ASSERT_TRUE(pump_both([&] { return a->context->progress() == 0; }));
  }
}

TEST_P(OneSided, WhatIsQueuedEndsOnceWhenThePeerEndsOrIsDisconnected) {
  for (const bool disconnect : {true, false}) {
    if (!disconnect) {
      a = std::make_unique<Side>(GetParam());
      SetUp();
    }
    std::vector<Flag> ends(3000);
    std::vector<Post> posts;
    for (Flag& end : ends) posts.push_back(to_b->atomic_or_queue(add_one(8000), end));
    if (disconnect) {
      a->context->disconnect(*to_b);
      ASSERT_TRUE(pump_both([&] { return b->failed == 1; }));
      b->messages = 0;
    } else {
      region = {};
      b.reset();
      ASSERT_TRUE(pump([&] { return a->failed == 1; }, *a->context));
      Flag late;
      EXPECT_EQ(to_b->atomic_or_queue(add_one(8000), late), Post::failed);
      EXPECT_EQ(late.error.code, Errc::peer_gone);
    }
    for (std::size_t i = 0; i < ends.size(); ++i) EXPECT_EQ(ends[i].calls, posts[i] == Post::queued ? 1 : 0);
  }
}

/// A handler that posts: it must neither wait nor make progress.
TEST_P(OneSided, AHandlerMayPostWithoutLookingAtTheAnswer) {
  struct Poster {
    const AtomicRequest request;
    std::deque<Flag> ends{};
    std::size_t queued = 0;
    void on_message(btl::Delivery& delivery) noexcept {
      for (int i = 0; i < 2000; ++i) {
        const Post post = am::sender(delivery).atomic_or_queue(request, ends.emplace_back());
        EXPECT_TRUE(post == Post::done || post == Post::queued);
        queued += post == Post::queued ? 1 : 0;
      }
    }
  } poster{add_one(8002)};
  ASSERT_TRUE(a->context->set_handler(kNotification, btl::bind<&Poster::on_message>(poster, "poster")));
  ASSERT_EQ(b->from->send_or_queue(kNotification, {}, {}), Post::done);
  ASSERT_TRUE(pump_both([&] {
    return poster.ends.size() == 2000 &&
           static_cast<std::size_t>(std::count_if(poster.ends.begin(), poster.ends.end(),
                                                  [](const Flag& end) { return end.calls == 1; })) == poster.queued;
  }));
  EXPECT_EQ(memory[8002], 2000u);
}

TEST_P(OneSided, TheHandlerOfANotificationFindsTheData) {
  struct Notified {
    const std::vector<std::uint64_t>& memory;
    std::vector<std::uint32_t> headers{};
    bool complete = true;
    void on_message(btl::Delivery& delivery) noexcept {
      std::uint32_t round = 0;
      complete = complete && read_object(delivery.data, round);
      headers.push_back(round);
      for (std::size_t i = 0; i < 4000; ++i) complete = complete && memory[i] == round + i;
    }
  } notified{memory};
  ASSERT_TRUE(b->context->set_handler(kNotification, btl::bind<&Notified::on_message>(notified, "notified")));
  std::vector<std::uint64_t> source(4000);
  for (std::uint32_t round = 1; round <= 3; ++round) {
    for (std::size_t i = 0; i < source.size(); ++i) source[i] = round + i;
    const Error error = finish(
        [&](Completion& end) {
          return to_b->put_notify(source.data(), address(0), handle, 32'000, kNotification, bytes_of(round), end);
        },
        *a->context, *b->context);
    EXPECT_EQ(error.code, Errc{});
    ASSERT_TRUE(pump_both([&] { return notified.headers.size() == round; }));
  }
  EXPECT_TRUE(notified.complete);
  EXPECT_EQ(notified.headers, (std::vector<std::uint32_t>{1, 2, 3}));
}

TEST_P(OneSided, APutThatIsRefusedNotifiesNothing) {
  const std::uint64_t word = 1;
  Flag end;
  const auto post_outside = [&](Completion& completion) {
    return to_b->put_notify(&word, address(0) - 8, handle, 8, kTag, {}, completion);
  };
  EXPECT_EQ(finish(post_outside, *a->context, *b->context).code, Errc::invalid_argument);
  EXPECT_EQ(to_b->put_notify(&word, address(0), handle, 8, Tag{0xffff}, {}, end), Post::failed);
  EXPECT_EQ(end.error.code, Errc::invalid_argument);
  ASSERT_EQ(to_b->send_or_queue(kTag, bytes_of(word), {}), Post::done);
  ASSERT_TRUE(pump_both([&] { return b->messages == 2; }));
  EXPECT_EQ(b->bytes, 16u) << "the two messages of 8 bytes";
}

TEST_P(OneSided, AMessageInPartsArrivesInOnePiece) {
  struct Gathered {
    std::vector<std::byte> last{};
    void on_message(btl::Delivery& delivery) noexcept { last.assign(delivery.data.begin(), delivery.data.end()); }
  } gathered;
  ASSERT_TRUE(b->context->set_handler(kNotification, btl::bind<&Gathered::on_message>(gathered, "gathered")));
  const std::size_t max_send = to_b->attributes().max_send;
  for (const std::size_t size : {std::size_t{0}, std::size_t{5}, std::size_t{300}, max_send}) {
    std::vector<std::byte> whole(size);
    for (std::size_t i = 0; i < size; ++i) whole[i] = static_cast<std::byte>(i % 251);
    std::vector<ByteSpan> parts;
    for (std::size_t begin = 0, part = 0; begin < size; begin += part) {
      part = std::min(size - begin, 1 + 3 * part);
      parts.push_back(ByteSpan{whole}.subspan(begin, part));
      parts.emplace_back();
    }
    gathered.last.assign(1, std::byte{9});
    Post post = Post::again;
    ASSERT_TRUE(pump_both([&] { return (post = to_b->send_iov(kNotification, parts)) != Post::again; }));
    EXPECT_EQ(post, Post::done);
    ASSERT_TRUE(pump_both([&] { return gathered.last == whole; })) << size;
  }
  const std::vector<std::byte> large(max_send);
  const std::array<ByteSpan, 2> too_long{ByteSpan{large}, ByteSpan{large}};
  EXPECT_EQ(to_b->send_iov(kNotification, too_long), Post::failed);
  EXPECT_EQ(to_b->error().code, Errc::invalid_argument);
}

}  // namespace
}  // namespace opal::test
