// SPDX-License-Identifier: Apache-2.0
// Single copy through XPMEM against a double of the kernel module's interface: a "peer" whose address space is a memory
// file at addresses of its own.  And the copy that survives the loss of the pages under it.
#include "opal/btl/sm/single_copy/xpmem.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "opal/btl/sm/single_copy/copy_mechanisms.hpp"
#include "opal/core/system/mapping.hpp"
#include "tests/btl/sm/single_copy.hpp"
#include "tests/conformance/side.hpp"

namespace opal::btl::sm {
namespace {

using test::pattern;

constexpr std::uint64_t kPeerBase = 0x2000'0080'3000;  // in the middle of a window
constexpr std::size_t kPeerSize = 3 * XpmemMechanism::kWindow;

class Double final : public XpmemDevice {
 public:
  Double() : file_(::memfd_create("xpmem double", MFD_CLOEXEC)) {
    EXPECT_EQ(::ftruncate(file_.get(), kPeerSize), 0);
    peer_ = *Mapping::shared(file_.get(), kPeerSize);
  }
  ~Double() override {
    EXPECT_EQ(windows_, 0) << "a window is still attached";
    EXPECT_EQ(permits_, 0) << "a permit is not released";
  }
  /// The peer's memory, as it sees it itself.
  [[nodiscard]] MutableBytes memory() const { return peer_.bytes(); }
  void die() { EXPECT_EQ(::ftruncate(file_.get(), 0), 0); }
  void refuse_attaching() { attaching_ = false; }
  [[nodiscard]] int windows() const { return windows_; }

