// SPDX-License-Identifier: Apache-2.0
// Messages larger than max_send over every transport: content, order, bounds, refusals, and peers that go meanwhile.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/am/pair.hpp"

namespace opal::test {
namespace {

constexpr Tag kLarge = kTag + 1;
constexpr Tag kUnhandled = kTag + 2;

std::byte byte_at(std::uint64_t number, std::size_t place) { return static_cast<std::byte>(number * 7 + place % 251); }

std::vector<std::byte> pattern(std::uint64_t number, std::size_t size) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = byte_at(number, i);
  return bytes;
}

/// The messages of kLarge that one side received: each is a number, and a pattern that depends on it.
struct Receiver {
  explicit Receiver(am::Context& context, const am::BufferSource& source = {}) {
    const auto handler = btl::bind<&Receiver::on_message>(*this, "large");
    EXPECT_TRUE(source.allocate != nullptr ? context.set_handler(kLarge, handler, source)
                                           : context.set_handler(kLarge, handler));
  }
  void on_message(btl::Delivery& delivery) noexcept {
    std::uint64_t number = 0;
    intact =
        intact && read_object(delivery.data, number) && reinterpret_cast<std::uintptr_t>(delivery.data.data()) % 8 == 0;
    const ByteSpan payload = delivery.data.subspan(sizeof number);
    for (std::size_t i = 0; i < payload.size(); ++i) intact = intact && payload[i] == byte_at(number, i);
    numbers.push_back(number);
    sizes.push_back(payload.size());
    data = delivery.data.data();
    if (answer != nullptr) {
      EXPECT_EQ(am::sender(delivery).send(kLarge, bytes_of(number), *answer, *answer_end), Post::queued);
    }
  }
  bool intact = true;
  std::vector<std::uint64_t> numbers;
  std::vector<std::size_t> sizes;
  const std::byte* data = nullptr;
  const std::vector<std::byte>* answer = nullptr;  // to send to the sender of each message
  Flag* answer_end = nullptr;
};

config::Store with_limit(const std::string& limit) {
  config::Store store;
  store.set("am_large_limit", limit);
  return store;
}

class LargeMessage : public ::testing::TestWithParam<std::string> {
 protected:
  void connect() {
    to_b = *a->context->connect(b->context->address());
    ASSERT_EQ(to_b->send_or_queue(kTag, bytes_of(std::uint64_t{0}), {}), Post::done);
    ASSERT_TRUE(pump_both([&] { return b->messages == 1; }));
  }
  template <class Condition>
  [[nodiscard]] bool pump_both(Condition condition) {
    return pump(condition, *a->context, *b->context);
  }
  [[nodiscard]] std::size_t max_send() const { return to_b->attributes().max_send; }
  Post send(std::uint64_t number, const std::vector<std::byte>& payload, Completion& end, Tag tag = kLarge) {
    return to_b->send(tag, bytes_of(number), payload, end);
  }

