// SPDX-License-Identifier: Apache-2.0
// More memory than may be pinned at a time: transfers of a working set above RLIMIT_MEMLOCK, above the objects or the
// memory that a control group allows, run to their end, because the registration cache gives up what is idle.
// Changes limits of its own process and makes control groups: for a guest (tests/vm/suite).
#include <fcntl.h>
#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "opal/core/system/fd.hpp"
#include "opal/core/system/mapping.hpp"
#include "tests/am/pair.hpp"

namespace opal::test {
namespace {

/// A control group with limits that this process is in while the object lives.
class ControlGroup {
 public:
  ControlGroup(const std::string& controller, const std::string& file, const std::string& limit) {
    write(kRoot + "/cgroup.subtree_control", "+" + controller);
    std::filesystem::create_directory(path_);
    write(path_ + "/" + file, limit);
    write(path_ + "/cgroup.procs", std::to_string(::getpid()));
  }
  ~ControlGroup() {
    write(kRoot + "/cgroup.procs", std::to_string(::getpid()));
    ::rmdir(path_.c_str());
  }
  ControlGroup(const ControlGroup&) = delete;
  ControlGroup& operator=(const ControlGroup&) = delete;

 private:
  static void write(const std::string& file, const std::string& text) {
    std::ofstream stream{file};
    stream << text << std::flush;
    EXPECT_TRUE(stream) << text << " into " << file;
  }
  inline static const std::string kRoot = "/sys/fs/cgroup";
  const std::string path_ = kRoot + "/opal-limits-test";
};

/// Without the right to pin as much as one likes, and at most `bytes`, while the object lives.
class LockedMemoryLimit {
 public:
  explicit LockedMemoryLimit(rlim_t bytes) {
    EXPECT_EQ(::getrlimit(RLIMIT_MEMLOCK, &before_), 0);
    const rlimit limit{bytes, before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_MEMLOCK, &limit), 0);
    set_right(false);
  }
  ~LockedMemoryLimit() {
    set_right(true);
    ::setrlimit(RLIMIT_MEMLOCK, &before_);
  }
  LockedMemoryLimit(const LockedMemoryLimit&) = delete;
  LockedMemoryLimit& operator=(const LockedMemoryLimit&) = delete;

 private:
  static void set_right(bool on) {
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct data[2]{};
    ASSERT_EQ(::syscall(SYS_capget, &header, data), 0);
    constexpr std::uint32_t kBit = 1U << CAP_IPC_LOCK;
    data[0].effective = on ? data[0].effective | kBit : data[0].effective & ~kBit;
    ASSERT_EQ(::syscall(SYS_capset, &header, data), 0);
  }
  rlimit before_{};
};

class VerbsLimits : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto names = joining_transports();
    if (std::find(names.begin(), names.end(), "verbs") == names.end() || std::getenv("VM_RANK") == nullptr) {
      GTEST_SKIP() << "needs rdma: tests/vm/suite runs this in a guest";
    }
  }

  void open() {
    a_ = std::make_unique<Side>("verbs");
    b_ = std::make_unique<Side>("verbs");
    auto connected = a_->context->connect(b_->context->address());
    ASSERT_TRUE(connected);
    to_b_ = *connected;
    region_ = *b_->context->register_memory(there_.data(), there_.size(), Rights::all);
    key_ = *to_b_->unpack_key(region_.key());
    transfer(true, there_.data(), 1);  // the connection for it
  }
  void transfer(bool put, std::byte* local, std::size_t size) {
    const auto remote = reinterpret_cast<std::uint64_t>(there_.data());
    const Error error = finish(
        [&](Completion& done) {
          return put ? to_b_->put(local, remote, key_, size, done) : to_b_->get(local, remote, key_, size, done);
        },
        *a_->context, *b_->context);
    ASSERT_EQ(error.code, Errc{}) << to_string(error);
  }
  /// All of `memory`, in pieces, puts from it.
  void put_from(std::byte* memory, std::size_t size, std::size_t piece) {
    for (std::size_t at = 0; at < size; at += piece) {
      std::memset(memory + at, static_cast<int>(at / piece % 251 + 1), piece);
      transfer(true, memory + at, piece);
      ASSERT_EQ(std::memcmp(there_.data(), memory + at, piece), 0) << at;
    }
  }
  void put_and_get(std::byte* memory, std::size_t size, std::size_t piece) {
    put_from(memory, size, piece);
    for (std::size_t at = 0; at < size; at += piece) {
      std::memset(there_.data(), static_cast<int>(at / piece % 241 + 7), piece);
      transfer(false, memory + at, piece);
      ASSERT_EQ(std::memcmp(there_.data(), memory + at, piece), 0) << at;
    }
  }
  [[nodiscard]] rcache::Statistics statistics() const { return a_->context->registration_statistics(); }

  std::vector<std::byte> there_ = std::vector<std::byte>(1 << 20);
  std::unique_ptr<Side> a_;
  std::unique_ptr<Side> b_;
  am::Endpoint* to_b_ = nullptr;
  am::Region region_;
  MemoryHandle key_;
};

