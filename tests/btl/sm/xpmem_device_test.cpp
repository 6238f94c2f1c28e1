// SPDX-License-Identifier: Apache-2.0
// Single copy through the XPMEM kernel module itself, from the memory of another process.  Where the module is not
// loaded tests/vm/suite does this in a virtual machine, if it is given one.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <vector>

#include "opal/btl/sm/single_copy/xpmem.hpp"
#include "opal/core/system/fd.hpp"
#include "tests/btl/sm/single_copy.hpp"
#include "tests/conformance/side.hpp"

namespace opal::btl::sm {
namespace {

using test::pattern;

constexpr std::size_t kSize = XpmemMechanism::kWindow + 100'000;  // in two windows, or three

/// Another process, which offers its memory: kSize bytes of pattern(kSize, 1) at `address`.
class Owner {
 public:
  Owner() {
    int to_child[2];
    int to_parent[2];
    if (::pipe(to_child) != 0 || ::pipe(to_parent) != 0) std::abort();
    child_ = ::fork();
    if (child_ == 0) offer(to_child[0], to_parent[1]);
    orders_ = Fd{to_child[1]};
    answers_ = Fd{to_parent[0]};
    ::close(to_child[0]);
    ::close(to_parent[1]);
    receive(address);
    receive(segment);
  }
  ~Owner() { end(); }
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;

  std::uint64_t address = 0;
  std::int64_t segment = 0;

  /// 'u': unmaps its memory; 'm': maps other memory there, full of pattern(kSize, 2); 'c': compares with that.
  bool order(char what) {
    EXPECT_EQ(::write(orders_.get(), &what, 1), 1);
    bool done = false;
    receive(done);
    return done;
  }
  void end() {
    if (child_ <= 0) return;
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
    child_ = 0;
  }

 private:
  template <class T>
  void receive(T& value) {
    ASSERT_EQ(::read(answers_.get(), &value, sizeof value), static_cast<ssize_t>(sizeof value)) << "the owner has died";
  }

  [[noreturn]] static void offer(int orders, int answers) {
    auto device = XpmemDevice::open();
    if (!device) std::_Exit(1);
    const auto segment = (*device)->make();
    if (!segment) std::_Exit(2);
    void* const memory = map(nullptr, 1);
    const auto address = reinterpret_cast<std::uint64_t>(memory);
    if (::write(answers, &address, sizeof address) != sizeof address) std::_Exit(3);
    if (::write(answers, &*segment, sizeof *segment) != sizeof *segment) std::_Exit(3);
    for (char what = 0; ::read(orders, &what, 1) == 1;) {
      bool done = true;
      if (what == 'u') done = ::munmap(memory, kSize) == 0;
      if (what == 'm') done = map(memory, 2) == memory;
      if (what == 'c') done = std::memcmp(memory, pattern(kSize, 2).data(), kSize) == 0;
      if (::write(answers, &done, sizeof done) != sizeof done) break;
    }
    std::_Exit(0);
  }
  static void* map(void* where, std::uint32_t seed) {
    const int fixed = where == nullptr ? 0 : MAP_FIXED_NOREPLACE;
    void* const memory = ::mmap(where, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | fixed, -1, 0);
    if (memory != MAP_FAILED) std::memcpy(memory, pattern(kSize, seed).data(), kSize);
    return memory;
  }

  pid_t child_ = 0;
  Fd orders_;
  Fd answers_;
};

class SmXpmemDevice : public testing::Test {
 protected:
  void SetUp() override {
    if (::access("/dev/xpmem", F_OK) != 0) GTEST_SKIP() << "needs xpmem: its kernel module is not loaded here";
    owner_ = std::make_unique<Owner>();
    auto mechanism = XpmemMechanism::open(*XpmemDevice::open(), owner_->segment);
    ASSERT_TRUE(mechanism) << to_string(mechanism.error());
    mechanism_ = std::move(*mechanism);
  }
  [[nodiscard]] RemoteRange all() const { return {owner_->address, kSize, {}}; }

  std::unique_ptr<Owner> owner_;
  std::unique_ptr<XpmemMechanism> mechanism_;
  std::vector<std::byte> bytes_ = std::vector<std::byte>(kSize);
};

TEST_F(SmXpmemDevice, MemoryOfAnotherProcessIsReadAndWrittenAcrossWindows) {
  ASSERT_TRUE(mechanism_->copy(all(), bytes_.data(), false).ok());
  EXPECT_EQ(bytes_, pattern(kSize, 1));
  auto other = pattern(kSize, 2);
  ASSERT_TRUE(mechanism_->copy(all(), other.data(), true).ok());
  EXPECT_TRUE(owner_->order('c'));
}

TEST_F(SmXpmemDevice, MemoryThatIsUnmappedIsAnErrorAndWhatIsMappedThereLaterIsSeen) {
  ASSERT_TRUE(mechanism_->copy(all(), bytes_.data(), false).ok());
  ASSERT_TRUE(owner_->order('u'));
  EXPECT_EQ(mechanism_->copy(all(), bytes_.data(), false).error.code, Errc::invalid_argument);
  ASSERT_TRUE(owner_->order('m'));
  ASSERT_TRUE(mechanism_->copy(all(), bytes_.data(), false).ok());
  EXPECT_EQ(bytes_, pattern(kSize, 2));
}

TEST_F(SmXpmemDevice, TheOwnersDeathIsAnErrorAndNoSignal) {
  ASSERT_TRUE(mechanism_->copy(all(), bytes_.data(), false).ok());
  owner_->end();
  EXPECT_FALSE(mechanism_->copy(all(), bytes_.data(), false).ok());
  EXPECT_FALSE(mechanism_->copy(all(), bytes_.data(), true).ok());
}

TEST_F(SmXpmemDevice, EndpointsTakeIt) {
  const std::string text = description_with("xpmem");
  EXPECT_NE(text.find("xpmem: probe copied 4096 bytes"), std::string::npos) << text;
}

}  // namespace
}  // namespace opal::btl::sm
