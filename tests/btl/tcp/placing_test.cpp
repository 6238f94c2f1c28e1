// SPDX-License-Identifier: Apache-2.0
// Long messages whose payload goes from the kernel to the memory that the handler names (Handler::place).
#include <sys/mman.h>

#include <algorithm>
#include <random>

#include "opal/core/system/mapping.hpp"
#include "tests/btl/tcp/side.hpp"

namespace opal::test {
namespace {

constexpr Tag kPlaced = kTag + 1;
constexpr std::size_t kMaxSend = 256 << 10;

struct Header {
  std::uint64_t number;
  std::uint64_t size;  // of the payload
};

struct TcpPlacing : ::testing::Test {
  struct Message {
    std::uint64_t number;
    std::size_t placed;
    bool lost;
    std::vector<std::byte> payload;  // wherever it is
  };

  void SetUp() override {
    ASSERT_TRUE(side.handlers.set(kPlaced, (btl::bind<&TcpPlacing::on_message, &TcpPlacing::place>(*this, "placed"))));
    peer.greet(side, PeerId::random(), kMaxSend);
    ASSERT_TRUE(pump([&] { return side.accepted.size() == 1; }, side));
  }

  btl::Place place(btl::Endpoint& from, ByteSpan head, std::size_t size) {
    EXPECT_EQ(&from, side.accepted.at(0));
    Header header{};
    if (!read_object(head, header)) return {};
    EXPECT_EQ(size, sizeof header + header.size);
    if (questions++ >= most_questions) return {};
    return {memory, sizeof header};
  }

  void on_message(btl::Delivery& delivery) noexcept {
    Header header{};
    ASSERT_TRUE(read_object(delivery.data, header));
    const ByteSpan rest = delivery.data.subspan(sizeof header);
    ASSERT_TRUE(delivery.placed == 0 || rest.empty());
    Message message{header.number, delivery.placed, delivery.lost, {rest.begin(), rest.end()}};
    if (delivery.placed != 0 && !delivery.lost) message.payload.assign(memory, memory + delivery.placed);
    messages.push_back(std::move(message));
  }

  static std::vector<std::byte> framed(std::uint64_t number, const std::vector<std::byte>& payload) {
    const Header header{number, payload.size()};
    const std::size_t size = sizeof header + payload.size();
    const btl::tcp::wire::Frame frame{static_cast<std::uint32_t>(size), kPlaced, 1};
    std::vector<std::byte> bytes(btl::tcp::wire::frame_size(size));
    auto end = std::ranges::copy(bytes_of(frame), bytes.begin()).out;
    end = std::ranges::copy(bytes_of(header), end).out;
    std::ranges::copy(payload, end);
    return bytes;
  }

  /// Sends bytes [from, to) of `stream`, and lets the side read them.
  void say(const std::vector<std::byte>& stream, std::size_t from, std::size_t to) {
    peer.say(ByteSpan{stream}.subspan(from, to - from));
    for (int round = 0; round < 100; ++round) side.module->progress(64);
  }

