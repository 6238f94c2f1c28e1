// SPDX-License-Identifier: Apache-2.0
// What the conformance suite cannot ask for, because only a device does it: operations without the peer's help, a
// refusal among others, atomics by the device.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "opal/btl/verbs/module.hpp"
#include "tests/conformance/side.hpp"

namespace opal::test {
namespace {

std::uint64_t address_of(const void* pointer) { return reinterpret_cast<std::uint64_t>(pointer); }

Side::Open with(const btl::verbs::Config& config) {
  return [config](const btl::ModuleParameters& parameters) -> Result<std::unique_ptr<btl::Module>> {
    OPAL_TRY_ASSIGN(auto module, btl::verbs::Module::open(parameters, config, 0));
    return std::unique_ptr<btl::Module>{std::move(module)};
  };
}

class VerbsDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto names = crossing_transports();
    if (std::find(names.begin(), names.end(), "verbs") == names.end()) {
      GTEST_SKIP() << "needs rdma: tests/vm/run build/tests/btl_verbs_device_test";
    }
  }
  void open(const btl::verbs::Config& config = {}) {
    a_ = std::make_unique<Side>(with(config));
    b_ = std::make_unique<Side>(with(config));
    to_b_ = a_->connect(*b_);
    // The first operation makes the one-sided connection, for which b is needed.
    handle_ = *b_->module().register_memory(memory_.data(), memory_.size(), Rights::all);
    std::byte first{};
    ASSERT_EQ(finish([&](Completion& completion) {
                return a_->module().get(*to_b_, &first, nullptr, address_of(memory_.data()), handle_, 1, completion);
              }).code,
              Errc{});
    ASSERT_TRUE(to_b_->one_sided());
  }
  /// As Conformance::finish; `alone`: b does nothing meanwhile.
  Error finish(const std::function<Post(Completion&)>& post, bool alone = false) {
    CountedCompletion completion;
    Post answer = Post::again;
    const auto until = [&](const std::function<bool()>& condition) {
      return alone ? pump(condition, *a_) : pump(condition, *a_, *b_);
    };
    EXPECT_TRUE(until([&] { return (answer = post(completion)) != Post::again; }));
    if (answer == Post::queued) {
      EXPECT_TRUE(until([&] { return completion.calls != 0; }));
    }
    return completion.error;
  }

  std::unique_ptr<Side> a_;
  std::unique_ptr<Side> b_;
  btl::Endpoint* to_b_ = nullptr;
  std::vector<std::byte> memory_ = pattern(1 << 20, 1);
  MemoryHandle handle_;
};

