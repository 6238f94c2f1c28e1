// SPDX-License-Identifier: Apache-2.0
// The single-copy mechanisms: its list, its probes, and that a transfer whose mechanism fails
// half-way is finished by the next one, or else by messages.
#include "opal/btl/sm/single_copy/copy_mechanisms.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "opal/btl/sm/module.hpp"
#include "opal/btl/sm/single_copy/cma.hpp"
#include "tests/btl/sm/own_memory.hpp"
#include "tests/conformance/side.hpp"

namespace opal::btl::sm {
namespace {

using test::pattern;

std::vector<std::string_view> names(std::string_view list) {
  std::vector<std::string_view> result;
  const Result<MechanismOrder> order = MechanismOrder::parse(list);
  for (const MechanismKind kind : order->kinds) result.push_back(name(kind));
  return result;
}

TEST(SmMechanismOrder, IsTheListUpToNoneWithoutRepetitions) {
  using List = std::vector<std::string_view>;
  EXPECT_EQ(names("shared,xpmem,cma,knem"), (List{"shared", "xpmem", "cma", "knem"}));
  EXPECT_EQ(names("knem,cma,knem"), (List{"knem", "cma"}));
  EXPECT_EQ(names("cma,none,xpmem"), (List{"cma"}));
  EXPECT_EQ(names("none,cma"), List{});
  EXPECT_EQ(names("cma,"), (List{"cma"}));
  EXPECT_EQ(names(""), List{});
}

TEST(SmMechanismOrder, AListWithAnUnknownNameIsRefusedByNameWhenTheModuleOpens) {
  for (const char* list : {"cma;none", "xyz", "cma,,none", "CMA", "cma, none"}) {
    EXPECT_FALSE(MechanismOrder::parse(list)) << list;
    test::Side host{"sm"};
    Config config;
    config.single_copy = list;
    const auto refused = Module::open(host.module().parameters(), config);
    ASSERT_FALSE(refused) << list;
    EXPECT_EQ(refused.error().code, Errc::invalid_argument);
    EXPECT_NE(std::string_view{refused.error().where}.find("shared, xpmem, cma, knem"), std::string_view::npos);
  }
}

/// Copies within this process, breaking with `error` after `budget` bytes.
class Brittle final : public CopyMechanism {
 public:
  Brittle(MechanismKind kind, std::uint64_t budget, Errc error) : kind_(kind), budget_(budget), error_(error) {}
  [[nodiscard]] MechanismKind kind() const noexcept override { return kind_; }
  CopyOutcome copy(const RemoteRange& range, std::byte* here, bool write) noexcept override {
    const std::uint64_t part = std::min(range.size, budget_);
    budget_ -= part;
    auto* const there = reinterpret_cast<std::byte*>(range.address);
    std::memcpy(write ? there : here, write ? here : there, part);
    if (part == range.size) return {part, {}};
    return {part, {error_, 0, "the brittle mechanism broke"}};
  }

