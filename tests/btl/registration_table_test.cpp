// SPDX-License-Identifier: Apache-2.0
// The table of software registrations across a fork and a restart.
#include <gtest/gtest.h>

#include <array>

#include "opal/btl/shared/registrations/registration_table.hpp"
#include "tests/harness/in_child.hpp"

namespace opal::btl {
namespace {

using test::in_child;

class Table : public testing::Test {
 protected:
  [[nodiscard]] bool good(const MemoryHandle& handle) const {
    return static_cast<bool>(
        table_.check(handle, reinterpret_cast<std::uint64_t>(buffer_.data()), buffer_.size(), Rights::remote_read));
  }
  MemoryHandle add() { return *table_.add(buffer_.data(), buffer_.size(), Rights::all); }

  std::array<std::byte, 100> buffer_{};
  RegistrationTable table_ = *RegistrationTable::create(64);
};

TEST_F(Table, WhatAForkedChildDeregistersAndRegistersIsItsOwn) {
  const MemoryHandle kept = add();
  const MemoryHandle invalidated = add();
  EXPECT_EQ(in_child([&] {
              if (!good(kept) || !table_.remove(kept) || good(kept)) return 1;
              table_.invalidate(invalidated);
              if (good(invalidated)) return 2;
              return good(add()) ? 0 : 3;
            }),
            0);
  EXPECT_TRUE(good(kept));
  EXPECT_TRUE(good(invalidated));
  EXPECT_EQ(table_.live(), 2U);
}

TEST_F(Table, AMovedTableIsPrivateInAChildToo) {
  RegistrationTable moved = std::move(table_);
  const MemoryHandle kept = *moved.add(buffer_.data(), buffer_.size(), Rights::all);
  EXPECT_EQ(in_child([&] { return moved.remove(kept) ? 0 : 1; }), 0);
  EXPECT_TRUE(moved.remove(kept));
}

TEST_F(Table, AHandleThatWasNeverReturnedEndsNothing) {
  const MemoryHandle kept = add();
  SoftwareHandle wrong = *SoftwareHandle::decode(kept);
  for (const std::uint64_t generation : {std::uint64_t{0}, UINT64_MAX, wrong.generation - 1}) {
    wrong.generation = generation;
    for (const std::uint32_t slot : {0U, 1U}) {
      wrong.slot = slot;
      const MemoryHandle handle = *MemoryHandle::from_bytes(bytes_of(wrong));
      EXPECT_EQ(table_.remove(handle).error().code, Errc::invalid_argument);
      table_.invalidate(handle);
    }
  }
  EXPECT_TRUE(good(kept));
  EXPECT_EQ(table_.live(), 1U);
}

TEST_F(Table, RenewedItHasTheSameRegistrationsInAnotherFile) {
  const MemoryHandle kept = add();
  const Mapping former = *Mapping::shared(table_.fd(), table_.size_bytes(), 0, false);
  ASSERT_TRUE(table_.renew());
  EXPECT_TRUE(good(kept));
  const Mapping now = *Mapping::shared(table_.fd(), table_.size_bytes(), 0, false);
  const RegistrationView view = *RegistrationView::over({now.data(), now.size()});
  const SoftwareHandle named = *SoftwareHandle::decode(kept);
  EXPECT_TRUE(view.check(named, named.base, 1, Rights::remote_read));
  ASSERT_TRUE(table_.remove(kept));
  EXPECT_FALSE(view.check(named, named.base, 1, Rights::remote_read)) << "peers follow the new one";
  EXPECT_TRUE(RegistrationView::over({former.data(), former.size()})->check(named, named.base, 1, Rights::remote_read))
      << "and the former is never written";
  EXPECT_EQ(in_child([&] { return good(add()) ? 0 : 1; }), 0);
}

}  // namespace
}  // namespace opal::btl
