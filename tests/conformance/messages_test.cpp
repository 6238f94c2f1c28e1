// SPDX-License-Identifier: Apache-2.0
// Active messages over every transport: content, sizes, order, back-pressure, re-entrance, many to one.
#include <cstring>
#include <mutex>
#include <numeric>

#include "opal/core/sync/spin_lock.hpp"
#include "tests/conformance/side.hpp"

namespace opal::test {
namespace {

class Messages : public Conformance {};
OPAL_CONFORMANCE_SUITE(Messages, usable_transports);

class MessagesOfMany : public Conformance {};
OPAL_CONFORMANCE_SUITE(MessagesOfMany, joining_transports);

std::vector<std::size_t> interesting_sizes(std::size_t max) {
  std::vector<std::size_t> sizes(130);
  std::iota(sizes.begin(), sizes.end(), 0);
  for (std::size_t power = 256; power <= max; power *= 2) {
    for (const std::size_t size : {power - 1, power, power + 1}) {
      if (size <= max) sizes.push_back(size);
    }
  }
  sizes.push_back(max);
  return sizes;
}

/// A handler of messages that begin with their number: checks order and content, and counts them in `next`.
std::function<void(btl::Delivery&)> expect_numbered(std::uint32_t& next) {
  return [&next](btl::Delivery& delivery) {
    std::uint32_t number = 0;
    ASSERT_TRUE(read_object(delivery.data, number));
    ASSERT_EQ(number, next);
    const std::size_t size = delivery.data.size() - sizeof number;
    EXPECT_EQ(std::memcmp(delivery.data.data() + sizeof number, pattern(size, number).data(), size), 0);
    ++next;
  };
}

TEST_P(Messages, HeaderAndPayloadArriveAsOneRun) {
  const auto header = pattern(24, 1);
  const auto payload = pattern(100, 2);
  ASSERT_EQ(send_to_b(header, payload), Post::done);
  ASSERT_TRUE(pump_both([&] { return b().received.size() == 1; }));
  auto expected = header;
  expected.insert(expected.end(), payload.begin(), payload.end());
  EXPECT_EQ(b().received[0], expected);
}

TEST_P(Messages, EverySizeUpToTheMaximumArrivesIntact) {
  const std::vector<std::size_t> sizes = interesting_sizes(a().module().attributes().max_send);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const auto message = pattern(sizes[i], static_cast<std::uint32_t>(i));
    const std::size_t cut = std::min<std::size_t>(sizes[i], i % 32);
    ASSERT_EQ(send_to_b(ByteSpan{message}.first(cut), ByteSpan{message}.subspan(cut)), Post::done) << sizes[i];
  }
  ASSERT_TRUE(pump_both([&] { return b().received.size() == sizes.size(); }));
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    EXPECT_EQ(b().received[i], pattern(sizes[i], static_cast<std::uint32_t>(i))) << "size " << sizes[i];
  }
}

TEST_P(Messages, OneByteMoreThanTheMaximumIsRefusedAndTheEndpointLives) {
  const std::size_t max = a().module().attributes().max_send;
  const std::vector<std::byte> tooLong(max + 1);
  ASSERT_EQ(send_to_b({}, tooLong), Post::failed);
  EXPECT_EQ(to_b().error().code, Errc::invalid_argument);
  EXPECT_FALSE(to_b().dead());
  EXPECT_FALSE(a().module().alloc(to_b(), max + 1));
  ASSERT_EQ(send_to_b({}, pattern(8, 3)), Post::done);
  ASSERT_TRUE(pump_both([&] { return b().received.size() == 1; }));
  EXPECT_EQ(b().received[0], pattern(8, 3));
}

TEST_P(Messages, ArriveInTheOrderTheyWerePostedWhateverTheirSize) {
  constexpr std::uint32_t kCount = 5000;
  const std::size_t max = a().module().attributes().max_send;
  std::uint32_t next = 0;
  b().handler = expect_numbered(next);
  for (std::uint32_t number = 0; number < kCount; ++number) {
    const std::size_t sizes[] = {4, 40, 900, 3000, max - sizeof number};
    const std::size_t size = sizes[(number * 2654435761U >> 8) % (number % 50 == 0 ? 5 : 3)];
    ASSERT_EQ(send_to_b(bytes_of(number), pattern(size, number)), Post::done);
  }
  EXPECT_TRUE(pump_both([&] { return next == kCount; }));
}

