// SPDX-License-Identifier: Apache-2.0
// Two hosts: a network that loses packets, and the death of a whole host under traffic.  tests/vm/suite runs this in
// two guests at once, with VM_RANK set and VM_SHARED naming an empty folder that both see.
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
      std::this_thread::sleep_for(std::chrono::milliseconds{50});
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

  int rank_ = 0;
  std::string shared_;
  std::vector<std::byte> memory_ = std::vector<std::byte>(kRegion);
  std::unique_ptr<Side> side_;
  btl::Endpoint* peer_ = nullptr;
  std::uint64_t base_ = 0;  // of the peer's memory
  MemoryHandle remote_;
};

TEST_F(VerbsHosts, EveryMessagePutAndGetArrivesThoughPacketsAreLost) {
  constexpr std::uint32_t kMessages = 400;
  const auto bytes = pattern(kRegion, 9);
  if (rank_ == 1) {
    std::uint32_t next = 0;
    bool ended = false;
    side_->handler = [&](btl::Delivery& delivery) {
      std::uint32_t number = 0;
      ASSERT_TRUE(read_object(delivery.data, number));
      if (number == kLast) {
        ended = true;
        return;
      }
      ASSERT_EQ(number, next++);
      ASSERT_EQ(delivery.data.size(), sizeof number + 3000);
      ASSERT_EQ(std::memcmp(delivery.data.data() + sizeof number, pattern(3000, number).data(), 3000), 0);
    };
    ASSERT_TRUE(pump([&] { return ended; }, *side_));
    EXPECT_EQ(next, kMessages);
    EXPECT_TRUE(memory_ == bytes);
    EXPECT_TRUE(side_->failures.empty()) << to_string(side_->failures[0].why);
    publish("checked", {});
    (void)await("checked");
    return;
  }
  connect();
  for (std::uint32_t i = 0; i < kMessages; ++i) {
    ASSERT_EQ(send(*peer_, bytes_of(i), pattern(3000, i), *side_), Post::done) << i;
  }
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

TEST_F(VerbsHosts, TheDeathOfAHostIsReportedAndEverythingUnderWayEndsOnce) {
  if (rank_ == 1) {
    ASSERT_TRUE(pump([&] { return !side_->received.empty(); }, *side_));
    std::ofstream{"/proc/sysrq-trigger"} << "c";  // no goodbye, no closed connection: silence
    for (;;) std::this_thread::sleep_for(std::chrono::seconds{1});
  }
  connect();
  struct Posted {
    CountedCompletion completion;
    Post answer = Post::again;
  };
  std::deque<Posted> posted;  // in order; the transport ends them in any
  std::vector<std::byte> local(kRegion);
  std::size_t ended = 0;  // of those that are first
  bool told = false;
  std::uint64_t told_ns = 0;
  // Never without operations under way, so there are some when the peer dies, which is told to when several have ended.
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
    if (!told && ended >= 10 && posted.size() - ended >= 16) {
      told = side_->module().send_inline(*peer_, kTag, bytes_of(kLast), {}) == Post::done;
      told_ns = now_ns();
    }
    side_->module().progress(16);
  }
  const std::uint64_t took_ns = now_ns() - told_ns;
  ASSERT_TRUE(told);
  ASSERT_EQ(side_->failures.size(), 1U) << "nobody reported the death; posted: " << posted.size();
  EXPECT_EQ(side_->failures[0].why.code, Errc::peer_gone) << to_string(side_->failures[0].why);
  std::size_t failed = 0;
  for (std::size_t i = 0; i < posted.size(); ++i) {
    const CountedCompletion& completion = posted[i].completion;
    EXPECT_EQ(completion.calls, posted[i].answer == Post::queued ? 1 : 0) << i;
    if (completion.ok()) continue;
    ++failed;
    EXPECT_EQ(completion.error.code, Errc::peer_gone) << i << ": " << to_string(completion.error);
  }
  EXPECT_GE(failed, 16U);
  CountedCompletion late;
  EXPECT_EQ(post_get(local.data(), 0, 8192, late), Post::failed);
  EXPECT_EQ(late.error.code, Errc::peer_gone);
  std::printf("%zu operations; %zu ended %.1f s after the peer was told to die: %s\n", posted.size(), failed,
              static_cast<double>(took_ns) / 1e9, to_string(side_->failures[0].why).c_str());
}

}  // namespace
}  // namespace opal::test