TEST_F(VerbsLimits, AWorkingSetAboveTheLimitOfLockedMemoryRunsByEviction) {
  constexpr std::size_t kSet = 24 << 20;
  const LockedMemoryLimit limit{8 << 20};
  open();
  auto memory = *Mapping::anonymous(kSet);
  put_and_get(memory.data(), kSet, 1 << 20);
  const auto counted = statistics();
  EXPECT_GT(counted.evictions, 16U);
  EXPECT_GT(counted.registered.count, 1U) << "what there is room for is kept";
  EXPECT_LE(counted.registered.bytes, 8U << 20);
  EXPECT_EQ(counted.failures, 0U);
  region_ = {};
  a_.reset();  // with the rights with which they were opened: the connection manager heeds nobody else
  b_.reset();
}

TEST_F(VerbsLimits, AWorkingSetAboveAControlGroupsObjectsRunsByEviction) {
  constexpr std::size_t kPiece = 16 << 10;
  constexpr std::size_t kPieces = 200;
  const ControlGroup group{"rdma", "rdma.max", "rxe0 hca_handle=8 hca_object=60"};
  open();
  auto memory = *Mapping::anonymous(kPieces * kPiece);
  put_and_get(memory.data(), memory.size(), kPiece);
  const auto counted = statistics();
  EXPECT_GT(counted.evictions, kPieces);
  EXPECT_GT(counted.registered.count, 4U);
  EXPECT_EQ(counted.failures, 0U);
  region_ = {};
}

TEST_F(VerbsLimits, AWorkingSetAboveAControlGroupsMemoryRunsByEviction) {
  const char* const shared = std::getenv("VM_SHARED");  // on a disk: what is not pinned can be written there
  ASSERT_NE(shared, nullptr);
  constexpr std::size_t kSet = 56 << 20;
  constexpr std::size_t kMost = 48 << 20;
  const ControlGroup group{"memory", "memory.max", std::to_string(kMost)};
  open();
  const std::string name = std::string{shared} + "/working-set";
  std::ofstream{name}.close();
  std::filesystem::resize_file(name, kSet);
  const Fd file{::open(name.c_str(), O_RDWR | O_CLOEXEC)};
  void* const memory = ::mmap(nullptr, kSet, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  ASSERT_NE(memory, MAP_FAILED);
  put_from(static_cast<std::byte*>(memory), kSet, 1 << 20);
  const auto counted = statistics();
  EXPECT_GT(counted.evictions, kSet >> 21);
  EXPECT_LE(counted.registered.bytes, kMost / 2);
  EXPECT_EQ(counted.failures, 0U);
  ::munmap(memory, kSet);
  std::filesystem::remove(name);
  region_ = {};
}

TEST_F(VerbsLimits, MemoryThatIsUnmappedAfterItsTransferIsNotHeldPinned) {
  constexpr std::size_t kPiece = 8 << 20;
  const ControlGroup group{"memory", "memory.max", std::to_string(64 << 20)};
  there_.resize(kPiece);
  open();
  for (int round = 0; round < 20; ++round) {
    auto memory = *Mapping::anonymous(kPiece);
    std::memset(memory.data(), round + 1, kPiece);
    transfer(true, memory.data(), kPiece);
    ASSERT_EQ(std::memcmp(there_.data(), memory.data(), kPiece), 0) << round;
  }
  region_ = {};
}

}  // namespace
}  // namespace opal::test