TEST_P(Messages, OfABatchArriveInOrder) {
  const std::size_t max = a().module().attributes().max_send;
  std::uint32_t next = 0;
  b().handler = expect_numbered(next);
  std::uint32_t number = 0;
  for (int batch = 0; batch < 50; ++batch) {
    a().module().begin_batch();
    a().module().begin_batch();  // they nest
    for (int i = 0; i < 20 * batch; ++i) {
      const std::size_t sizes[] = {4, 40, 900, 3000, max - sizeof number};
      const std::size_t size = sizes[(number * 2654435761U >> 8) % (number % 50 == 0 ? 5 : 4)];
      ASSERT_EQ(send_to_b(bytes_of(number), pattern(size, number)), Post::done);
      ++number;
      if (i == batch) a().module().end_batch();
    }
    if (batch == 0) a().module().end_batch();
    a().module().end_batch();
  }
  EXPECT_TRUE(pump_both([&] { return next == number; }));
}

TEST_P(Messages, OfABatchLeaveAtItsEndWithoutProgressOfTheSender) {
  ASSERT_EQ(send_to_b(pattern(8, 0), {}), Post::done);  // the connection is made
  ASSERT_TRUE(pump_both([&] { return b().received.size() == 1; }));
  a().module().begin_batch();
  for (std::uint32_t i = 1; i < 30; ++i) ASSERT_EQ(send_to_b(pattern(8, i), {}), Post::done);
  a().module().end_batch();
  ASSERT_TRUE(pump([&] { return b().received.size() == 30; }, b()));  // self: the sender is the receiver
  for (std::uint32_t i = 0; i < 30; ++i) EXPECT_EQ(b().received[i], pattern(8, i));
}

TEST_P(Messages, BackPressureSaysAgainAndLosesNothing) {
  constexpr std::uint32_t kMost = 4'000'000;
  const auto payload = pattern(1000, 7);
  std::uint32_t posted = 0;
  // No receiver polls: sooner or later the transport must refuse instead of taking memory for ever.
  Post post = Post::done;
  for (int refusals = 0; posted < kMost && refusals < 1000;) {
    post = a().module().send_inline(to_b(), kTag, bytes_of(posted), payload);
    if (post == Post::done) {
      ++posted;
      refusals = 0;
    } else {
      ASSERT_EQ(post, Post::again);
      ++refusals;
      if (!alone() && posted == 0) {  // the connection may need both sides before the first message goes
        a().module().progress(1);
        b().module().progress(1);
        refusals = 0;
      }
    }
  }
  ASSERT_EQ(post, Post::again) << "memory for " << posted << " messages was taken and no end";
  std::uint32_t next = 0;
  b().handler = [&](btl::Delivery& delivery) {
    std::uint32_t number = 0;
    ASSERT_TRUE(read_object(delivery.data, number));
    ASSERT_EQ(number, next++);
    ASSERT_EQ(delivery.data.size(), sizeof number + payload.size());
  };
  ASSERT_TRUE(pump_both([&] { return next == posted; }));
  ASSERT_EQ(send_to_b(bytes_of(posted), payload), Post::done);
  EXPECT_TRUE(pump_both([&] { return next == posted + 1; }));
}

TEST_P(Messages, AFragmentThatMeetsBackPressureIsUnchangedAndGoesLater) {
  ASSERT_EQ(send_to_b({}, {}), Post::done);  // connects
  ASSERT_TRUE(pump_both([&] { return b().received.size() == 1; }));
  const auto message = pattern(1000, 8);
  btl::Fragment fragment;
  ASSERT_TRUE(pump_both([&] { return static_cast<bool>(fragment = a().module().alloc(to_b(), message.size())); }));
  std::memcpy(fragment.data().data(), message.data(), message.size());
  std::size_t posted = 0;
  while (a().module().send_inline(to_b(), kTag, {}, message) == Post::done) ++posted;
  std::size_t arrived = 0;
  std::vector<std::byte> last;
  b().handler = [&](btl::Delivery& delivery) {
    ++arrived;
    last.assign(delivery.data.begin(), delivery.data.end());
  };
  fragment.data()[0] ^= std::byte{1};
  auto marked = message;
  marked[0] ^= std::byte{1};
  Post post = a().module().send(fragment, kTag);
  if (post == Post::again) {
    ASSERT_TRUE(fragment);
    EXPECT_TRUE(std::equal(marked.begin(), marked.end(), fragment.data().begin()));
    ASSERT_TRUE(pump_both([&] { return (post = a().module().send(fragment, kTag)) != Post::again; }));
  }
  ASSERT_EQ(post, Post::done);
  EXPECT_FALSE(fragment);
  ASSERT_TRUE(pump_both([&] { return arrived == posted + 1; }));
  EXPECT_EQ(last, marked) << "it is the last, as it was posted";
}

