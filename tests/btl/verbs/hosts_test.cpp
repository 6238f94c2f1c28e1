// SPDX-License-Identifier: Apache-2.0
// Two hosts: a network that loses packets, ports that go down, the death of a whole host under traffic.  tests/vm/suite
// runs this in two guests at once, with VM_RANK set and VM_SHARED naming an empty folder that both see.
#include <cstdlib>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/conformance/side.hpp"

namespace opal::test {
namespace {

constexpr std::size_t kRegion = 1 << 20;
constexpr std::size_t kBody = 3000;
constexpr std::uint32_t kLast = ~0U;  // the number of a message that is not followed by another

class VerbsHosts : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* const rank = std::getenv("VM_RANK");
    const char* const shared = std::getenv("VM_SHARED");
    if (rank == nullptr || shared == nullptr) GTEST_SKIP() << "needs rdma: tests/vm/suite runs this on two hosts";
    rank_ = std::atoi(rank);
    shared_ = shared;
    side_ = std::make_unique<Side>("verbs");
    const MemoryHandle handle = *side_->module().register_memory(memory_.data(), memory_.size(), Rights::all);
    publish("blob", side_->blob());
    publish("base", bytes_of(reinterpret_cast<std::uint64_t>(memory_.data())));
    publish("key", handle.bytes());
  }

  /// For the other host's await(), whole or not at all.
  void publish(const std::string& what, ByteSpan bytes) const {
    const std::string name = shared_ + "/" + what + "." + std::to_string(rank_);
    std::ofstream{name + ".new", std::ios::binary}.write(reinterpret_cast<const char*>(bytes.data()),
                                                         static_cast<std::streamsize>(bytes.size()));
    std::filesystem::rename(name + ".new", name);
  }
  [[nodiscard]] std::vector<std::byte> await(const std::string& what) const {
    const std::string name = shared_ + "/" + what + "." + std::to_string(1 - rank_);
    const Deadline deadline = Deadline::after(std::chrono::seconds{120});
    while (!std::filesystem::exists(name)) {
      if (deadline.expired()) throw std::runtime_error{"the other host never published " + what};
      side_->module().progress(16);  // the other host may need it
      std::this_thread::sleep_for(std::chrono::milliseconds{5});
    }
    std::vector<std::byte> bytes(std::filesystem::file_size(name));
    std::ifstream{name, std::ios::binary}.read(reinterpret_cast<char*>(bytes.data()),
                                               static_cast<std::streamsize>(bytes.size()));
    return bytes;
  }

  void connect() {
    peer_ = side_->connect(await("blob"));
    ASSERT_TRUE(read_object(await("base"), base_));
    remote_ = *MemoryHandle::from_bytes(await("key"));
  }
  Post post_put(const std::byte* from, std::uint64_t offset, std::size_t size, Completion& completion) {
    return side_->module().put(*peer_, from, nullptr, base_ + offset, remote_, size, completion);
  }
  Post post_get(std::byte* to, std::uint64_t offset, std::size_t size, Completion& completion) {
    return side_->module().get(*peer_, to, nullptr, base_ + offset, remote_, size, completion);
  }
  /// Posts, and waits for the end.
  void finish(const std::function<Post(Completion&)>& post) {
    CountedCompletion completion;
    Post answer = Post::again;
    ASSERT_TRUE(pump([&] { return (answer = post(completion)) != Post::again; }, *side_));
    ASSERT_NE(answer, Post::failed) << to_string(completion.error);
    if (answer == Post::queued) {
      ASSERT_TRUE(pump([&] { return completion.calls != 0; }, *side_));
    }
    ASSERT_TRUE(completion.ok()) << to_string(completion.error);
  }

