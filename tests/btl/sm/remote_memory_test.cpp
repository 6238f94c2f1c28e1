// SPDX-License-Identifier: Apache-2.0
// One resolution of the memory that a one-sided operation names: by which access it is reached, and what is refused.
#include "opal/btl/sm/single_copy/remote_memory.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <vector>

namespace opal::btl::sm {
namespace {

/// Copies within this process and counts how often it is asked.
class Counting final : public CopyMechanism {
 public:
  explicit Counting(int& copies) noexcept : copies_(copies) {}
  [[nodiscard]] MechanismKind kind() const noexcept override { return MechanismKind::cma; }
  CopyOutcome copy(const RemoteRange& range, std::byte* here, bool write) noexcept override {
    auto* const there = reinterpret_cast<std::byte*>(range.address);
    std::memcpy(write ? there : here, write ? here : there, range.size);
    ++copies_;
    return {range.size, {}};
  }

 private:
  int& copies_;
};

/// The memory of a "peer" that is this process.
struct SmRemoteMemory : ::testing::Test {
  SmRemoteMemory() : table(*RegistrationTable::create(64)) { memory.registrations = table.view(); }
  MemoryHandle expose(Rights rights) { return *table.add(bytes.data(), bytes.size(), rights); }
  Result<Target> resolve(const MemoryHandle& handle, Rights wanted) {
    return memory.resolve(handle, address(), bytes.size(), wanted);
  }
  [[nodiscard]] std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(bytes.data()); }

  std::vector<std::byte> bytes = std::vector<std::byte>(10'000);
  RegistrationTable table;
  RemoteMemory memory;
};

TEST_F(SmRemoteMemory, PrivateMemoryIsReachedByAMechanismOrElseOnlyByItsOwner) {
  const MemoryHandle handle = expose(Rights::all);
  const auto without = resolve(handle, Rights::remote_read);
  ASSERT_TRUE(without);
  EXPECT_EQ(without->access, Target::Access::messages);
  EXPECT_TRUE(without->checked) << "its owner may copy it into chunks";

  int copies = 0;
  memory.copy.add(std::make_unique<Counting>(copies), "it copies");
  const auto with = resolve(handle, Rights::remote_read);
  ASSERT_TRUE(with);
  EXPECT_EQ(with->access, Target::Access::mechanism);
  EXPECT_EQ(with->range.address, address());
  EXPECT_EQ(with->range.size, bytes.size());
  EXPECT_EQ(copies, 0) << "to resolve is not to copy";
}

TEST_F(SmRemoteMemory, WhatTheTableDoesNotAllowIsAnErrorOfTheOperation) {
  const MemoryHandle handle = expose(Rights::remote_read);
  const auto write = resolve(handle, Rights::remote_write);
  ASSERT_FALSE(write);
  EXPECT_EQ(write.error().code, Errc::permission);
  const auto outside = memory.resolve(handle, address() + 1, bytes.size(), Rights::remote_read);
  ASSERT_FALSE(outside);
  EXPECT_EQ(outside.error().code, Errc::invalid_argument);
  const auto garbled = resolve(*MemoryHandle::from_bytes(bytes_of(std::uint32_t{7})), Rights::remote_read);
  ASSERT_FALSE(garbled);
  EXPECT_EQ(garbled.error().code, Errc::protocol);
}

TEST_F(SmRemoteMemory, ARecheckFindsARegistrationThatHasEndedAndAPeerThatHasHungUp) {
  const MemoryHandle handle = expose(Rights::all);
  const auto target = resolve(handle, Rights::remote_read);
  ASSERT_TRUE(target);
  const RemoteRange part = target->range.after(4096);
  EXPECT_TRUE(memory.recheck(part, Rights::remote_read));
  ASSERT_TRUE(table.remove(handle));
  const auto stale = memory.recheck(part, Rights::remote_read);
  ASSERT_FALSE(stale);
  EXPECT_EQ(stale.error().code, Errc::invalid_argument);
  memory.hung_up->store(true);
  const auto gone = memory.recheck(part, Rights::remote_read);
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code, Errc::peer_gone) << "another process may have its PID";
}

}  // namespace
}  // namespace opal::btl::sm