/// Counts the messages of one tag.
struct Counter {
  void on_message(btl::Delivery& delivery) noexcept { sum += delivery.data.size() + delivery.tag; }
  std::size_t sum = 0;
};

TEST_P(Messages, ATagOfEveryLayerReachesItsHandler) {
  const Tag tags[] = {kAmTags.last,  kRuntimeTags.first,     kRuntimeTags.last, kMpiTags.first,
                      kMpiTags.last, kUserTags.first + 0x80, kUserTags.last};
  Counter counter;
  std::size_t expected = 0;
  for (const Tag tag : tags) {
    ASSERT_TRUE(b().handlers().set(tag, btl::bind<&Counter::on_message>(counter, "count")));
    Post post = Post::again;
    ASSERT_TRUE(
        pump_both([&] { return (post = a().module().send_inline(to_b(), tag, pattern(3, 1), {})) != Post::again; }));
    ASSERT_EQ(post, Post::done);
    expected += tag + std::size_t{3};
    ASSERT_TRUE(pump_both([&] { return counter.sum == expected; })) << tag;
  }
}

TEST_P(Messages, AMessageWithoutAHandlerIsDroppedAndTheNextOneArrives) {
  for (int i = 0; i < 300; ++i) {
    Post post = Post::again;
    ASSERT_TRUE(pump_both([&] {
      post = a().module().send_inline(to_b(), kUserTags.last, pattern(1000, 1), {});
      return post != Post::again;
    }));
    ASSERT_EQ(post, Post::done);
  }
  ASSERT_EQ(send_to_b({}, pattern(8, 3)), Post::done);
  ASSERT_TRUE(pump_both([&] { return b().received.size() == 1; }));
  EXPECT_EQ(b().received[0], pattern(8, 3));
}

TEST_P(Messages, SendsBesideTheModulesLockKeepTheOrderOfTheOthers) {
  static SpinLock lock;  // the endpoint outlives the test's own objects
  ASSERT_EQ(send_to_b({}, {}), Post::done);
  ASSERT_TRUE(pump_both([&] { return b().received.size() == 1; }));
  btl::Endpoint& from_a = alone() ? to_b() : *b().accepted.at(0);
  to_b().send_lock = &lock;
  std::uint32_t next = 0;
  b().handler = [&](btl::Delivery& delivery) {
    std::uint32_t number = 0;
    ASSERT_TRUE(read_object(delivery.data, number));
    EXPECT_EQ(number, next++);
  };
  for (std::uint32_t number = 0; number < 3000; ++number) {
    Post post = Post::again;
    if (number % 3 != 0) {
      const std::lock_guard guard{lock};
      post = a().module().send_beside(to_b(), kTag, bytes_of(number), {});
    }
    if (post == Post::again) post = send_to_b(bytes_of(number), {});
    ASSERT_EQ(post, Post::done);
    if (number % 5 == 0) b().module().progress_from(from_a, 2);
  }
  EXPECT_TRUE(pump_both([&] { return next == 3000; }));
}

TEST_P(Messages, HandlersMayAnswerAndProgressInsideThemDoesNothing) {
  constexpr int kRounds = 2000;
  int rounds = 0;
  std::size_t nested = 0;
  auto answer = [&](Side& self) {
    return [&](btl::Delivery& delivery) {
      nested += self.module().progress(64);
      if (++rounds >= kRounds) return;
      const Post post = self.module().send_inline(delivery.from, kTag, delivery.data, {});
      ASSERT_NE(post, Post::failed);
      ASSERT_EQ(post, Post::done) << "one message in flight always fits";
    };
  };
  a().handler = answer(a());
  if (!alone()) b().handler = answer(b());
  ASSERT_EQ(send_to_b({}, pattern(64, 5)), Post::done);
  EXPECT_TRUE(pump_both([&] { return rounds >= kRounds; }));
  EXPECT_EQ(nested, 0U);
}

