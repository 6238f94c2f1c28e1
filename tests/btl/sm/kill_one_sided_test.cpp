// SPDX-License-Identifier: Apache-2.0
// A process is killed at many single instructions of puts and atomics: its own, and those of others in which it helps
// or which it carries out.
#include "opal/mpool/pool.hpp"
#include "tests/btl/sm/internals.hpp"
#include "tests/btl/sm/kill_steps.hpp"

namespace opal::btl::sm {
namespace {

using test::CountedCompletion;
using test::pattern;
using test::Side;
using test::step_mark;

/// Makes progress until `post` and its completion are through; ends the victim when that went wrong.
void finish(Side& own, Post post, const CountedCompletion& done) {
  while (post == Post::queued && done.calls == 0) own.module().progress(64);
  if ((post != Post::done && post != Post::queued) || !done.ok()) ::_exit(4);
}

/// Whatever we post into a victim's memory ends once: well, or because it is no longer there.
class Posted {
 public:
  /// Posts when there is none under way.  False: there is.
  template <class Post_>
  bool begin(const Post_& post) {
    if (done_ != nullptr) return false;
    done_ = std::make_unique<CountedCompletion>();
    ++begun_;
    if (post(*done_) != Post::queued) done_->calls = 1;
    return true;
  }
  /// Whether one has just ended.
  bool look() {
    if (done_ == nullptr || done_->calls == 0) return false;
    EXPECT_EQ(done_->calls, 1);
    const Errc code = done_->error.code;
    EXPECT_TRUE(code == Errc{} || code == Errc::peer_gone || code == Errc::invalid_argument) << to_string(done_->error);
    done_.reset();
    ++ended_;
    return true;
  }
  void expect_all_ended() {
    look();
    EXPECT_GT(begun_, 0U);
    EXPECT_EQ(begun_, ended_) << "each ends once, at the latest with its peer";
  }

