// SPDX-License-Identifier: Apache-2.0
// What is special about a process that talks to itself; the rest is in the conformance suite.
#include <gtest/gtest.h>

#include <vector>

#include "opal/btl/self/module.hpp"

namespace opal::test {
namespace {

constexpr Tag kTag = kUserTags.first;

struct Self : ::testing::Test, btl::Observer {
  void open(std::size_t ring) {
    auto opened = btl::self::Module::open(btl::ModuleParameters{id, handlers, registrations, *this}, ring);
    ASSERT_TRUE(opened);
    module = std::move(*opened);
    endpoint = *module->connect(id, module->address());
    ASSERT_TRUE(handlers.set(kTag, btl::bind<&Self::on_message>(*this, "test")));
  }
  void on_accepted(btl::Endpoint&) noexcept override {}
  void on_failed(btl::Endpoint&, const Error&) noexcept override {}
  void on_message(btl::Delivery& delivery) noexcept {
    std::uint32_t number = 0;
    ASSERT_TRUE(read_object(delivery.data, number));
    numbers.push_back(number);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(delivery.data.data()) % 8, 0U);
    if (answer) {
      answer = false;
      const std::uint32_t next = number + 1;
      EXPECT_EQ(module->send_inline(*endpoint, kTag, bytes_of(next), {}), Post::done);
      EXPECT_EQ(numbers.back(), number) << "delivered inside the send";
    }
  }

  PeerId id = PeerId::random();
  btl::HandlerTable handlers;
  btl::RegistrationTable registrations = *btl::RegistrationTable::create(16);
  std::unique_ptr<btl::Module> module;
  btl::Endpoint* endpoint = nullptr;
  std::vector<std::uint32_t> numbers;
  bool answer = false;
};

TEST_F(Self, MessagesThatWaitWhenTheEndpointIsDisconnectedAreDropped) {
  open(4096);
  std::uint32_t number = 1;
  for (; number <= 20; ++number) ASSERT_EQ(module->send_inline(*endpoint, kTag, bytes_of(number), {}), Post::done);
  module->disconnect(*endpoint);
  EXPECT_EQ(module->progress(64), 0U);
  const auto again = module->connect(id, module->address());
  ASSERT_TRUE(again);
  endpoint = *again;
  for (; number <= 400; ++number) {
    ASSERT_EQ(module->send_inline(*endpoint, kTag, bytes_of(number), {}), Post::done);
    ASSERT_EQ(module->progress(64), 1U);
    ASSERT_EQ(numbers.back(), number);
  }
}

TEST_F(Self, AMessageSentByAHandlerIsDeliveredAfterItReturned) {
  open(64U << 10);
  const std::uint32_t first = 1;
  answer = true;
  ASSERT_EQ(module->send_inline(*endpoint, kTag, bytes_of(first), {}), Post::done);
  EXPECT_TRUE(numbers.empty()) << "nothing is delivered from inside a send";
  while (module->progress(1) != 0) {
  }
  EXPECT_EQ(numbers, (std::vector<std::uint32_t>{1, 2}));
}

TEST_F(Self, TheRingFillsWrapsAndKeepsTheOrder) {
  open(4096);
  std::uint32_t sent = 0;
  std::uint32_t refused = 0;
  const std::vector<std::byte> payload(700);
  while (sent < 2000) {
    const Post post = module->send_inline(*endpoint, kTag, bytes_of(sent), ByteSpan{payload}.first(sent * 37 % 700));
    if (post == Post::done) {
      ++sent;
      continue;
    }
    ASSERT_EQ(post, Post::again);
    ++refused;
    module->progress(1 + refused % 3);
  }
  while (module->progress(64) != 0) {
  }
  ASSERT_EQ(numbers.size(), 2000U);
  for (std::uint32_t i = 0; i < 2000; ++i) ASSERT_EQ(numbers[i], i);
  EXPECT_GT(refused, 0U);
}

TEST_F(Self, AnotherPeerIsNotReached) {
  open(64U << 10);
  const auto other = module->connect(PeerId::random(), {});
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, Errc::unreachable);
}

TEST_F(Self, AnAtomicIsCheckedLikeAtAStranger) {
  open(64U << 10);
  std::uint64_t words[2] = {10, 20};
  const auto handle = module->register_memory(words, sizeof words, Rights::remote_atomic);
  ASSERT_TRUE(handle);
  const auto base = reinterpret_cast<std::uint64_t>(words);
  std::uint64_t old = 0;
  Completion completion;
  AtomicRequest request{AtomicOp::add, AtomicType::u64, base + 8, &*handle, 5, 0, &old};
  EXPECT_EQ(module->atomic(*endpoint, request, completion), Post::done);
  EXPECT_EQ(old, 20U);
  EXPECT_EQ(words[1], 25U);
  request.remote_address = base + 4;
  EXPECT_EQ(module->atomic(*endpoint, request, completion), Post::failed);
  EXPECT_EQ(completion.error.code, Errc::invalid_argument);
  request.remote_address = base + 16;
  EXPECT_EQ(module->atomic(*endpoint, request, completion), Post::failed);
  EXPECT_EQ(module->put(*endpoint, &old, nullptr, base, *handle, 8, completion), Post::failed);
  EXPECT_EQ(completion.error.code, Errc::permission);
  EXPECT_EQ(words[0], 10U);
}

}  // namespace
}  // namespace opal::test