TEST_P(Messages, AFragmentIsFilledInPlaceShrunkAndSent) {
  const std::size_t sizes[] = {1, 64, 1000, a().module().attributes().max_send};
  for (const std::size_t size : sizes) {
    btl::Fragment fragment;
    ASSERT_TRUE(pump_both([&] { return static_cast<bool>(fragment = a().module().alloc(to_b(), size)); }));
    ASSERT_GE(fragment.data().size(), size);
    fragment.shrink(size);
    const auto message = pattern(size, static_cast<std::uint32_t>(size));
    std::memcpy(fragment.data().data(), message.data(), size);
    Post post = Post::again;
    ASSERT_TRUE(pump_both([&] { return (post = a().module().send(fragment, kTag)) != Post::again; }));
    ASSERT_EQ(post, Post::done);
    EXPECT_FALSE(fragment);
    const std::size_t count = b().received.size() + 1;
    ASSERT_TRUE(pump_both([&] { return b().received.size() >= count || !b().received.empty(); }));
    EXPECT_EQ(b().received.back(), message);
    b().received.clear();
  }
}

TEST_P(Messages, FragmentsThatAreNeverSentComeBack) {
  for (int i = 0; i < 20'000; ++i) {
    btl::Fragment fragment;
    ASSERT_TRUE(pump_both([&] { return static_cast<bool>(fragment = a().module().alloc(to_b(), 1024)); })) << i;
  }
  EXPECT_TRUE(b().received.empty());
}

TEST_P(Messages, APreparedFragmentHasACopyOfThePayload) {
  const auto header = pattern(16, 1);
  const std::size_t max = a().module().attributes().max_send;
  for (const std::size_t size : {std::size_t{0}, std::size_t{100}, max - header.size()}) {
    auto payload = pattern(size, 9);
    btl::Fragment fragment;
    ASSERT_TRUE(
        pump_both([&] { return static_cast<bool>(fragment = a().module().prepare_src(to_b(), header, payload)); }));
    std::fill(payload.begin(), payload.end(), std::byte{0xee});  // ours again: the message must not change
    Post post = Post::again;
    ASSERT_TRUE(pump_both([&] { return (post = a().module().send(fragment, kTag)) != Post::again; }));
    ASSERT_EQ(post, Post::done);
    ASSERT_TRUE(pump_both([&] { return b().received.size() == 1; }));
    auto expected = header;
    const auto original = pattern(size, 9);
    expected.insert(expected.end(), original.begin(), original.end());
    EXPECT_EQ(b().received[0], expected);
    b().received.clear();
  }
}

TEST_P(MessagesOfMany, ManySendersReachOneReceiverAndEachKeepsItsOrder) {
  constexpr std::uint32_t kSenders = 12;
  constexpr std::uint32_t kEach = 800;
  std::vector<std::unique_ptr<Side>> senders;
  std::vector<btl::Endpoint*> routes;
  for (std::uint32_t i = 0; i < kSenders; ++i) {
    senders.push_back(std::make_unique<Side>(GetParam()));
    routes.push_back(senders.back()->connect(b()));
  }
  std::vector<std::uint32_t> next(kSenders);
  b().handler = [&](btl::Delivery& delivery) {
    std::uint32_t who[2] = {};
    ASSERT_GE(delivery.data.size(), sizeof who);
    std::memcpy(who, delivery.data.data(), sizeof who);
    ASSERT_LT(who[0], kSenders);
    ASSERT_EQ(who[1], next[who[0]]++);
  };
  const auto small = pattern(16, 1);
  const auto large = pattern(2500, 2);
  std::vector<std::uint32_t> sent(kSenders);
  ASSERT_TRUE(pump(
      [&] {
        bool all = true;
        for (std::uint32_t i = 0; i < kSenders; ++i) {
          senders[i]->module().progress(16);
          // As many as go: the receiver is always the bottleneck.
          while (sent[i] < kEach) {
            const std::uint32_t who[2] = {i, sent[i]};
            const Post post = senders[i]->module().send_inline(*routes[i], kTag, std::as_bytes(std::span{who}),
                                                               sent[i] % 7 == 0 ? large : small);
            if (post != Post::done) break;
            ++sent[i];
          }
          all = all && next[i] == kEach;
        }
        return all;
      },
      b()));
}

}  // namespace
}  // namespace opal::test
