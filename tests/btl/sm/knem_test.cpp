// SPDX-License-Identifier: Apache-2.0
// Single copy through KNEM against a double of the kernel module's interface: first its two halves, then two modules
// that have nothing else.
#include "opal/btl/sm/single_copy/knem.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <mutex>

#include "opal/btl/sm/module.hpp"
#include "tests/btl/sm/single_copy.hpp"
#include "tests/conformance/side.hpp"

namespace opal::btl::sm {
namespace {

using test::CountedCompletion;
using test::pattern;

/// What the kernel keeps: regions of all processes, which here are one.
struct Kernel {
  struct Region {
    std::uint64_t base;
    std::uint64_t size;
    const void* owner;
  };
  std::mutex mutex;  // modules' threads and doormen come here
  std::map<std::uint64_t, Region> regions;
  std::uint64_t next = 1000;
  std::uint64_t copied = 0;               // bytes, of all copies that worked
  std::uint64_t fail_after = UINT64_MAX;  // bytes copied; from then on copies fail with
  Errc failure = Errc::not_supported;
  bool creating = true;
};

class Double final : public KnemDevice {
 public:
  explicit Double(Kernel& kernel) : kernel_(kernel) {}
  ~Double() override {
    for (const auto& [cookie, region] : kernel_.regions) EXPECT_NE(region.owner, this) << "a cookie is not destroyed";
  }
  Result<std::uint64_t> create(std::uint64_t base, std::uint64_t size) noexcept override {
    const std::lock_guard lock{kernel_.mutex};
    if (!kernel_.creating || size > std::uint64_t{1} << 40)
      return Error{Errc::invalid_argument, EFAULT, "double: create"};
    kernel_.regions[++kernel_.next] = {base, size, this};
    return kernel_.next;
  }
  void destroy(std::uint64_t cookie) noexcept override {
    const std::lock_guard lock{kernel_.mutex};
    const auto found = kernel_.regions.find(cookie);
    ASSERT_NE(found, kernel_.regions.end()) << "destroyed twice";
    EXPECT_EQ(found->second.owner, this);
    kernel_.regions.erase(found);
  }
  Result<void> copy(std::uint64_t cookie, std::uint64_t offset, std::byte* here, std::uint64_t size,
                    bool write) noexcept override {
    const std::lock_guard lock{kernel_.mutex};
    const auto found = kernel_.regions.find(cookie);
    if (found == kernel_.regions.end()) return Error{Errc::busy, EINVAL, "double: no such cookie"};
    EXPECT_LE(offset + size, found->second.size) << "beyond the region the kernel copies less and says nothing";
    if (kernel_.copied >= kernel_.fail_after) return Error{kernel_.failure, EIO, "double: copy"};
    auto* const there = reinterpret_cast<std::byte*>(found->second.base + offset);
    std::memcpy(write ? there : here, write ? here : there, size);
    kernel_.copied += size;
    return {};
  }

 private:
  Kernel& kernel_;
};

RemoteRange range_of(const SoftwareHandle& region, std::uint64_t offset, std::uint64_t size) {
  return {region.base + offset, size, region};
}

class SmKnem : public ::testing::Test {
 protected:
  /// Registers, and what the owner's table says about it.
  SoftwareHandle expose(MutableBytes memory) {
    handles_.push_back(*table_.add(memory.data(), memory.size(), Rights::all));
    return *SoftwareHandle::decode(handles_.back());
  }
  void withdraw(std::size_t which) { EXPECT_TRUE(table_.remove(handles_[which])); }
  /// A mechanism whose questions are answered at once.
  std::unique_ptr<KnemMechanism> mechanism() {
    auto mechanism = std::make_unique<KnemMechanism>(device_, KnemCookie{});
    mechanism->on_need([this, self = mechanism.get()](const SoftwareHandle& region) {
      ++asked_;
      self->take(owner_.cookie_of(region));
    });
    return mechanism;
  }