 private:
  std::unique_ptr<CountedCompletion> done_;
  std::uint32_t begun_ = 0;
  std::uint32_t ended_ = 0;
};

class SmKillOneSided : public SmKillSteps {
 protected:
  /// In the victim: lets the survivors know of its memory.
  void publish(Side& own, void* memory, std::uint64_t size) const {
    const auto handle = *own.module().register_memory(memory, size, Rights::all);
    board_->address = reinterpret_cast<std::uint64_t>(memory);
    board_->region = *SoftwareHandle::decode(handle);
  }
  [[nodiscard]] MemoryHandle published() const { return *MemoryHandle::from_bytes(bytes_of(board_->region)); }
  /// The victim's part when it is the target: stays inside the library until the survivors say that it is enough.
  void serve(Side& own) const {
    board_->victim = 1;
    while (board_->survivor == 0) std::this_thread::yield();
    step_mark();
    while (board_->survivor != 2) own.module().progress(64);
    step_mark();
  }
  /// In the survivor: the victim that wants the next operation; null: none, or not yet.
  [[nodiscard]] btl::Endpoint* ready_victim(const Side& side) const {
    const bool ready = board_->victim == 1 && board_->survivor == 0 && !side.accepted.empty();
    return ready && !side.accepted.back()->dead() ? side.accepted.back() : nullptr;
  }
};

class SmKillInAPut : public SmKillOneSided, public ::testing::WithParamInterface<std::array<std::string_view, 2>> {
 protected:
  /// By single copy one call takes any number; messages are filled byte by byte.
  const std::size_t size_ = GetParam()[1] == "none" ? 20'000 : 1'000'000;
  [[nodiscard]] static config::Store settings() {
    return with({{"btl_sm_large_get", GetParam()[0]}, {"btl_sm_single_copy", GetParam()[1]}});
  }
};
INSTANTIATE_TEST_SUITE_P(By, SmKillInAPut,
                         ::testing::Values(std::array<std::string_view, 2>{"cooperative", "cma"},
                                           std::array<std::string_view, 2>{"alone", "cma"},
                                           std::array<std::string_view, 2>{"alone", "none"}),
                         [](const auto& info) {
                           return std::string{info.param[0]} + "_" + std::string{info.param[1]};
                         });

TEST_P(SmKillInAPut, AnywhereOnTheInitiatorsSide) {
  Side side{"sm", settings()};
  const auto blob = side.blob();
  constexpr std::size_t kAround = 4096;
  const auto bytes = pattern(size_, 1);
  std::vector<std::byte> memory(size_ + 2 * kAround);
  const auto handle = *side.module().register_memory(memory.data(), memory.size(), Rights::remote_write);
  kill_everywhere(
      {&side},
      [&] {
        Side own{"sm", settings()};
        btl::Endpoint* const route = own.connect(blob);
        if (route == nullptr) ::_exit(3);
        CountedCompletion put;
        CountedCompletion flushed;
        step_mark();
        finish(own,
               own.module().put(*route, bytes.data(), nullptr, reinterpret_cast<std::uint64_t>(memory.data() + kAround),
                                handle, size_, put),
               put);
        finish(own, own.module().flush(route, flushed), flushed);
        step_mark();
      },
      [] {});
  if (IsSkipped()) return;
  auto expected = std::vector<std::byte>(memory.size());  // the first one was through, the others wrote the same
  std::copy(bytes.begin(), bytes.end(), expected.begin() + kAround);
  EXPECT_TRUE(memory == expected) << "bytes that nobody put there";
}

TEST_P(SmKillInAPut, AnywhereOnTheTargetsSide) {
  Side side{"sm", settings()};
  const auto blob = side.blob();
  const auto bytes = pattern(size_, 1);
  Posted put;
  kill_everywhere(
      {&side},
      [&] {
        Side own{"sm", settings()};
        std::vector<std::byte> memory(size_);
        publish(own, memory.data(), memory.size());
        if (own.connect(blob) == nullptr) ::_exit(3);
        serve(own);
        if (memory != bytes) ::_exit(5);
      },
      [&] {
        if (put.look()) board_->survivor = 2;
        btl::Endpoint* const to = ready_victim(side);
        if (to == nullptr) return;
        put.begin([&](Completion& done) {
          return side.module().put(*to, bytes.data(), nullptr, board_->address, published(), size_, done);
        });
        board_->survivor = 1;
      });
  if (!IsSkipped()) put.expect_all_ended();
}

class SmKillInAnAtomic : public SmKillOneSided, public ::testing::WithParamInterface<std::string_view> {};
INSTANTIATE_TEST_SUITE_P(By, SmKillInAnAtomic, ::testing::Values("none", "shared"),
                         [](const auto& info) { return std::string{info.param}; });

TEST_P(SmKillInAnAtomic, AnywhereOnTheInitiatorsSide) {
  const auto settings = [] { return with({{"btl_sm_single_copy", GetParam()}}); };
  Side side{"sm", settings()};
  const auto blob = side.blob();
  auto pool = mpool::open("shared", mpool::Config{});
  ASSERT_TRUE(pool) << to_string(pool.error());
  auto* const word = new (*(*pool)->allocate(64, 64)) std::uint64_t{0};
  const auto handle = *side.module().register_memory(word, sizeof *word, Rights::all);
  const auto address = reinterpret_cast<std::uint64_t>(word);
  kill_everywhere(
      {&side},
      [&] {
        Side own{"sm", settings()};
        btl::Endpoint* const route = own.connect(blob);
        if (route == nullptr) ::_exit(3);
        const auto operate = [&](AtomicOp op, std::uint64_t operand) {
          CountedCompletion done;
          std::uint64_t old = 0;
          const AtomicRequest request{op, AtomicType::u64, address, &handle, operand, 0, &old};
          finish(own, own.module().atomic(*route, request, done), done);
        };
        operate(AtomicOp::bit_or, 0);
        while (GetParam() == "shared" && mapped_pools(*route) == 0) own.module().progress(64);
        step_mark();
        for (int i = 0; i < 4; ++i) {
          ++board_->posted;
          operate(AtomicOp::add, 1);
          ++board_->ended;
        }
        step_mark();
      },
      [] {});
  if (IsSkipped()) return;
  EXPECT_GE(*word, board_->ended) << "one that was through has done nothing";
  EXPECT_LE(*word, board_->posted) << "one was done twice";
  EXPECT_GE(*word, 4U) << "those of the first run";
}

TEST_F(SmKillOneSided, AnywhereInCarryingOutAnAtomic) {
  Side side{"sm", with({{"btl_sm_single_copy", "none"}})};
  const auto blob = side.blob();
  Posted add;
  kill_everywhere(
      {&side},
      [&] {
        Side own{"sm", with({{"btl_sm_single_copy", "none"}})};
        std::uint64_t word = 0;
        publish(own, &word, sizeof word);
        if (own.connect(blob) == nullptr) ::_exit(3);
        serve(own);
        if (word != 1) ::_exit(5);
      },
      [&] {
        if (add.look()) board_->survivor = 2;
        btl::Endpoint* const to = ready_victim(side);
        if (to == nullptr) return;
        add.begin([&](Completion& done) {
          const MemoryHandle handle = published();
          const AtomicRequest request{AtomicOp::add, AtomicType::u64, board_->address, &handle, 1};
          return side.module().atomic(*to, request, done);
        });
        board_->survivor = 1;
      });
  if (!IsSkipped()) add.expect_all_ended();
}

}  // namespace
}  // namespace opal::btl::sm
