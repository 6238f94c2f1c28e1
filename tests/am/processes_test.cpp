// SPDX-License-Identifier: Apache-2.0
// Two Contexts in two processes: messages, one-sided access, and the death of one of them.
#include <cstring>

#include "tests/am/pair.hpp"
#include "tests/harness/child.hpp"

namespace opal::test {
namespace {

class TwoProcesses : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Over, TwoProcesses, ::testing::ValuesIn(joining_transports(btl::Reach::others)),
                         [](const auto& info) { return info.param; });

/// What the child has: it answers every message with one of the same bytes, until its parent says stop or kills it.
int serve(Channel& parent, const std::string& transport) {
  struct Echo {
    void on_message(btl::Delivery& delivery) noexcept {
      (void)am::sender(delivery).send_or_queue(kTag, delivery.data, {});
    }
  } echo;
  config::Store store;
  store.set("am_transports", transport);
  auto context = am::Context::open(store, {.registry = &all_transports()});
  if (!context || !(*context)->set_handler(kTag, btl::bind<&Echo::on_message>(echo, "echo"))) return 1;
  std::vector<std::uint64_t> memory(1000, 1);
  auto region = (*context)->register_memory(memory.data(), memory.size() * 8, Rights::all);
  if (!region) return 2;
  const auto middle = reinterpret_cast<std::uint64_t>(&memory[500]);
  parent.send((*context)->address());
  parent.send(region->key());
  parent.send(bytes_of(middle));
  while (!parent.ready()) (*context)->wait(std::chrono::milliseconds{10});
  return memory[499] == 1 && memory[500] == 2 && memory[501] == 1 ? 0 : 3;
}

struct Server {
  explicit Server(const std::string& transport)
      : child([transport](Channel& parent) { return serve(parent, transport); }) {}
  Child child;
};

TEST_P(TwoProcesses, EchoAndPutIntoTheMiddle) {
  Server server{GetParam()};
  Side side{GetParam()};
  auto peer = side.context->connect(server.child.channel().receive());
  ASSERT_TRUE(peer);
  for (std::uint64_t i = 0; i < 1000; ++i) ASSERT_EQ((*peer)->send_or_queue(kTag, bytes_of(i), {}), Post::done);
  EXPECT_TRUE(pump([&] { return side.messages == 1000; }, *side.context));

  auto key = (*peer)->unpack_key(server.child.channel().receive());
  ASSERT_TRUE(key);
  std::uint64_t middle = 0;
  ASSERT_TRUE(read_object(ByteSpan{server.child.channel().receive()}, middle));
  const std::uint64_t value = 2;
  EXPECT_EQ(finish([&](Completion& end) { return (*peer)->put(&value, middle, *key, 8, end); }, *side.context).code,
            Errc{});
  server.child.channel().send("stop");
  EXPECT_EQ(server.child.wait(), 0);
}

TEST_P(TwoProcesses, AKilledPeerFailsItsEndpointAndTellsTheObserver) {
  Server server{GetParam()};
  Side side{GetParam()};
  auto peer = side.context->connect(server.child.channel().receive());
  ASSERT_TRUE(peer);
  const std::uint64_t word = 1;
  ASSERT_EQ((*peer)->send_or_queue(kTag, bytes_of(word), {}), Post::done);
  ASSERT_TRUE(pump([&] { return side.messages == 1; }, *side.context));
  server.child.kill();
  ASSERT_TRUE(server.child.wait());
  EXPECT_TRUE(side.context->wait_until([&] { return side.failed == 1; }, std::chrono::seconds{20}));
  EXPECT_TRUE((*peer)->dead());
  EXPECT_EQ((*peer)->send_or_queue(kTag, bytes_of(word), {}), Post::failed);
  EXPECT_EQ((*peer)->error().code, Errc::peer_gone) << to_string((*peer)->error());
  side.context->disconnect(**peer);
}

TEST_P(TwoProcesses, APeerKilledUnderAFullQueueThrowsTheQueueAway) {
  Server server{GetParam()};
  Side side{GetParam()};
  auto peer = side.context->connect(server.child.channel().receive());
  ASSERT_TRUE(peer);
  const std::vector<std::byte> payload(1000);
  server.child.kill();
  ASSERT_TRUE(server.child.wait());
  Post post = Post::done;
  for (int i = 0; i < 100'000 && post == Post::done; ++i) post = (*peer)->send_or_queue(kTag, {}, payload);
  EXPECT_EQ(post, Post::failed) << "dead, or more than am_pending_limit";
  EXPECT_TRUE(side.context->wait_until([&] { return side.failed == 1; }, std::chrono::seconds{20}));
  EXPECT_TRUE((*peer)->dead());
  side.context->disconnect(**peer);
  side.context->progress();
}

}  // namespace
}  // namespace opal::test