  std::unique_ptr<Side> a = std::make_unique<Side>(GetParam());
  std::unique_ptr<Side> b = std::make_unique<Side>(GetParam(), am::ThreadLevel::single, std::nullopt, with_limit("1M"));
  am::Endpoint* to_b = nullptr;
};
INSTANTIATE_TEST_SUITE_P(Over, LargeMessage, ::testing::ValuesIn(joining_transports()),
                         [](const auto& info) { return info.param; });

TEST_P(LargeMessage, OfAnySizeArrivesInOnePieceAndCompletesOnceItsHandlerHasRun) {
  connect();
  Receiver receiver{*b->context};
  std::uint64_t number = 0;
  for (const std::size_t size :
       {std::size_t{0}, max_send() - 8, max_send() - 7, 2 * max_send(), std::size_t{900'001}}) {
    ++number;
    const auto payload = pattern(number, size);
    Flag end;
    const Post post = send(number, payload, end);
    EXPECT_EQ(post, size + 8 <= max_send() ? Post::done : Post::queued);
    ASSERT_TRUE(pump_both([&] {
      EXPECT_TRUE(end.calls == 0 || receiver.numbers.size() == number) << "the completion follows the handler";
      return receiver.numbers.size() == number && (post == Post::done || end.calls != 0);
    }));
    EXPECT_TRUE(end.ok());
    EXPECT_EQ(receiver.numbers.back(), number);
    EXPECT_EQ(receiver.sizes.back(), size);
    EXPECT_EQ(end.calls, post == Post::queued ? 1 : 0);
  }
  EXPECT_TRUE(receiver.intact);
}

TEST_P(LargeMessage, MoreThanTheReceiverHoldsAndMayBeInFlightArriveInOrder) {
  connect();
  Receiver receiver{*b->context};
  constexpr std::uint64_t kMessages = 100;  // of 400 KiB: two fit; 64 offers may be in flight
  std::vector<std::vector<std::byte>> payloads;
  std::vector<Flag> ends(kMessages);
  for (std::uint64_t i = 0; i < kMessages; ++i) {
    payloads.push_back(pattern(i, 400 << 10));
    ASSERT_EQ(send(i, payloads.back(), ends[i]), Post::queued);
  }
  ASSERT_TRUE(
      pump_both([&] { return std::all_of(ends.begin(), ends.end(), [](const Flag& end) { return end.calls != 0; }); }));
  EXPECT_TRUE(receiver.intact);
  ASSERT_EQ(receiver.numbers.size(), kMessages);
  EXPECT_TRUE(std::is_sorted(receiver.numbers.begin(), receiver.numbers.end()));
  for (const Flag& end : ends) EXPECT_TRUE(end.ok() && end.calls == 1);
}

TEST_P(LargeMessage, DoesNotOvertakeAnEarlierShortOne) {
  connect();
  Receiver receiver{*b->context};
  const auto payload = pattern(999, 400'000);
  Flag end;
  for (std::uint64_t i = 0; i < 1000; ++i) ASSERT_EQ(to_b->send_or_queue(kLarge, bytes_of(i), {}), Post::done);
  ASSERT_EQ(send(999, payload, end), Post::queued);
  ASSERT_TRUE(pump_both([&] { return end.calls != 0; }));
  ASSERT_EQ(receiver.numbers.size(), 1001u);
  EXPECT_EQ(receiver.sizes.back(), payload.size());
}

TEST_P(LargeMessage, IsRefusedWithTheReasonWhereItCannotBeTaken) {
  connect();
  Receiver receiver{*b->context};
  const auto payload = pattern(1, 2 << 20);
  EXPECT_EQ(finish([&](Completion& end) { return send(1, payload, end); }, *a->context, *b->context).code,
            Errc::limit_reached);
  EXPECT_EQ(finish([&](Completion& end) { return send(1, payload, end, kUnhandled); }, *a->context, *b->context).code,
            Errc::not_supported);
  Flag end;
  EXPECT_EQ(send(1, payload, end, Tag{0}), Post::failed);
  EXPECT_EQ(end.error.code, Errc::invalid_argument);
  EXPECT_EQ(send(1, payload, end, kAmTags.first), Post::failed) << "OPAL's own messages are short";
  EXPECT_EQ(to_b->send(kLarge, payload, {}, end), Post::failed) << "a header that does not fit into one message";
  EXPECT_TRUE(receiver.numbers.empty());
  EXPECT_EQ(end.calls, 0);
}

TEST_P(LargeMessage, ArrivesInTheBufferThatItsTagSupplies) {
  connect();
  struct Buffers {
    std::vector<std::byte> memory = std::vector<std::byte>(3 << 20);
    bool empty = false;
    int asked = 0;
    int released = 0;
    std::size_t size = 0;
  } buffers;
  const am::BufferSource source{
      .allocate = [](void* object, am::Endpoint&, Tag tag, ByteSpan header, std::size_t size) noexcept -> std::byte* {
        auto& all = *static_cast<Buffers*>(object);
        EXPECT_EQ(tag, kLarge);
        EXPECT_EQ(header.size(), 8u);
        ++all.asked;
        all.size = size;
        return all.empty ? nullptr : all.memory.data();
      },
      .release = [](void* object, std::byte*) noexcept { ++static_cast<Buffers*>(object)->released; },
      .object = &buffers};
  Receiver receiver{*b->context, source};
  const auto payload = pattern(3, 2 << 20);  // more than the library itself would hold
  const auto send_it = [&](Completion& end) { return send(3, payload, end); };
  EXPECT_EQ(finish(send_it, *a->context, *b->context).code, Errc{});
  EXPECT_TRUE(receiver.intact);
  EXPECT_EQ(receiver.data, buffers.memory.data());
  EXPECT_EQ(buffers.size, payload.size() + 8);
  EXPECT_EQ(buffers.released, 0) << "the handler has it";

  buffers.empty = true;
  EXPECT_EQ(finish(send_it, *a->context, *b->context).code, Errc::limit_reached);
  EXPECT_EQ(buffers.asked, 2);
  EXPECT_EQ(receiver.numbers.size(), 1u);

  b->context->clear_handler(kLarge);
  Receiver again{*b->context};
  EXPECT_EQ(finish(send_it, *a->context, *b->context).code, Errc::limit_reached) << "the source went with the handler";
}

TEST_P(LargeMessage, AHandlerMayAnswerWithALargeOne) {
  connect();
  const auto payload = pattern(4, 500'000);
  Receiver there{*b->context};
  Receiver here{*a->context};
  Flag answered;
  there.answer = &payload;
  there.answer_end = &answered;
  Flag end;
  ASSERT_EQ(send(4, payload, end), Post::queued);
  ASSERT_TRUE(pump_both([&] { return end.calls == 1 && answered.calls == 1; }));
  EXPECT_TRUE(end.ok() && answered.ok() && here.intact && there.intact);
  EXPECT_EQ(here.numbers, std::vector<std::uint64_t>{4});
}

TEST_P(LargeMessage, EndsAsCanceledWhenItsSenderDisconnects) {
  connect();
  Receiver receiver{*b->context};
  const auto payload = pattern(5, 500'000);
  std::vector<Flag> ends(100);  // some of them wait for a credit
  for (Flag& end : ends) ASSERT_EQ(send(5, payload, end), Post::queued);
  a->context->disconnect(*to_b);
  for (const Flag& end : ends) {
    EXPECT_EQ(end.calls, 1);
    EXPECT_EQ(end.error.code, Errc::canceled);
  }
  ASSERT_TRUE(pump_both([&] { return b->failed == 1; }));
}

TEST_P(LargeMessage, EndsOnceWithAnErrorWhenTheReceiverEnds) {
  connect();
  Receiver receiver{*b->context};
  const auto payload = pattern(6, 500'000);
  std::vector<Flag> ends(100);
  for (Flag& end : ends) ASSERT_EQ(send(6, payload, end), Post::queued);
  b->context->progress(1);
  b.reset();
  ASSERT_TRUE(pump([&] { return a->failed == 1; }, *a->context));
  for (const Flag& end : ends) EXPECT_EQ(end.calls, 1);
  EXPECT_EQ(ends.back().error.code, Errc::peer_gone);
  Flag late;
  EXPECT_EQ(send(6, payload, late), Post::failed);
  EXPECT_EQ(late.error.code, Errc::peer_gone);
}

TEST_P(LargeMessage, EndsOnceWhenItsContextEnds) {
  connect();
  Receiver receiver{*b->context};
  const auto payload = pattern(7, 500'000);
  std::vector<Flag> ends(70);
  for (Flag& end : ends) ASSERT_EQ(send(7, payload, end), Post::queued);
  b->context->progress(1);
  a.reset();
  for (const Flag& end : ends) EXPECT_EQ(end.calls, 1);
  EXPECT_EQ(ends.back().error.code, Errc::canceled);
}

TEST_P(LargeMessage, TheReceiverMayDisconnectInTheMiddle) {
  connect();
  Receiver receiver{*b->context};
  const auto payload = pattern(8, 500'000);
  std::vector<Flag> ends(10);
  for (Flag& end : ends) ASSERT_EQ(send(8, payload, end), Post::queued);
  b->context->progress(1);
  b->context->disconnect(*b->from);
  const std::size_t handled = receiver.numbers.size();
  ASSERT_TRUE(pump_both([&] { return a->failed == 1; }));
  EXPECT_EQ(receiver.numbers.size(), handled);
  for (const Flag& end : ends) EXPECT_EQ(end.calls, 1);
}

TEST_P(LargeMessage, WaitsForNoCheckpoint) {
  connect();
  Receiver receiver{*b->context};
  const auto payload = pattern(9, 500'000);
  Flag before;
  ASSERT_EQ(send(9, payload, before), Post::queued);
  a->context->quiesce(1);
  b->context->quiesce(1);
  Flag during;
  EXPECT_EQ(send(9, payload, during), Post::again);
  ASSERT_TRUE(pump_both([&] {
    const bool here = a->context->quiet();
    return b->context->quiet() && here;
  }));
  EXPECT_EQ(before.calls, 1) << "quiet means that nothing is in flight";
  a->context->resume();
  b->context->resume();
  EXPECT_EQ(finish([&](Completion& end) { return send(9, payload, end); }, *a->context, *b->context).code, Errc{});
}

TEST_P(LargeMessage, InAForkedChildPostsFailAndNothingOfTheParentEnds) {
  connect();
  Receiver receiver{*b->context};
  const auto payload = pattern(10, 500'000);
  Flag end;
  ASSERT_EQ(send(10, payload, end), Post::queued);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    Flag in_child;
    const std::uint64_t word = 0;
    const bool refused = send(10, payload, in_child) == Post::failed && in_child.error.code == Errc::not_supported &&
                         to_b->put_or_queue(&word, 0, MemoryHandle{}, 8, in_child) == Post::failed &&
                         !a->context->connect_async(b->context->address());
    a->context->progress();
    b->context->progress();
    a.reset();
    b.reset();
    ::_exit(refused && end.calls == 0 && receiver.numbers.empty() ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  ASSERT_TRUE(pump_both([&] { return end.calls == 1; }));
  EXPECT_TRUE(end.ok() && receiver.intact);
  EXPECT_EQ(receiver.numbers.size(), 1u);
}

TEST(LargeMessageToItself, ArrivesAsAnyOther) {
  Side a{"self"};
  Receiver receiver{*a.context};
  am::Endpoint* const self = *a.context->connect(a.context->address());
  const auto payload = pattern(2, 900'001);
  const std::uint64_t number = 2;
  EXPECT_EQ(
      finish([&](Completion& end) { return self->send(kLarge, bytes_of(number), payload, end); }, *a.context).code,
      Errc{});
  EXPECT_TRUE(receiver.intact);
  EXPECT_EQ(receiver.sizes, std::vector<std::size_t>{payload.size()});
}

TEST(LargeMessageOfThreads, SendersOfSeveralThreadsAreServed) {
  Side a{"sm", am::ThreadLevel::multiple};
  Side b{"sm", am::ThreadLevel::multiple};
  Receiver receiver{*b.context};
  am::Endpoint* const to_b = *a.context->connect(b.context->address());
  constexpr int kThreads = 3;
  constexpr int kEach = 40;
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      const auto payload = pattern(1, 200'000);
      const std::uint64_t number = 1;
      for (int i = 0; i < kEach; ++i) {
        std::atomic<bool> over{false};
        struct End : Completion {
          std::atomic<bool>* over;
        } end;
        end.over = &over;
        end.fn = [](Completion& self) noexcept { *static_cast<End&>(self).over = true; };
        if (to_b->send(kLarge, bytes_of(number), payload, end) != Post::queued) ++failures;
        if (!a.context->wait_until([&] { return over.load(); }, std::chrono::seconds{20}) || !end.ok()) ++failures;
      }
    });
  }
  std::atomic<bool> stop{false};
  std::thread progress{[&] {
    while (!stop) b.context->progress();
  }};
  for (std::thread& thread : threads) thread.join();
  stop = true;
  progress.join();
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(receiver.numbers.size(), std::size_t{kThreads * kEach});
  EXPECT_TRUE(receiver.intact);
}

}  // namespace
}  // namespace opal::test
