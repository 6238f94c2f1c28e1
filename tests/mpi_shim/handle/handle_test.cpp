// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <random>
#include <set>
#include <thread>
#include <vector>

#include "mpi.h"
#include "mpi_shim/datatype/construction/predefined.hpp"
#include "mpi_shim/handle/table.hpp"
#include "mpi_shim/op/op.hpp"
#include "tests/mpi_shim/datatype/constructors.hpp"

namespace mpi_shim::handle {
namespace {

using datatype::Datatype;

struct Counted final : Object {
  static constexpr Kind kKind = Kind::info;
  explicit Counted(int& alive) : Object(kKind), alive_(alive) { ++alive_; }
  ~Counted() { --alive_; }
  int& alive_;
};
struct Other final : Object {
  static constexpr Kind kKind = Kind::group;
  Other() : Object(kKind) {}
};

class Handles : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    datatype::publish_predefined_types();
    op::publish_predefined_ops();
  }
};

TEST_F(Handles, PredefinedValuesNameTheirObjects) {
  ASSERT_NE(find<Datatype>(MPI_DOUBLE), nullptr);
  EXPECT_EQ(find<Datatype>(MPI_DOUBLE)->name, "MPI_DOUBLE");
  EXPECT_EQ(to_handle<MPI_Datatype>(*find<Datatype>(MPI_DOUBLE)), MPI_DOUBLE);
  EXPECT_EQ(find<op::Op>(MPI_SUM)->kind(), op::OpKind::sum);
}

TEST_F(Handles, NullHandlesAndValuesOfAnotherKindNameNothing) {
  EXPECT_EQ(find<Datatype>(MPI_DATATYPE_NULL), nullptr);
  EXPECT_EQ(find<op::Op>(MPI_OP_NULL), nullptr);
  EXPECT_EQ(find<Datatype>(MPI_SUM), nullptr);
  EXPECT_EQ(find<op::Op>(MPI_INT), nullptr);
  EXPECT_EQ(find<Datatype>(static_cast<void*>(nullptr)), nullptr);
}

TEST_F(Handles, AnObjectIsFoundByItsHandleUntilItIsRetired) {
  int alive = 0;
  Counted* object = create<Counted>(alive).value().detach();
  auto* handle = to_handle<MPI_Info>(*object);
  EXPECT_EQ(find<Counted>(handle), object);
  EXPECT_EQ(find<Other>(handle), nullptr) << "of another kind";
  object->retire();
  EXPECT_EQ(find<Counted>(handle), nullptr);
  EXPECT_EQ(alive, 0);
}

TEST_F(Handles, AFreedObjectLivesUntilItsPendingUsesEnd) {
  int alive = 0;
  Counted* object = create<Counted>(alive).value().detach();
  auto* handle = to_handle<MPI_Info>(*object);
  {
    const auto pending = Ref<Counted>::share(*object);
    object->retire();
    EXPECT_EQ(find<Counted>(handle), nullptr) << "the application has given it up";
    EXPECT_EQ(alive, 1) << "the pending use has not";
  }
  EXPECT_EQ(alive, 0);
}

TEST_F(Handles, AStaleHandleIsNoticedWhileOtherObjectsComeAndGo) {
  int alive = 0;
  Counted* first = create<Counted>(alive).value().detach();
  auto* stale = to_handle<MPI_Info>(*first);
  first->retire();
  for (std::size_t i = 0; i < Arena::kQuarantine; ++i) {
    Counted* next = create<Counted>(alive).value().detach();
    EXPECT_NE(next, first);
    EXPECT_EQ(find<Counted>(stale), nullptr);
    next->retire();
  }
}

TEST_F(Handles, GarbageNamesNothingAndDoesNotCrash) {
  int alive = 0;
  const auto live = create<Counted>(alive).value();
  const auto base = live->handle();
  std::mt19937_64 random{3};
  int local = 0;
  std::vector<std::uintptr_t> garbage = {1,
                                         0x3ff,
                                         0x400,
                                         0x401,
                                         4096,
                                         base + 1,
                                         base + 8,
                                         base - 64,
                                         base + (1 << 16),
                                         base + (std::uintptr_t{1} << 30),
                                         ~std::uintptr_t{0},
                                         ~std::uintptr_t{63},
                                         reinterpret_cast<std::uintptr_t>(&local)};
  for (int i = 0; i < 10000; ++i) garbage.push_back(random() >> (random() % 64));
  for (const std::uintptr_t value : garbage) {
    if (value == base) continue;
    EXPECT_EQ(find<Counted>(reinterpret_cast<MPI_Info>(value)), nullptr) << value;
  }
}

TEST_F(Handles, PredefinedObjectsIgnoreReleases) {
  Datatype* type = find<Datatype>(MPI_INT);
  for (int i = 0; i < 10; ++i) type->release();
  type->retire();
  EXPECT_EQ(find<Datatype>(MPI_INT), type);
  EXPECT_EQ(type->size(), 4);
}

TEST_F(Handles, ManyLiveObjectsHaveDifferentHandles) {
  std::vector<Ref<Other>> objects;
  std::set<std::uintptr_t> handles;
  for (int i = 0; i < 20000; ++i) {
    objects.push_back(create<Other>().value());
    handles.insert(objects.back()->handle());
    ASSERT_GE(objects.back()->handle(), kBuiltinEnd);
  }
  EXPECT_EQ(handles.size(), objects.size());
  for (const auto& object : objects) ASSERT_EQ(find<Other>(to_handle<MPI_Group>(*object)), object.get());
}

TEST_F(Handles, ThreadsMakeShareAndEndObjectsAtTheSameTime) {
  int alive = 0;
  const auto shared = create<Counted>(alive).value();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 5000; ++i) {
        const Ref<Counted> use = shared;
        Other* own = create<Other>().value().detach();
        ASSERT_EQ(find<Other>(to_handle<MPI_Group>(*own)), own);
        own->retire();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(alive, 1);
}

}  // namespace
}  // namespace mpi_shim::handle