TEST_F(VerbsDevice, PutAndGetOfAnySizeNeedNothingFromThePeersProcess) {
  open();
  for (const std::size_t size :
       {std::size_t{1}, std::size_t{100}, std::size_t{3000}, std::size_t{20'000}, memory_.size()}) {
    const auto bytes = pattern(size, static_cast<std::uint32_t>(size));
    EXPECT_EQ(finish(
                  [&](Completion& completion) {
                    return a_->module().put(*to_b_, bytes.data(), nullptr, address_of(memory_.data()), handle_, size,
                                            completion);
                  },
                  true)
                  .code,
              Errc{});
    EXPECT_EQ(std::memcmp(memory_.data(), bytes.data(), size), 0) << size;
    std::vector<std::byte> back(size);
    EXPECT_EQ(finish(
                  [&](Completion& completion) {
                    return a_->module().get(*to_b_, back.data(), nullptr, address_of(memory_.data()), handle_, size,
                                            completion);
                  },
                  true)
                  .code,
              Errc{});
    EXPECT_EQ(back, bytes);
  }
}

TEST_F(VerbsDevice, APeerThatSendsALotGetsALargerWindowAndOneThatIsSilentKeepsTheSmallest) {
  open();
  const auto has = [&](const std::string& part) { return to_b_->describe().find(part) != std::string::npos; };
  EXPECT_TRUE(has(", 2 messages to it and 2 from it")) << to_b_->describe();
  for (std::uint32_t i = 0; i < 500; ++i) ASSERT_EQ(send(*to_b_, bytes_of(i), {}, *a_, *b_), Post::done);
  ASSERT_TRUE(pump([&] { return b_->received.size() == 500; }, *a_, *b_));
  EXPECT_TRUE(has("64 messages to it and 2 from it")) << to_b_->describe();
}

TEST_F(VerbsDevice, ManyPeersShareLittleMemoryWithSmallWindows) {
  constexpr std::uint32_t kSenders = 12;
  constexpr std::uint32_t kEach = 100;
  btl::verbs::Config config;
  config.message_memory = 1_MiB;
  config.inline_size = 0_B;  // every frame of credits needs one of the few send buffers
  const Side::Open with_little_memory = with(config);
  Side receiver{with_little_memory};
  std::array<std::uint32_t, kSenders> next{};
  receiver.handler = [&](btl::Delivery& delivery) {
    std::uint32_t who[2];
    ASSERT_TRUE(read_object(delivery.data, who));
    ASSERT_EQ(who[1], next[who[0]]++);
  };
  std::vector<std::unique_ptr<Side>> senders;
  std::vector<btl::Endpoint*> routes;
  std::array<std::uint32_t, kSenders> sent{};
  for (std::uint32_t i = 0; i < kSenders; ++i) {
    senders.push_back(std::make_unique<Side>(with_little_memory));
    routes.push_back(senders.back()->connect(receiver));
  }
  ASSERT_TRUE(pump(
      [&] {
        bool all = true;
        for (std::uint32_t i = 0; i < kSenders; ++i) {
          senders[i]->module().progress(16);
          while (sent[i] < kEach) {
            const std::uint32_t who[2] = {i, sent[i]};
            if (senders[i]->module().send_inline(*routes[i], kTag, bytes_of(who), pattern(9000, i)) != Post::done)
              break;
            ++sent[i];
          }
          all = all && next[i] == kEach;
        }
        return all;
      },
      receiver));
  for (const auto& sender : senders) EXPECT_TRUE(sender->failures.empty());
  EXPECT_TRUE(std::any_of(routes.begin(), routes.end(), [](const btl::Endpoint* route) {
    return route->describe().find(", 2 messages to it") != std::string::npos;
  }));
}

TEST_F(VerbsDevice, OperationsPostedWhileBothSidesConnectGoByTheDeviceAfterwards) {
  for (int round = 0; round < 10; ++round) {
    Side a{"verbs"};
    Side b{"verbs"};
    btl::Endpoint* const to_b = a.connect(b);
    btl::Endpoint* const to_a = b.connect(a);
    const MemoryHandle of_a = *a.module().register_memory(memory_.data(), memory_.size(), Rights::all);
    const MemoryHandle of_b = *b.module().register_memory(memory_.data(), memory_.size(), Rights::all);
    std::byte byte{};
    const auto get = [&](bool from_b, CountedCompletion& done) {
      return from_b ? a.module().get(*to_b, &byte, nullptr, address_of(memory_.data()), of_b, 1, done)
                    : b.module().get(*to_a, &byte, nullptr, address_of(memory_.data()), of_a, 1, done);
    };
    // From the first moment on, whichever of the two connections is to stay.
    for (const bool from_b : {true, false}) {
      CountedCompletion done;
      ASSERT_TRUE(pump([&] { return get(from_b, done) != Post::again; }, a, b));
      ASSERT_TRUE(pump([&] { return done.calls != 0; }, a, b));
      ASSERT_TRUE(done.ok()) << to_string(done.error);
    }
    for (const bool from_b : {true, false}) {
      Side& alone = from_b ? a : b;
      CountedCompletion done;
      ASSERT_TRUE(pump([&] { return get(from_b, done) != Post::again; }, alone));
      ASSERT_TRUE(pump([&] { return done.calls != 0; }, alone)) << "it goes as a message, and gets no answer";
    }
  }
}

TEST_F(VerbsDevice, ARefusedOperationFailsAloneAmongOthersUnderWay) {
  open();
  std::vector<std::byte> other(4096, std::byte{7});
  const MemoryHandle stale = *b_->module().register_memory(other.data(), other.size(), Rights::all);
  ASSERT_TRUE(b_->module().deregister_memory(stale));
  constexpr std::size_t kCount = 40;
  constexpr std::size_t kEach = 6000;
  std::vector<std::vector<std::byte>> sources;
  for (std::size_t i = 0; i < kCount; ++i) sources.push_back(pattern(kEach, 100 + static_cast<std::uint32_t>(i)));
  std::vector<CountedCompletion> completions(kCount);
  CountedCompletion refused[2];
  const auto post_stale = [&](CountedCompletion& completion) {
    ASSERT_EQ(a_->module().put(*to_b_, sources[0].data(), nullptr, address_of(other.data()), stale, 100, completion),
              Post::queued);
  };
  for (std::size_t i = 0; i < kCount; ++i) {
    if (i == 13) post_stale(refused[0]);
    if (i == 14) post_stale(refused[1]);
    ASSERT_EQ(a_->module().put(*to_b_, sources[i].data(), nullptr, address_of(memory_.data()) + i * kEach, handle_,
                               kEach, completions[i]),
              Post::queued);
  }
  CountedCompletion flushed;
  ASSERT_EQ(a_->module().flush(to_b_, flushed), Post::queued);
  ASSERT_TRUE(pump([&] { return flushed.calls == 1; }, *a_, *b_));
  for (std::size_t i = 0; i < kCount; ++i) {
    EXPECT_EQ(completions[i].calls, 1) << i;
    EXPECT_TRUE(completions[i].ok()) << i << ": " << to_string(completions[i].error);
    EXPECT_EQ(std::memcmp(memory_.data() + i * kEach, sources[i].data(), kEach), 0) << i;
  }
  for (const CountedCompletion& completion : refused) {
    EXPECT_EQ(completion.calls, 1);
    EXPECT_EQ(completion.error.code, Errc::invalid_argument);
  }
  for (const std::byte byte : other) ASSERT_EQ(byte, std::byte{7});
  EXPECT_FALSE(to_b_->dead());
  EXPECT_TRUE(b_->failures.empty());
}

TEST_F(VerbsDevice, OperationsOfMoreRequestsThanTheSendQueueHoldsEndOnceAlsoBehindOneThatIsRefused) {
  btl::verbs::Config config;
  config.max_request = 4_KiB;
  open(config);
  std::vector<std::byte> gone(memory_.size());
  const MemoryHandle stale = *b_->module().register_memory(gone.data(), gone.size(), Rights::all);
  ASSERT_TRUE(b_->module().deregister_memory(stale));
  const auto before = memory_;
  const auto bytes = pattern(memory_.size(), 77);
  std::vector<std::byte> back(memory_.size());
  CountedCompletion got;
  CountedCompletion refused;
  CountedCompletion put;
  // 255 requests and a tail, from an odd address.
  const std::size_t size = memory_.size() - 4097;
  btl::Module& module = a_->module();
  ASSERT_EQ(module.get(*to_b_, back.data() + 1, nullptr, address_of(memory_.data()) + 3, handle_, size, got),
            Post::queued);
  ASSERT_EQ(module.put(*to_b_, bytes.data() + 1, nullptr, address_of(gone.data()), stale, size, refused), Post::queued);
  ASSERT_EQ(module.put(*to_b_, bytes.data() + 1, nullptr, address_of(memory_.data()) + 3, handle_, size, put),
            Post::queued);
  CountedCompletion flushed;
  ASSERT_EQ(module.flush(to_b_, flushed), Post::queued);
  ASSERT_TRUE(pump([&] { return flushed.calls == 1; }, *a_, *b_));
  EXPECT_EQ(got.calls, 1);
  EXPECT_TRUE(got.ok()) << to_string(got.error);
  EXPECT_EQ(std::memcmp(back.data() + 1, before.data() + 3, size), 0);
  EXPECT_EQ(refused.calls, 1);
  EXPECT_EQ(refused.error.code, Errc::invalid_argument);
  EXPECT_EQ(gone, std::vector<std::byte>(gone.size()));
  EXPECT_EQ(put.calls, 1);
  EXPECT_TRUE(put.ok()) << to_string(put.error);
  auto expected = before;
  std::memcpy(expected.data() + 3, bytes.data() + 1, size);
  EXPECT_EQ(memory_, expected);
}

TEST_F(VerbsDevice, AMemoryRegionLargerThanMayBePinnedIsReachedByMessages) {
  btl::verbs::Config config;
  config.pin_limit = 2_MiB;
  open(config);
  std::vector<std::byte> large(3 << 20);
  const auto handle = b_->module().register_memory(large.data(), large.size(), Rights::all);
  ASSERT_TRUE(handle);
  const auto bytes = pattern(large.size(), 5);
  EXPECT_EQ(finish([&](Completion& completion) {
              return a_->module().put(*to_b_, bytes.data(), nullptr, address_of(large.data()), *handle, large.size(),
                                      completion);
            }).code,
            Errc{});
  EXPECT_EQ(large, bytes);
  std::vector<std::byte> second(1536 << 10);
  EXPECT_EQ(b_->module().register_memory(second.data(), second.size(), Rights::all).error().code, Errc::limit_reached)
      << "with what is registered already it is too much: something has to go first";
}

TEST_F(VerbsDevice, AForkedChildThatEndsItsCopiesOfModulesLeavesThoseOfItsParentAlone) {
  open();
  const pid_t child = ::fork();
  if (child == 0) {
    a_.reset();
    b_.reset();
    ::_exit(0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  const auto bytes = pattern(20'000, 3);
  EXPECT_EQ(finish([&](Completion& completion) {
              return a_->module().put(*to_b_, bytes.data(), nullptr, address_of(memory_.data()), handle_, bytes.size(),
                                      completion);
            }).code,
            Errc{});
  EXPECT_EQ(std::memcmp(memory_.data(), bytes.data(), bytes.size()), 0);
  ASSERT_EQ(send(*to_b_, {}, bytes_of(42), *a_, *b_), Post::done);
  EXPECT_TRUE(pump([&] { return b_->received.size() == 1; }, *a_, *b_));
  EXPECT_TRUE(a_->failures.empty());
  EXPECT_TRUE(b_->failures.empty());
}

TEST_F(VerbsDevice, AtomicsOfTheDeviceNeedNothingFromThePeersProcess) {
  btl::verbs::Config config;
  config.atomics = "device";
  open(config);
  alignas(8) std::uint64_t word = 40;
  const MemoryHandle handle = *b_->module().register_memory(&word, sizeof word, Rights::all);
  const auto run = [&](AtomicOp op, std::uint64_t operand, std::uint64_t compare) {
    std::uint64_t old = 0;
    const AtomicRequest request{op, AtomicType::u64, address_of(&word), &handle, operand, compare, &old};
    EXPECT_EQ(
        finish([&](Completion& completion) { return a_->module().atomic(*to_b_, request, completion); }, true).code,
        Errc{});
    return old;
  };
  EXPECT_EQ(run(AtomicOp::add, 2, 0), 40U);
  EXPECT_EQ(word, 42U);
  EXPECT_EQ(run(AtomicOp::compare_swap, 7, 41), 42U);
  EXPECT_EQ(word, 42U);
  EXPECT_EQ(run(AtomicOp::compare_swap, 7, 42), 42U);
  EXPECT_EQ(word, 7U);
}

}  // namespace
}  // namespace opal::test