  TcpSide side;
  RawPeer peer{side.port()};
  std::vector<std::byte> own = std::vector<std::byte>(kMaxSend);
  std::byte* memory = own.data();
  int questions = 0;
  int most_questions = 1 << 30;
  std::vector<Message> messages;
};

TEST_F(TcpPlacing, APayloadOfWhichTheBeginHasArrivedGoesToItsPlace) {
  const auto payload = pattern(200'000, 1);
  const auto stream = framed(7, payload);
  say(stream, 0, 100);
  EXPECT_EQ(messages.size(), 0U);
  say(stream, 100, stream.size());
  ASSERT_TRUE(pump([&] { return messages.size() == 1; }, side));
  EXPECT_EQ(messages[0].number, 7U);
  EXPECT_EQ(messages[0].placed, payload.size());
  EXPECT_FALSE(messages[0].lost);
  EXPECT_TRUE(messages[0].payload == payload);
}

TEST_F(TcpPlacing, EveryMessageIsWholeHoweverTheStreamIsCut) {
  for (unsigned seed = 0; seed < 30; ++seed) {
    std::mt19937 random{seed};
    const auto up_to = [&](std::size_t most) { return std::uniform_int_distribution<std::size_t>{0, most}(random); };
    std::vector<std::byte> stream;
    std::vector<std::vector<std::byte>> sent;
    messages.clear();
    for (unsigned i = 0; i < 12; ++i) {
      sent.push_back(pattern(up_to(3) == 0 ? up_to(100) : up_to(kMaxSend - sizeof(Header)), seed + i));
      const auto one = framed(i, sent.back());
      stream.insert(stream.end(), one.begin(), one.end());
    }
    for (std::size_t begin = 0; begin < stream.size();) {
      const std::size_t end = std::min(stream.size(), begin + 1 + up_to(up_to(1) == 0 ? 64 : 150'000));
      say(stream, begin, end);
      begin = end;
    }
    ASSERT_TRUE(pump([&] { return messages.size() == sent.size(); }, side));
    for (std::size_t i = 0; i < sent.size(); ++i) {
      ASSERT_EQ(messages[i].number, i);
      ASSERT_FALSE(messages[i].lost);
      ASSERT_TRUE(messages[i].payload == sent[i]) << "seed " << seed << " message " << i;
    }
  }
}

TEST_F(TcpPlacing, APlaceThatEndsMidwayLosesItsMessageAndNoOther) {
  std::vector<std::byte> stream = framed(1, pattern(200'000, 1));
  const std::size_t end = stream.size();
  const auto next = pattern(1000, 2);
  std::ranges::copy(framed(2, next), std::back_inserter(stream));
  most_questions = 1;
  say(stream, 0, 100'000);
  ASSERT_GE(questions, 1);
  std::ranges::fill(own, std::byte{});
  say(stream, 100'000, end - 100);
  say(stream, end - 100, stream.size());
  ASSERT_TRUE(pump([&] { return messages.size() == 2; }, side));
  EXPECT_TRUE(messages[0].lost);
  EXPECT_TRUE(std::ranges::all_of(own, [](std::byte byte) { return byte == std::byte{}; }))
      << "nothing is written after the place has ended";
  EXPECT_FALSE(messages[1].lost);
  EXPECT_TRUE(messages[1].payload == next);
  EXPECT_TRUE(side.failures.empty());
}

TEST_F(TcpPlacing, MemoryThatIsUnmappedMidwayLosesItsMessageAndNoOther) {
  for (const std::size_t arrived : {std::size_t{50}, std::size_t{100'000}}) {
    messages.clear();
    auto mapping = Mapping::anonymous(kMaxSend, false);
    ASSERT_TRUE(mapping);
    memory = mapping->bytes().data();
    std::vector<std::byte> stream = framed(1, pattern(200'000, 1));
    const auto next = pattern(60'000, 2);
    const std::size_t end = stream.size();
    say(stream, 0, arrived);
    ASSERT_EQ(::mprotect(memory, kMaxSend, PROT_NONE), 0);
    say(stream, arrived, end);
    ASSERT_TRUE(pump([&] { return messages.size() == 1; }, side));
    EXPECT_TRUE(messages[0].lost);
    memory = own.data();
    stream = framed(2, next);
    say(stream, 0, stream.size());
    ASSERT_TRUE(pump([&] { return messages.size() == 2; }, side));
    EXPECT_TRUE(messages[1].payload == next);
    EXPECT_TRUE(side.failures.empty());
  }
}

/// The kernel reports the error at once, or first the number of bytes of the packets before it; the rest stays in the
/// socket, and nothing announces it again.
TEST_F(TcpPlacing, MemoryOfWhichTheEndIsUnmappedLosesItsMessageAndNoOther) {
  auto mapping = Mapping::anonymous(kMaxSend, false);
  ASSERT_TRUE(mapping);
  memory = mapping->bytes().data();
  constexpr std::size_t kAccessible = 24 << 10;
  ASSERT_EQ(::mprotect(memory + kAccessible, kMaxSend - kAccessible, PROT_NONE), 0);
  const auto next = pattern(1000, 2);
  std::vector<std::byte> stream = framed(1, pattern(50'000, 1));
  std::ranges::copy(framed(2, next), std::back_inserter(stream));
  say(stream, 0, 100);
  // Not more than the window of a new connection: all is in the socket before the first read.
  peer.say(ByteSpan{stream}.subspan(100, 20'000));
  peer.say(ByteSpan{stream}.subspan(20'100));
  // Only by events of the kernel, as a program that sleeps.
  while (messages.size() < 2) {
    pollfd fd{side.module->wait_fd(), POLLIN, 0};
    if (side.module->arm()) {
      ASSERT_EQ(::poll(&fd, 1, 10'000), 1) << "input that nothing announces";
    }
    side.module->progress(64);
  }
  EXPECT_TRUE(messages[0].lost);
  EXPECT_TRUE(messages[1].payload == next);
  EXPECT_TRUE(side.failures.empty());
}

/// The endpoint asks again after each read, and the budget of a progress() may end between two.
TEST_F(TcpPlacing, AMessageAtEachSizeAroundTheLimitArrivesWithAnyBudget) {
  for (const std::size_t missing : {16'383, 16'384, 16'385, 20'480, 20'481}) {
    for (const std::size_t budget : {1, 2, 64}) {
      messages.clear();
      const auto first = pattern(missing, 1);
      const auto second = pattern(missing + 60'000, 2);
      std::vector<std::byte> stream = framed(1, first);
      std::ranges::copy(framed(2, second), std::back_inserter(stream));
      peer.say(ByteSpan{stream}.first(sizeof(btl::tcp::wire::Frame) + sizeof(Header)));
      side.module->progress(budget);
      peer.say(ByteSpan{stream}.subspan(sizeof(btl::tcp::wire::Frame) + sizeof(Header)));
      const Deadline deadline = Deadline::after(std::chrono::seconds{20});
      while (messages.size() < 2 && !deadline.expired()) side.module->progress(budget);
      ASSERT_EQ(messages.size(), 2U);
      EXPECT_TRUE(messages[0].payload == first) << missing;
      EXPECT_TRUE(messages[1].payload == second) << missing;
    }
  }
}

}  // namespace
}  // namespace opal::test
