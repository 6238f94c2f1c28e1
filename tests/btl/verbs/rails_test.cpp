// SPDX-License-Identifier: Apache-2.0
// Two RDMA devices as rails, and what becomes of a device that loses its port or goes away.  tests/vm/two_rails makes
// them in a guest; VM_RAILS says that they are there.
#include <cstdlib>
#include <cstring>

#include "opal/btl/rails/module.hpp"
#include "tests/conformance/side.hpp"

namespace opal::test {
namespace {

constexpr std::size_t kMemory = 2 << 20;

class VerbsRails : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("VM_RAILS") == nullptr) GTEST_SKIP() << "needs rdma: tests/vm/suite runs this with two devices";
  }
  void open(const std::string& devices) {
    config::Store store;
    store.set("btl_verbs_devices", devices);
    store.set("btl_verbs_rails", devices.find(',') == std::string::npos ? "1" : "2");
    a_ = std::make_unique<Side>("verbs", store);
    b_ = std::make_unique<Side>("verbs", store);
    b_->handler = [this](btl::Delivery& delivery) {
      std::uint32_t number = 0;
      ASSERT_TRUE(read_object(delivery.data, number));
      ASSERT_EQ(number, handled_++) << "not in order, or not once";
    };
    handle_ = *b_->module().register_memory(memory_.data(), memory_.size(), Rights::all);
    to_b_ = a_->connect(*b_);
  }
  static void shell(const std::string& command) { ASSERT_EQ(std::system(command.c_str()), 0) << command; }
  [[nodiscard]] bool drive(const std::function<bool()>& condition) { return pump(condition, *a_, *b_); }
  void send_some(std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) {
      ASSERT_EQ(send(*to_b_, bytes_of(sent_), pattern(700, sent_), *a_, *b_), Post::done)
          << sent_ << " sent, " << handled_ << " handled; " << to_b_->describe();
      ++sent_;
    }
  }
  void put_all(std::uint32_t seed) {
    const auto bytes = pattern(kMemory, seed);
    CountedCompletion put;
    Post answer = Post::again;
    ASSERT_TRUE(drive([&] {
      return (answer = a_->module().put(*to_b_, bytes.data(), nullptr, reinterpret_cast<std::uint64_t>(memory_.data()),
                                        handle_, kMemory, put)) != Post::again;
    }));
    ASSERT_EQ(answer, Post::queued) << to_string(put.error);
    ASSERT_TRUE(drive([&] { return put.calls != 0; }));
    EXPECT_EQ(put.calls, 1);
    EXPECT_TRUE(put.ok()) << to_string(put.error);
    EXPECT_TRUE(memory_ == bytes);
  }

  std::vector<std::byte> memory_ = std::vector<std::byte>(kMemory);
  std::unique_ptr<Side> a_;
  std::unique_ptr<Side> b_;
  btl::Endpoint* to_b_ = nullptr;
  MemoryHandle handle_;
  std::uint32_t sent_ = 0;
  std::uint32_t handled_ = 0;
};

TEST_F(VerbsRails, WhenAPortGoesDownTheOtherDeviceTakesOverAndNothingIsLost) {
  open("rxe0,rxe1");
  send_some(100);
  put_all(1);
  put_all(2);
  EXPECT_EQ(to_b_->describe().find("not connected"), std::string::npos) << to_b_->describe();
  send_some(20);
  shell("ip link set dummy0 down");
  send_some(200);
  put_all(3);
  ASSERT_TRUE(drive([&] { return handled_ == sent_; }));
  EXPECT_TRUE(a_->failures.empty());
  EXPECT_TRUE(b_->failures.empty());
  std::printf("%s\n", to_b_->describe().c_str());
  shell("ip link set dummy0 up");
}

TEST_F(VerbsRails, ADeviceThatIsRemovedEndsWhatIsUnderWayOnItOnce) {
  open("rxe1");
  send_some(10);
  put_all(4);
  std::vector<CountedCompletion> puts(8);
  std::vector<Post> answers;
  const auto bytes = pattern(kMemory, 5);
  for (CountedCompletion& put : puts) {
    answers.push_back(a_->module().put(*to_b_, bytes.data(), nullptr, reinterpret_cast<std::uint64_t>(memory_.data()),
                                       handle_, kMemory, put));
  }
  shell("rdma link delete rxe1 >/dev/null 2>&1 &");  // goes on when the device is not used any more
  ASSERT_TRUE(drive([&] { return !a_->failures.empty() && !b_->failures.empty(); }));
  for (std::size_t i = 0; i < puts.size(); ++i) EXPECT_EQ(puts[i].calls, answers[i] == Post::queued ? 1 : 0) << i;
  EXPECT_EQ(a_->failures.size(), 1U);
  EXPECT_EQ(b_->failures.size(), 1U);
  EXPECT_EQ(a_->failures[0].why.code, Errc::peer_gone) << to_string(a_->failures[0].why);
  std::printf("%s\n", to_string(a_->failures[0].why).c_str());
  EXPECT_FALSE(a_->module().connect(PeerId::random(), b_->module().address()));
}

}  // namespace
}  // namespace opal::test