  /// Messages of number and pattern, in order; `ended_` when the last was there.
  void take_in_order() {
    side_->handler = [this](btl::Delivery& delivery) {
      std::uint32_t number = 0;
      ASSERT_TRUE(read_object(delivery.data, number));
      if (number == kLast) {
        ended_ = true;
        return;
      }
      ASSERT_EQ(number, next_++);
      ASSERT_EQ(delivery.data.size(), sizeof number + kBody);
      ASSERT_EQ(std::memcmp(delivery.data.data() + sizeof number, pattern(kBody, number).data(), kBody), 0);
    };
  }
  void send_numbered(std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i, ++next_) {
      ASSERT_EQ(send(*peer_, bytes_of(next_), pattern(kBody, next_), *side_), Post::done) << next_;
    }
  }

  /// Receives so many messages, after which the memory has to hold `bytes`; both hosts end together.
  void expect(std::uint32_t messages, const std::vector<std::byte>& bytes) {
    take_in_order();
    ASSERT_TRUE(pump([&] { return ended_; }, *side_));
    EXPECT_EQ(next_, messages);
    EXPECT_TRUE(memory_ == bytes);
    EXPECT_TRUE(side_->failures.empty()) << to_string(side_->failures[0].why);
    publish("checked", {});
    (void)await("checked");
  }

  /// Keeps operations under way until the peer is reported as lost.  `trouble` is called, until it says true, once so
  /// many have ended and so many are under way that some may fail.  Each operation has to end once; returns the errors
  /// of those that failed.
  std::vector<Error> end_everything_by(const std::function<bool()>& trouble);

  int rank_ = 0;
  std::string shared_;
  std::vector<std::byte> memory_ = std::vector<std::byte>(kRegion);
  std::unique_ptr<Side> side_;
  btl::Endpoint* peer_ = nullptr;
  std::uint64_t base_ = 0;  // of the peer's memory
  MemoryHandle remote_;
  std::uint32_t next_ = 0;
  bool ended_ = false;
};

TEST_F(VerbsHosts, EveryMessagePutAndGetArrivesThoughPacketsAreLost) {
  constexpr std::uint32_t kMessages = 400;
  const auto bytes = pattern(kRegion, 9);
  if (rank_ == 1) return expect(kMessages, bytes);
  connect();
  send_numbered(kMessages);
  // In one operation, then in many that are under way together.
  std::vector<std::byte> back(kRegion);
  finish([&](Completion& completion) { return post_put(bytes.data(), 0, kRegion, completion); });
  finish([&](Completion& completion) { return post_get(back.data(), 0, kRegion, completion); });
  EXPECT_TRUE(back == bytes);
  constexpr std::size_t kEach = 10'000;
  std::vector<CountedCompletion> completions(kRegion / kEach);
  std::fill(back.begin(), back.end(), std::byte{});
  for (std::size_t i = 0; i < completions.size(); ++i) {
    ASSERT_TRUE(pump(
        [&] { return post_get(back.data() + i * kEach, i * kEach, kEach, completions[i]) == Post::queued; }, *side_));
  }
  for (const CountedCompletion& completion : completions) {
    ASSERT_TRUE(pump([&] { return completion.calls != 0; }, *side_));
    EXPECT_EQ(completion.calls, 1);
    ASSERT_TRUE(completion.ok()) << to_string(completion.error);
  }
  EXPECT_EQ(std::memcmp(back.data(), bytes.data(), completions.size() * kEach), 0);
  ASSERT_EQ(send(*peer_, bytes_of(kLast), {}, *side_), Post::done);
  EXPECT_TRUE(side_->failures.empty()) << to_string(side_->failures[0].why);
  (void)await("checked");
  publish("checked", {});
}