  Result<std::int64_t> make() noexcept override { return 77; }
  void remove(std::int64_t) noexcept override {}
  Result<std::int64_t> get(std::int64_t segment) noexcept override {
    if (segment != 77) return Error{Errc::not_supported, ENOENT, "double: no such segment"};
    ++permits_;
    return 5;
  }
  void release(std::int64_t permit) noexcept override {
    EXPECT_EQ(permit, 5);
    --permits_;
  }
  Result<std::byte*> attach(std::int64_t permit, std::uint64_t offset, std::uint64_t size) noexcept override {
    EXPECT_EQ(permit, 5);
    EXPECT_EQ(offset % 4096, 0U);
    if (!attaching_) return Error{Errc::not_supported, EPERM, "double: attach"};
    auto* window =
        static_cast<std::byte*>(::mmap(nullptr, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    const std::uint64_t first = std::max(offset, kPeerBase);
    const std::uint64_t last = std::min(offset + size, kPeerBase + kPeerSize);
    if (first < last) {
      EXPECT_NE(::mmap(window + (first - offset), last - first, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                       file_.get(), static_cast<off_t>(first - kPeerBase)),
                MAP_FAILED);
    }
    ++windows_;
    return window;
  }
  void detach(std::byte* address) noexcept override {
    EXPECT_EQ(::munmap(address, XpmemMechanism::kWindow), 0);
    --windows_;
  }

 private:
  Fd file_;
  Mapping peer_;
  bool attaching_ = true;
  int windows_ = 0;
  int permits_ = 0;
};

RemoteRange at(std::uint64_t offset, std::uint64_t size) { return {kPeerBase + offset, size, {}}; }

TEST(SmXpmem, RandomReadsAndWritesAcrossWindowsMatchThePeersMemory) {
  const auto device = std::make_shared<Double>();
  auto mechanism = *XpmemMechanism::open(device, 77);
  std::vector<std::byte> model(kPeerSize);
  std::mt19937_64 random{3};
  for (int i = 0; i < 200; ++i) {
    const std::size_t size = 1 + random() % (i % 20 == 0 ? 2 * XpmemMechanism::kWindow : 10'000);
    const std::size_t offset = random() % (kPeerSize - size);
    if (i % 2 == 0) {
      auto bytes = pattern(size, static_cast<unsigned>(i));
      std::memcpy(model.data() + offset, bytes.data(), size);
      ASSERT_TRUE(mechanism->copy(at(offset, size), bytes.data(), true).ok());
    } else {
      std::vector<std::byte> bytes(size);
      ASSERT_TRUE(mechanism->copy(at(offset, size), bytes.data(), false).ok());
      ASSERT_EQ(std::memcmp(bytes.data(), model.data() + offset, size), 0);
    }
  }
  EXPECT_EQ(std::memcmp(device->memory().data(), model.data(), kPeerSize), 0);
  EXPECT_EQ(device->windows(), 4) << "each window is attached once";
}

TEST(SmXpmem, AttachedWindowsAreBounded) {
  const auto device = std::make_shared<Double>();
  auto mechanism = *XpmemMechanism::open(device, 77);
  std::byte byte{};
  for (std::uint64_t i = 0; i < 2 * XpmemMechanism::kMost; ++i) {
    // Most of it is not the peer's memory at all.
    (void)mechanism->copy({0x1000'0000'0000 + i * XpmemMechanism::kWindow, 1, {}}, &byte, false);
    ASSERT_LE(mechanism->attached(), XpmemMechanism::kMost);
  }
  EXPECT_EQ(device->windows(), static_cast<int>(XpmemMechanism::kMost));
  EXPECT_TRUE(mechanism->copy(at(0, 1), &byte, false).ok());
}

TEST(SmXpmem, MemoryThatIsNotThereAndAPeersDeathAreErrorsAndNoSignals) {
  const auto device = std::make_shared<Double>();
  CopyMechanisms mechanisms;
  mechanisms.add(*XpmemMechanism::open(device, 77), "double");
  std::vector<std::byte> bytes(100'000);
  EXPECT_TRUE(mechanisms.copy(at(0, bytes.size()), bytes.data(), false).ok());
  EXPECT_EQ(mechanisms.copy(at(kPeerSize - 10, bytes.size()), bytes.data(), false).error.code, Errc::invalid_argument);
  device->die();
  EXPECT_EQ(mechanisms.copy(at(0, bytes.size()), bytes.data(), false).error.code, Errc::invalid_argument);
  EXPECT_EQ(mechanisms.copy(at(0, bytes.size()), bytes.data(), true).error.code, Errc::invalid_argument);
}

TEST(SmXpmem, AProbePutsItAmongTheMechanismsAndAFailingAttachTakesItOff) {
  const auto device = std::make_shared<Double>();
  const ProbePage page = probe_page(42);
  std::memcpy(device->memory().data() + 8192, page.data(), page.size());
  EXPECT_FALSE(XpmemMechanism::open(device, 78));
  CopyMechanisms mechanisms;
  mechanisms.try_mechanism(*XpmemMechanism::open(device, 77), at(8192, sizeof(ProbePage)), 42);
  EXPECT_TRUE(mechanisms.usable());
  EXPECT_EQ(mechanisms.why(), "xpmem: probe copied 4096 bytes");
  device->refuse_attaching();
  std::vector<std::byte> bytes(2 * XpmemMechanism::kWindow);
  const CopyOutcome outcome = mechanisms.copy(at(0, bytes.size()), bytes.data(), false);
  EXPECT_EQ(outcome.error.code, Errc::not_supported);
  EXPECT_EQ(outcome.copied, XpmemMechanism::kWindow - kPeerBase % XpmemMechanism::kWindow)
      << "what the attached window had";
  EXPECT_FALSE(mechanisms.usable());
}

TEST(SmXpmem, WithoutTheKernelModuleTheReasonNamesTheDevice) {
  if (::access("/dev/xpmem", F_OK) == 0) GTEST_SKIP() << "the module is loaded here";
  const std::string text = description_with("xpmem,cma");
  EXPECT_NE(text.find("no xpmem: open(/dev/xpmem): No such file or directory"), std::string::npos) << text;
}

}  // namespace
}  // namespace opal::btl::sm