  Kernel kernel_;
  RegistrationTable table_ = *RegistrationTable::create(2000);
  std::shared_ptr<Double> device_ = std::make_shared<Double>(kernel_);
  KnemRegions owner_{device_, table_};
  std::vector<MemoryHandle> handles_;
  int asked_ = 0;
};

TEST_F(SmKnem, OffsetsCountFromTheBaseOfTheRegion) {
  auto memory = pattern(100'000, 1);
  const SoftwareHandle region = expose(memory);
  const auto mechanism = this->mechanism();
  std::vector<std::byte> copy(5000);
  const CopyOutcome first = mechanism->copy(range_of(region, 777, copy.size()), copy.data(), false);
  EXPECT_EQ(first.error.code, Errc::busy) << "its cookie is only being asked for";
  ASSERT_TRUE(mechanism->copy(range_of(region, 777, copy.size()), copy.data(), false).ok());
  EXPECT_EQ(std::memcmp(copy.data(), memory.data() + 777, copy.size()), 0);
  auto bytes = pattern(3000, 2);
  ASSERT_TRUE(mechanism->copy(range_of(region, 97'000, bytes.size()), bytes.data(), true).ok());
  EXPECT_EQ(std::memcmp(memory.data() + 97'000, bytes.data(), bytes.size()), 0);
  EXPECT_EQ(asked_, 1);
  // What a handle says about its base is only a claim; the owner's table counts.
  SoftwareHandle liar = region;
  liar.base -= 4096;
  ASSERT_TRUE(mechanism->copy(range_of(liar, 4096 + 777, copy.size()), copy.data(), false).ok());
  EXPECT_EQ(std::memcmp(copy.data(), memory.data() + 777, copy.size()), 0);
  EXPECT_EQ(mechanism->copy({region.base - 1, 10, region}, copy.data(), false).error.code, Errc::busy);
  EXPECT_EQ(mechanism->copy({region.base + 99'999, 2, region}, copy.data(), false).error.code, Errc::busy);
  EXPECT_EQ(mechanism->copy({region.base, UINT64_MAX, region}, copy.data(), false).error.code, Errc::busy);
}

TEST_F(SmKnem, ACookieEndsWithItsRegistrationAndNeverServesTheNextOne) {
  std::vector<std::byte> memory(4096);
  const SoftwareHandle region = expose(memory);
  EXPECT_NE(owner_.cookie_of(region).cookie, 0U);
  EXPECT_EQ(owner_.cookie_of(region).cookie, owner_.cookie_of(region).cookie) << "one each";
  EXPECT_EQ(kernel_.regions.size(), 1U);
  withdraw(0);
  EXPECT_EQ(kernel_.regions.size(), 0U);
  EXPECT_EQ(owner_.cookie_of(region).cookie, 0U) << "stale";
  SoftwareHandle wild = region;
  wild.slot = 1'000'000;
  EXPECT_EQ(owner_.cookie_of(wild).cookie, 0U);
}

TEST_F(SmKnem, CookiesAreBoundedAndALostOneIsAskedForAgain) {
  std::vector<std::byte> memory(4096);
  std::vector<SoftwareHandle> regions;
  for (std::size_t i = 0; i < KnemRegions::kMost + 1; ++i) regions.push_back(expose(memory));
  const auto mechanism = this->mechanism();
  std::vector<std::byte> copy(10);
  (void)mechanism->copy(range_of(regions[0], 0, 10), copy.data(), false);
  ASSERT_TRUE(mechanism->copy(range_of(regions[0], 0, 10), copy.data(), false).ok());
  for (const SoftwareHandle& region : regions) (void)owner_.cookie_of(region);
  EXPECT_EQ(kernel_.regions.size(), KnemRegions::kMost);
  EXPECT_EQ(mechanism->copy(range_of(regions[0], 0, 10), copy.data(), false).error.code, Errc::busy)
      << "destroyed meanwhile";
  (void)mechanism->copy(range_of(regions[0], 0, 10), copy.data(), false);
  EXPECT_TRUE(mechanism->copy(range_of(regions[0], 0, 10), copy.data(), false).ok());
  EXPECT_EQ(asked_, 2);
}

TEST_F(SmKnem, BeforeAForkAllCookiesEndBecauseTheParentsPagesMayMove) {
  auto memory = pattern(4096, 1);
  const SoftwareHandle region = expose(memory);
  ASSERT_NE(owner_.cookie_of(region).cookie, 0U);
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(owner_.cookie_of(region).cookie == 0 && kernel_.regions.empty() ? 0 : 1);
  EXPECT_EQ(kernel_.regions.size(), 0U);
  int status = -1;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  EXPECT_EQ(status, 0) << "the child makes none on its parent's device";
  EXPECT_NE(owner_.cookie_of(region).cookie, 0U);
}

TEST_F(SmKnem, ADeviceThatNeverKnowsItsCookiesIsGivenUp) {
  auto memory = pattern(4096, 1);
  const SoftwareHandle region = expose(memory);
  kernel_.fail_after = 0;
  kernel_.failure = Errc::busy;
  CopyMechanisms mechanisms;
  mechanisms.add(mechanism(), "double");
  std::vector<std::byte> copy(10);
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(mechanisms.copy(range_of(region, 0, 10), copy.data(), false).error.code, Errc::not_supported);
  }
  EXPECT_EQ(mechanisms.find(MechanismKind::knem), nullptr);
}

TEST_F(SmKnem, AFailureInMidTransferKeepsWhatWasCopiedAndTakesItOffTheMechanisms) {
  auto memory = pattern(2 * KnemMechanism::kPiece + 1000, 1);
  const SoftwareHandle region = expose(memory);
  CopyMechanisms mechanisms;
  mechanisms.add(mechanism(), "double");
  std::vector<std::byte> copy(memory.size());
  (void)mechanisms.copy(range_of(region, 0, copy.size()), copy.data(), false);
  EXPECT_TRUE(mechanisms.reaches(range_of(region, 0, copy.size())));
  kernel_.fail_after = KnemMechanism::kPiece;
  const CopyOutcome outcome = mechanisms.copy(range_of(region, 0, copy.size()), copy.data(), false);
  EXPECT_EQ(outcome.error.code, Errc::not_supported);
  EXPECT_EQ(outcome.copied, KnemMechanism::kPiece);
  EXPECT_EQ(std::memcmp(copy.data(), memory.data(), KnemMechanism::kPiece), 0);
  EXPECT_EQ(mechanisms.find(MechanismKind::knem), nullptr);
  EXPECT_NE(mechanisms.why().find("no knem: given up, double: copy"), std::string::npos) << mechanisms.why();
}

/// Two modules over one "kernel", on the identities of two sides that talk to themselves only.
class SmKnemModules : public ::testing::Test {
 protected:
  struct Half {
    Half(Kernel& kernel, bool knem) : side("self") {
      const Error none{Errc::not_supported, 0, "not in this test"};
      KernelDevices devices{none,
                            knem ? KernelDevices::Knem{std::make_shared<Double>(kernel)} : KernelDevices::Knem{none}};
      config.large_get = "alone";  // as soon as it is possible
      config.single_copy = "knem";
      module = std::move(Module::open(side.module().parameters(), config, std::move(devices))).value();
    }
    test::Side side;
    Config config;
    std::unique_ptr<Module> module;
  };
  bool pump(const std::function<bool()>& condition) {
    const Deadline deadline = Deadline::after(std::chrono::seconds{120});
    while (!condition()) {
      a_.module->progress(64);
      b_.module->progress(64);
      if (deadline.expired()) return false;
    }
    return true;
  }
  btl::Endpoint& connect() { return **a_.module->connect(b_.side.id(), b_.module->address()); }
  Error finish(Post post, CountedCompletion& completion) {
    if (post == Post::queued) {
      EXPECT_TRUE(pump([&] { return completion.calls == 1; }));
    }
    return post == Post::done ? Error{} : completion.error;
  }
  Error get(btl::Endpoint& to, std::vector<std::byte>& into, const MemoryHandle& handle) {
    CountedCompletion completion;
    const auto base = SoftwareHandle::decode(handle)->base;
    return finish(a_.module->get(to, into.data(), nullptr, base, handle, into.size(), completion), completion);
  }
  Error put(btl::Endpoint& to, const std::vector<std::byte>& from, const MemoryHandle& handle) {
    CountedCompletion completion;
    const auto base = SoftwareHandle::decode(handle)->base;
    return finish(a_.module->put(to, from.data(), nullptr, base, handle, from.size(), completion), completion);
  }
  /// Gets until one of them has gone through the device.
  [[nodiscard]] bool warm_up(btl::Endpoint& to, const MemoryHandle& handle, std::size_t size) {
    std::vector<std::byte> into(size);
    const std::uint64_t before = kernel_.copied;
    return pump([&] { return get(to, into, handle).code == Errc{} && kernel_.copied != before; });
  }

  Kernel kernel_;
  Half a_{kernel_, true};
  Half b_{kernel_, true};
};

TEST_F(SmKnemModules, TheProbePutsItAmongTheMechanismsAndPutAndGetGoThroughIt) {
  btl::Endpoint& route = connect();
  EXPECT_NE(route.describe().find("knem: probe copied 4096 bytes"), std::string::npos) << route.describe();
  for (const std::size_t size : {std::size_t{1}, std::size_t{5000}, std::size_t{300'000}}) {
    auto memory = pattern(size, 3);
    const auto handle = b_.module->register_memory(memory.data(), memory.size(), Rights::all);
    ASSERT_TRUE(handle);
    ASSERT_TRUE(warm_up(route, *handle, size));
    std::vector<std::byte> copy(size);
    EXPECT_EQ(get(route, copy, *handle).code, Errc{});
    EXPECT_EQ(copy, memory);
    const auto bytes = pattern(size, 4);
    const std::uint64_t before = kernel_.copied;
    EXPECT_EQ(put(route, bytes, *handle).code, Errc{});
    EXPECT_EQ(memory, bytes);
    EXPECT_EQ(kernel_.copied, before + size);
    ASSERT_TRUE(b_.module->deregister_memory(*handle));
    EXPECT_EQ(get(route, copy, *handle).code, Errc::invalid_argument) << "stale";
    EXPECT_EQ(kernel_.regions.size(), 2U) << "only the probe pages of both";
  }
}

TEST_F(SmKnemModules, ATransferInWhichItFailsIsFinishedByMessages) {
  btl::Endpoint& route = connect();
  auto memory = pattern(KnemMechanism::kPiece + 100'000, 3);
  const auto handle = *b_.module->register_memory(memory.data(), memory.size(), Rights::all);
  ASSERT_TRUE(warm_up(route, handle, memory.size()));
  kernel_.fail_after = kernel_.copied + 1;  // the first piece is the last that works
  std::vector<std::byte> copy(memory.size());
  EXPECT_EQ(get(route, copy, handle).code, Errc{});
  EXPECT_EQ(copy, memory);
  EXPECT_NE(route.describe().find("no knem: given up"), std::string::npos) << route.describe();
}

TEST_F(SmKnemModules, MemoryThatCannotBeARegionIsCopiedByMessages) {
  btl::Endpoint& route = connect();
  kernel_.creating = false;
  auto memory = pattern(50'000, 3);
  const auto handle = *b_.module->register_memory(memory.data(), memory.size(), Rights::all);
  std::vector<std::byte> copy(memory.size());
  const std::uint64_t before = kernel_.copied;
  for (int i = 0; i < 5; ++i) {
    std::fill(copy.begin(), copy.end(), std::byte{});
    EXPECT_EQ(get(route, copy, handle).code, Errc{});
    EXPECT_EQ(copy, memory);
  }
  EXPECT_EQ(kernel_.copied, before);
  EXPECT_NE(route.describe().find("knem: probe copied"), std::string::npos) << "it stays for other memory";
}

TEST_F(SmKnemModules, APeerWithoutTheDeviceIsServedWithoutIt) {
  Half other{kernel_, false};
  btl::Endpoint& route = **other.module->connect(b_.side.id(), b_.module->address());
  EXPECT_NE(route.describe().find("no knem: not in this test"), std::string::npos) << route.describe();
  btl::Endpoint& back = **a_.module->connect(other.side.id(), other.module->address());
  EXPECT_NE(back.describe().find("no knem: the peer offers no cookie"), std::string::npos) << back.describe();
}

TEST_F(SmKnemModules, AProbeThatFailsKeepsItOut) {
  kernel_.fail_after = 0;
  EXPECT_NE(connect().describe().find("no knem: double: copy"), std::string::npos);
}

TEST(SmKnemDevice, WithoutTheKernelModuleTheReasonNamesTheDevice) {
  if (::access("/dev/knem", F_OK) == 0) GTEST_SKIP() << "the module is loaded here";
  const std::string text = description_with("knem,cma");
  EXPECT_NE(text.find("no knem: open(/dev/knem): No such file or directory"), std::string::npos) << text;
}

}  // namespace
}  // namespace opal::btl::sm