std::vector<Error> VerbsHosts::end_everything_by(const std::function<bool()>& trouble) {
  struct Posted {
    CountedCompletion completion;
    Post answer = Post::again;
  };
  std::deque<Posted> posted;  // in order; the transport ends them in any
  std::vector<std::byte> local(kRegion);
  std::size_t ended = 0;  // of those that are first
  bool troubled = false;
  std::uint64_t since_ns = 0;
  std::vector<Error> failed;
  const Deadline deadline = Deadline::after(std::chrono::seconds{120});
  while (side_->failures.empty() && !deadline.expired()) {
    if (posted.size() - ended < 24) {
      Posted& next = posted.emplace_back();
      const bool large = posted.size() % 8 == 0;  // one that is posted in part only
      next.answer = posted.size() % 2 == 0 ? post_put(local.data(), 0, large ? kRegion : 8192, next.completion)
                                           : post_get(local.data(), 0, 8192, next.completion);
      if (next.answer == Post::again) posted.pop_back();
    }
    while (ended < posted.size() && posted[ended].completion.calls != 0) ++ended;
    if (!troubled && ended >= 10 && posted.size() - ended >= 16) {
      troubled = trouble();
      since_ns = now_ns();
    }
    side_->module().progress(16);
  }
  const std::uint64_t took_ns = now_ns() - since_ns;
  EXPECT_TRUE(troubled);
  EXPECT_EQ(side_->failures.size(), 1U) << "it was not reported; posted: " << posted.size();
  for (std::size_t i = 0; i < posted.size(); ++i) {
    const CountedCompletion& completion = posted[i].completion;
    EXPECT_EQ(completion.calls, posted[i].answer == Post::queued ? 1 : 0) << i;
    if (!completion.ok()) failed.push_back(completion.error);
  }
  CountedCompletion late;
  EXPECT_EQ(post_get(local.data(), 0, 8192, late), Post::failed);
  EXPECT_EQ(late.error.code, Errc::peer_gone);
  for (const Failure& failure : side_->failures) {
    EXPECT_EQ(failure.why.code, Errc::peer_gone);
    std::printf("%zu operations; %zu ended %.1f s after the trouble began: %s\n", posted.size(), failed.size(),
                static_cast<double>(took_ns) / 1e9, to_string(failure.why).c_str());
  }
  return failed;
}

TEST_F(VerbsHosts, TheDeathOfAHostIsReportedAndEverythingUnderWayEndsOnce) {
  if (rank_ == 1) {
    ASSERT_TRUE(pump([&] { return !side_->received.empty(); }, *side_));
    std::ofstream{"/proc/sysrq-trigger"} << "c";  // no goodbye, no closed connection: silence
    for (;;) std::this_thread::sleep_for(std::chrono::seconds{1});
  }
  connect();
  const auto failed =
      end_everything_by([&] { return side_->module().send_inline(*peer_, kTag, bytes_of(kLast), {}) == Post::done; });
  EXPECT_GE(failed.size(), 16U);
  for (const Error& error : failed) EXPECT_EQ(error.code, Errc::peer_gone) << to_string(error);
}

// The peer's side of it is the death of a host; here qemu would hold back what the peer sends, and not lose it.
TEST_F(VerbsHosts, TheOnlyPortGoesDownAndEverythingUnderWayEndsOnce) {
  if (rank_ == 1) return (void)await("ended");
  connect();
  const auto failed = end_everything_by([] { return std::system("ip link set eth0 down") == 0; });
  EXPECT_GE(failed.size(), 1U);
  publish("ended", {});
}

TEST_F(VerbsHosts, OneOfTwoPortsGoesDownAndTheOtherDeviceTakesOver) {
  const auto bytes = pattern(kRegion, 10);
  if (rank_ == 1) return expect(300, bytes);
  connect();
  const auto put = [&](const std::vector<std::byte>& from) {
    finish([&](Completion& completion) { return post_put(from.data(), 0, kRegion, completion); });
  };
  send_numbered(100);
  put(pattern(kRegion, 11));
  put(pattern(kRegion, 12));  // by both rails
  EXPECT_EQ(peer_->describe().find("not connected"), std::string::npos) << peer_->describe();
  send_numbered(20);
  ASSERT_EQ(std::system("ip link set eth0 down"), 0);
  send_numbered(180);
  put(bytes);
  ASSERT_EQ(send(*peer_, bytes_of(kLast), {}, *side_), Post::done);
  (void)await("checked");
  EXPECT_TRUE(side_->failures.empty()) << to_string(side_->failures[0].why);
  std::printf("%s\n", peer_->describe().c_str());
  publish("checked", {});
}

}  // namespace
}  // namespace opal::test