 private:
  MechanismKind kind_;
  std::uint64_t budget_;
  Errc error_;
};

RemoteRange range_of(std::vector<std::byte>& bytes) {
  return {reinterpret_cast<std::uint64_t>(bytes.data()), bytes.size(), {}};
}

// Some of these places are copied in two steps where the processor needs it.
TEST(SmCma, BuffersAtAllPlacesOfTheirLinesAreReadAndWritten) {
  CmaMechanism cma{::getpid()};
  constexpr std::size_t kSize = 150'000;  // several pieces
  auto owner = pattern(kSize + 4096, 1);
  std::vector<std::byte> user(owner.size() + 100);
  for (const std::size_t there : {0, 5, 16}) {
    for (std::size_t here = 0; here < 70; here += 3) {
      RemoteRange range = range_of(owner);
      range.address += there;
      range.size = kSize;
      std::fill(user.begin(), user.end(), std::byte{});
      if (!cma.copy(range, user.data() + here, false).ok())
        GTEST_SKIP() << "needs cma: process_vm_readv is refused here";
      ASSERT_TRUE(std::equal(user.begin() + here, user.begin() + here + kSize, owner.begin() + there))
          << there << " " << here;
      ASSERT_EQ(user[here + kSize], std::byte{});
      const auto sent = pattern(kSize, here + 2);
      std::copy(sent.begin(), sent.end(), user.begin() + here);
      const auto behind = owner[there + kSize];
      ASSERT_EQ(cma.copy(range, user.data() + here, true).copied, kSize);
      ASSERT_TRUE(std::equal(sent.begin(), sent.end(), owner.begin() + there)) << there << " " << here;
      ASSERT_EQ(owner[there + kSize], behind);
    }
  }
}

TEST(SmCma, ABufferOfTheCallerThatIsNotMappedIsAnErrorAtEveryPlace) {
  CmaMechanism cma{::getpid()};
  constexpr std::size_t kPage = 4096;
  auto* const pages =
      static_cast<std::byte*>(::mmap(nullptr, 32 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(pages, MAP_FAILED);
  ASSERT_EQ(::munmap(pages + 16 * kPage, 16 * kPage), 0);
  std::vector<std::byte> owner(32 * kPage);
  for (const std::size_t place : {0, 8}) {
    RemoteRange range = range_of(owner);
    range.address += kPage - range.address % kPage;
    range.size = 20 * kPage;
    EXPECT_EQ(cma.copy(range, pages + place, false).error.code, Errc::invalid_argument) << place;
    EXPECT_EQ(cma.copy(range.after(place + 8), pages, true).error.code, Errc::invalid_argument) << place;
  }
  ::munmap(pages, 16 * kPage);
}

TEST(SmMechanisms, ATransferWhoseMechanismBreaksHalfWayIsFinishedByTheNextOne) {
  for (const bool reading : {true, false}) {
    CopyMechanisms mechanisms;
    mechanisms.add(std::make_unique<Brittle>(MechanismKind::xpmem, 1000, Errc::not_supported), "test");
    mechanisms.add(std::make_unique<Brittle>(MechanismKind::cma, 5000, Errc::not_supported), "test");
    mechanisms.add(std::make_unique<Brittle>(MechanismKind::knem, 1 << 20, Errc::not_supported), "test");
    auto source = pattern(50'000, 1);
    std::vector<std::byte> target(source.size());
    const CopyOutcome outcome = reading ? mechanisms.copy(range_of(source), target.data(), false)
                                        : mechanisms.copy(range_of(target), source.data(), true);
    EXPECT_TRUE(outcome.ok());
    EXPECT_EQ(target, source);
    EXPECT_TRUE(mechanisms.usable());
    EXPECT_EQ(
        mechanisms.why(),
        "knem: test; no xpmem: given up, the brittle mechanism broke; no cma: given up, the brittle mechanism broke");
  }
}

TEST(SmMechanisms, WithoutAMechanismLeftItSaysHowFarItCame) {
  CopyMechanisms mechanisms;
  mechanisms.add(std::make_unique<Brittle>(MechanismKind::xpmem, 1000, Errc::not_supported), "test");
  mechanisms.add(std::make_unique<Brittle>(MechanismKind::cma, 500, Errc::not_supported), "test");
  auto source = pattern(50'000, 1);
  std::vector<std::byte> target(source.size());
  const CopyOutcome outcome = mechanisms.copy(range_of(source), target.data(), false);
  EXPECT_EQ(outcome.error.code, Errc::not_supported);
  EXPECT_EQ(outcome.copied, 1500U);
  EXPECT_EQ(std::memcmp(target.data(), source.data(), 1500), 0);
  EXPECT_FALSE(mechanisms.usable());
  EXPECT_EQ(mechanisms.find(MechanismKind::cma), nullptr);
}

TEST(SmMechanisms, AMechanismThatCannotServeARegionIsPassedOverAndKept) {
  CopyMechanisms mechanisms;
  mechanisms.add(std::make_unique<Brittle>(MechanismKind::shared, 0, Errc::busy), "test");
  mechanisms.add(std::make_unique<Brittle>(MechanismKind::cma, 1 << 20, Errc::not_supported), "test");
  auto source = pattern(5000, 1);
  std::vector<std::byte> target(source.size());
  EXPECT_TRUE(mechanisms.copy(range_of(source), target.data(), false).ok());
  EXPECT_EQ(target, source);
  EXPECT_EQ(mechanisms.why(), "shared: test; cma: test");
}

TEST(SmMechanisms, AnErrorOfTheCopyItselfEndsTheTransferAndKeepsTheMechanism) {
  CopyMechanisms mechanisms;
  mechanisms.add(std::make_unique<Brittle>(MechanismKind::cma, 100, Errc::peer_gone), "test");
  auto source = pattern(5000, 1);
  std::vector<std::byte> target(source.size());
  EXPECT_EQ(mechanisms.copy(range_of(source), target.data(), false).error.code, Errc::peer_gone);
  EXPECT_TRUE(mechanisms.usable());
}

/// Both work here; the one that stands first copies.
TEST(SmMechanisms, XpmemGoesBeforeCmaByDefaultAndAfterItWhereTheListSaysSo) {
  EXPECT_EQ(names(Config{}.single_copy), (std::vector<std::string_view>{"shared", "xpmem", "cma", "knem"}));
  for (const char* order : {"", "cma,xpmem"}) {
    const std::string list = *order != '\0' ? order : Config{}.single_copy;
    SCOPED_TRACE(list);
    std::vector<std::byte> region(3 * XpmemMechanism::kWindow);  // the windows within it serve nothing else
    region[XpmemMechanism::kWindow] = std::byte{9};
    const auto address = reinterpret_cast<std::uint64_t>(region.data());
    const auto device = std::make_shared<OwnMemory>();
    Doubled a{device, list, "alone"};
    Doubled b{std::make_shared<OwnMemory>(), list, "alone"};
    btl::Endpoint& there = **a.module->connect(b.host.id(), b.module->address());
    const std::string text = there.describe();
    if (text.find("cma: probe copied") == std::string::npos) GTEST_SKIP() << "needs CMA: process_vm_readv: " << text;
    const std::size_t xpmem = text.find("xpmem: probe copied");
    ASSERT_NE(xpmem, std::string::npos) << text;
    EXPECT_EQ(xpmem < text.find("cma: probe copied"), *order == '\0') << text;
    const MemoryHandle handle = *b.module->register_memory(region.data(), region.size(), Rights::all);
    std::vector<std::byte> copy(region.size());
    test::CountedCompletion completion;
    int attached = 0;
    device->on_attach = [&](std::uint64_t) { ++attached; };
    ASSERT_EQ(a.module->get(there, copy.data(), nullptr, address, handle, copy.size(), completion), Post::done);
    EXPECT_EQ(copy, region);
    EXPECT_EQ(attached != 0, *order == '\0') << "the first of the list copies";
  }
}

TEST(SmMechanisms, AProbeThatFailsOrReadsSomebodyElseKeepsTheMechanismOut) {
  const ProbePage page = probe_page(42);
  const RemoteRange there{reinterpret_cast<std::uint64_t>(page.data()), page.size(), {}};
  CopyMechanisms mechanisms;
  mechanisms.try_mechanism(std::make_unique<CmaMechanism>(::getpid()), there, 43);
  EXPECT_FALSE(mechanisms.usable()) << "another process with that PID";
  mechanisms.try_mechanism(std::make_unique<CmaMechanism>(::getpid()), {4096, sizeof(ProbePage), {}}, 42);
  EXPECT_FALSE(mechanisms.usable());
  EXPECT_NE(mechanisms.why().find("process_vm_readv"), std::string::npos) << mechanisms.why();
}

}  // namespace
}  // namespace opal::btl::sm
