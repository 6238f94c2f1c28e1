// SPDX-License-Identifier: Apache-2.0
// Asynchronous copies: bytes, order, bounds, failures.
#include "opal/gpu/copies/copier.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <vector>

#include "tests/gpu/program.hpp"

namespace opal::gpu::test {
namespace {

/// What was reported, in that order.
struct Reports {
  struct Item {
    Reports* to;
    int number;
  };
  Copier::Done next() {
    items.push_back(std::make_unique<Item>(Item{this, static_cast<int>(items.size())}));
    return {&Reports::report, items.back().get()};
  }
  static void report(void* user, const Result<void>& result) noexcept {
    auto& item = *static_cast<Item*>(user);
    item.to->order.push_back(item.number);
    if (!result) item.to->errors.push_back(result.error());
  }
  std::vector<std::unique_ptr<Item>> items;
  std::vector<int> order;
  std::vector<Error> errors;
};

void finish(Copier& copier) {
  while (copier.pending() > 0) copier.progress();
}

class GpuCopier : public testing::Test {
 protected:
  Control* const control_ = cuda_double::control();
  CudaProgram program_;
  Reports reports_;
};

TEST_F(GpuCopier, CopiesBetweenMemoryOfEveryKind) {
  constexpr std::size_t kSize = 100'000;
  const auto bytes = pattern(kSize);
  DeviceBuffer device{kSize};
  const Mapped mapped;
  CUdeviceptr pooled = 0;
  ASSERT_EQ(cuMemAllocAsync(&pooled, kSize, nullptr), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(nullptr), CUDA_SUCCESS);
  CUdeviceptr managed = 0;
  ASSERT_EQ(cuMemAllocManaged(&managed, kSize, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
  void* pinned = nullptr;
  ASSERT_EQ(cuMemHostAlloc(&pinned, kSize, 0), CUDA_SUCCESS);
  std::vector<std::byte> host(kSize);
  {
    Copier copier{{}};
    const void* from = bytes.data();
    for (void* const to : {device.at(), pointer(mapped.address()), pointer(pooled), pointer(managed), pinned,
                           static_cast<void*>(host.data())}) {
      ASSERT_TRUE(copier.copy(program_.context, 0, to, from, kSize, reports_.next()));  // one queue: one after another
      from = to;
    }
    finish(copier);
  }
  EXPECT_EQ(host, bytes);
  EXPECT_EQ(reports_.order.size(), 6u);
  EXPECT_TRUE(reports_.errors.empty());
  cuMemFreeHost(pinned);
  cuMemFree(managed);
  cuMemFreeAsync(pooled, nullptr);
  cuStreamSynchronize(nullptr);
}

TEST_F(GpuCopier, CopiesOverTheSeamOfTwoMappings) {
  const Mapped mapped{2};
  const auto bytes = pattern(4096);
  std::vector<std::byte> read(4096);
  Copier copier{{}};
  void* const seam = pointer(mapped.address(), Mapped::kPiece - 2048);
  ASSERT_TRUE(copier.copy(program_.context, 0, seam, bytes.data(), 4096, reports_.next()));
  ASSERT_TRUE(copier.copy(program_.context, 0, read.data(), seam, 4096, reports_.next()));
  finish(copier);
  EXPECT_EQ(read, bytes);
}

TEST_F(GpuCopier, NothingIsReportedBeforeItIsDone) {
  if (control_ == nullptr) GTEST_SKIP() << kNeedsDouble;
  DeviceBuffer from{4096};
  DeviceBuffer to{4096};
  from.write(pattern(4096));
  Copier copier{{}};
  control_->set(Setting::hold, 1);
  ASSERT_TRUE(copier.copy(program_.context, 0, to.at(), from.at(), 4096, reports_.next()));
  for (int i = 0; i < 100; ++i) EXPECT_EQ(copier.progress(), 0u);
  EXPECT_TRUE(reports_.order.empty());
  control_->release(2);  // the copy and the event behind it
  EXPECT_EQ(copier.progress(), 1u);
  EXPECT_EQ(reports_.order, (std::vector<int>{0}));
  EXPECT_EQ(to.read(), pattern(4096));
}

TEST_F(GpuCopier, ReportsOfAQueueAreInOrderWhileQueuesOvertakeEachOther) {
  if (control_ == nullptr) GTEST_SKIP() << kNeedsDouble;
  DeviceBuffer from{64};
  DeviceBuffer to{64};
  bool overtaken = false;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    control_->set(Setting::late, 10);
    control_->set(Setting::seed, seed);
    Reports reports;
    Copier copier{{.copy_streams = 3}};
    for (std::uint64_t i = 0; i < 30; ++i) {
      ASSERT_TRUE(copier.copy(program_.context, i, to.at(), from.at(), 64, reports.next()));
    }
    finish(copier);
    ASSERT_EQ(reports.order.size(), 30u);
    for (int queue = 0; queue < 3; ++queue) {
      std::vector<int> of_queue;
      std::copy_if(reports.order.begin(), reports.order.end(), std::back_inserter(of_queue),
                   [queue](int number) { return number % 3 == queue; });
      EXPECT_TRUE(std::is_sorted(of_queue.begin(), of_queue.end()));
    }
    overtaken = overtaken || !std::is_sorted(reports.order.begin(), reports.order.end());
  }
  EXPECT_TRUE(overtaken);
}

TEST_F(GpuCopier, BeyondItsEventsItSaysBusyAndNothingHappens) {
  if (control_ == nullptr) GTEST_SKIP() << kNeedsDouble;
  DeviceBuffer from{64};
  DeviceBuffer to{64};
  Copier copier{{.copy_streams = 2, .copy_events = 2}};
  control_->set(Setting::hold, 1);
  for (std::uint64_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(copier.copy(program_.context, i, to.at(), from.at(), 64, reports_.next()));
  }
  const auto refused = copier.copy(program_.context, 0, to.at(), from.at(), 64, reports_.next());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::busy);
  EXPECT_EQ(copier.pending(), 3u);
  EXPECT_TRUE(copier.copy(program_.context, 1, to.at(), from.at(), 64, reports_.next())) << "each stream has its own";
  control_->set(Setting::hold, 0);
  finish(copier);
  EXPECT_EQ(reports_.order.size(), 4u);
  EXPECT_TRUE(copier.copy(program_.context, 0, to.at(), from.at(), 64, reports_.next()));
}

TEST_F(GpuCopier, StreamsAndEventsAreUsedAgainAndGoneAfterwards) {
  if (control_ == nullptr) GTEST_SKIP() << kNeedsDouble;
  DeviceBuffer from{64};
  DeviceBuffer to{64};
  control_->set(Setting::late, 5);
  const std::uint64_t made_before = control_->calls("cuEventCreate");
  {
    Copier copier{{.copy_streams = 2, .copy_events = 4}};
    for (std::uint64_t i = 0; i < 10'000; ++i) {
      while (!copier.copy(program_.context, i, to.at(), from.at(), 64, reports_.next())) copier.progress();
    }
    EXPECT_LE(control_->count(Count::streams), 2u);
    EXPECT_LE(control_->count(Count::events), 8u);
    EXPECT_LE(control_->calls("cuEventCreate") - made_before, 8u);
  }
  EXPECT_EQ(control_->count(Count::streams), 0u);
  EXPECT_EQ(control_->count(Count::events), 0u);
}

TEST_F(GpuCopier, ItsEndWaitsForCopiesAndReportsThem) {
  if (control_ == nullptr) GTEST_SKIP() << kNeedsDouble;
  DeviceBuffer from{64};
  DeviceBuffer to{64};
  from.write(pattern(64));
  {
    Copier copier{{}};
    control_->set(Setting::late, 50);
    ASSERT_TRUE(copier.copy(program_.context, 0, to.at(), from.at(), 64, reports_.next()));
  }
  control_->set(Setting::late, 0);
  EXPECT_EQ(reports_.order, (std::vector<int>{0}));
  EXPECT_TRUE(reports_.errors.empty());
  EXPECT_EQ(to.read(), pattern(64));
}

// Two peers share a stream: the end of one waits for the other's copies only as far as they are before its own.
TEST_F(GpuCopier, AWaitForSomeCopiesDoesNotWaitForThoseBehindThem) {
  if (control_ == nullptr) GTEST_SKIP() << kNeedsDouble;
  DeviceBuffer from{64};
  DeviceBuffer to{64};
  Copier copier{{.copy_streams = 1}};
  control_->set(Setting::hold, 1);
  for (const std::uint64_t queue : {7, 8}) {
    ASSERT_TRUE(copier.copy(program_.context, queue, to.at(), from.at(), 64, reports_.next()));
  }
  control_->release(2);
  copier.progress_until([&] { return !reports_.order.empty(); });
  EXPECT_EQ(reports_.order, (std::vector<int>{0})) << "done, whatever comes behind it in the stream";
  EXPECT_EQ(copier.pending(), 1u);
  control_->set(Setting::hold, 0);
  finish(copier);
  EXPECT_TRUE(reports_.errors.empty());
}

TEST_F(GpuCopier, WhatIsCalledMayMakeProgress) {
  DeviceBuffer from{8};
  DeviceBuffer to{8};
  Copier copier{{.copy_streams = 1}};
  struct Nested {
    Copier* copier;
    int calls = 0;
    static void call(void* user, const Result<void>& result) noexcept {
      auto& nested = *static_cast<Nested*>(user);
      EXPECT_TRUE(result);
      ++nested.calls;
      nested.copier->progress_until([&] { return nested.copier->pending() == 0; });
    }
  } nested{&copier};
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(copier.copy(program_.context, 0, to.at(), from.at(), 8, {&Nested::call, &nested}));
  }
  finish(copier);
  EXPECT_EQ(nested.calls, 3);
}

TEST_F(GpuCopier, ARefusedCopyIsNotReportedAndLeavesNothingUnderWay) {
  if (control_ == nullptr) GTEST_SKIP() << kNeedsDouble;
  DeviceBuffer from{64};
  DeviceBuffer to{64};
  Copier copier{{}};
  const struct {
    const char* function;
    CUresult result;
    Errc code;
  } cases[] = {{"cuMemcpyAsync", CUDA_ERROR_INVALID_VALUE, Errc::invalid_argument},
               {"cuEventRecord", CUDA_ERROR_INVALID_HANDLE, Errc::invalid_argument},
               {"cuEventCreate", CUDA_ERROR_OUT_OF_MEMORY, Errc::no_memory},
               {"cuStreamCreate", CUDA_ERROR_OUT_OF_MEMORY, Errc::no_memory}};
  std::uint64_t queue = 0;
  for (const auto& c : cases) {
    if (c.function == std::string{"cuEventCreate"}) {
      Copier fresh{{}};  // has no idle event yet
      control_->fail(c.function, c.result);
      EXPECT_EQ(fresh.copy(program_.context, 0, to.at(), from.at(), 64, reports_.next()).error().code, c.code);
      continue;
    }
    control_->fail(c.function, c.result);
    const auto refused = copier.copy(program_.context, queue, to.at(), from.at(), 64, reports_.next());
    ASSERT_FALSE(refused) << c.function;
    EXPECT_EQ(refused.error().code, c.code) << c.function;
    EXPECT_EQ(refused.error().where, std::string{c.function});
    EXPECT_EQ(copier.pending(), 0u);
    EXPECT_EQ(control_->count(Count::unfinished), 0u);
    ++queue;
  }
  EXPECT_TRUE(reports_.order.empty());
  EXPECT_TRUE(copier.copy(program_.context, queue, to.at(), from.at(), 64, reports_.next())) << "and goes on";
  finish(copier);
}

TEST_F(GpuCopier, ACopyThatFailsWhileUnderWayIsReportedWithTheError) {
  if (control_ == nullptr) GTEST_SKIP() << kNeedsDouble;
  DeviceBuffer from{64};
  DeviceBuffer to{64};
  Copier copier{{}};
  ASSERT_TRUE(copier.copy(program_.context, 0, to.at(), from.at(), 64, reports_.next()));
  control_->fail("cuEventQuery", CUDA_ERROR_ILLEGAL_ADDRESS);
  finish(copier);
  ASSERT_EQ(reports_.errors.size(), 1u);
  EXPECT_EQ(reports_.errors.front().code, Errc::os);
  EXPECT_EQ(reports_.errors.front().detail, static_cast<std::uint64_t>(CUDA_ERROR_ILLEGAL_ADDRESS));
}

TEST_F(GpuCopier, ContextsThatTheProgramDestroysTakeTheirCopiesWithThem) {
  if (control_ == nullptr) GTEST_SKIP() << kNeedsDouble;
  Copier copier{{.copy_events = 4}};
  for (int round = 0; round < 10; ++round) {
    CUcontext own = nullptr;
    ASSERT_EQ(cuCtxCreate(&own, nullptr, 0, 0), CUDA_SUCCESS);
    {
      DeviceBuffer from{64};
      DeviceBuffer to{64};
      control_->set(Setting::hold, 1);
      for (int i = 0; i < 2; ++i) ASSERT_TRUE(copier.copy(own, 0, to.at(), from.at(), 64, reports_.next()));
      control_->set(Setting::hold, 0);
    }
    ASSERT_EQ(cuCtxDestroy(own), CUDA_SUCCESS);
    finish(copier);
  }
  EXPECT_EQ(reports_.order.size(), 20u);
  EXPECT_EQ(reports_.errors.size(), 20u);
  ASSERT_EQ(cuCtxSetCurrent(program_.context), CUDA_SUCCESS);
  DeviceBuffer buffer{64};
  std::vector<std::byte> host(64);
  EXPECT_TRUE(copier.copy(program_.context, 0, host.data(), buffer.at(), 64, reports_.next()));
  finish(copier);
}

TEST_F(GpuCopier, TheCallersCurrentContextStaysAsItWas) {
  Copier copier{{}};
  DeviceBuffer from{64};
  std::vector<std::byte> host(64);
  ASSERT_EQ(cuCtxSetCurrent(nullptr), CUDA_SUCCESS);
  ASSERT_TRUE(copier.copy(program_.context, 0, host.data(), from.at(), 64, reports_.next()));
  finish(copier);
  CUcontext now = nullptr;
  ASSERT_EQ(cuCtxGetCurrent(&now), CUDA_SUCCESS);
  EXPECT_EQ(now, nullptr);
  ASSERT_EQ(cuCtxSetCurrent(program_.context), CUDA_SUCCESS);
}

struct Chain {
  Copier* copier;
  CUcontext context;
  void* to;
  const void* from;
  int left;
  static void next(void* user, const Result<void>& result) noexcept {
    auto& chain = *static_cast<Chain*>(user);
    EXPECT_TRUE(result);
    if (--chain.left == 0) return;
    EXPECT_TRUE(chain.copier->copy(chain.context, 0, chain.to, chain.from, 8, {&Chain::next, user}));
  }
};

TEST_F(GpuCopier, AtItsEndWhatIsCalledCanStartNoMore) {
  DeviceBuffer from{8};
  DeviceBuffer to{8};
  struct Late {
    Copier* copier;
    CUcontext context;
    void* to;
    const void* from;
    std::optional<Errc> refused;
  } late{nullptr, program_.context, to.at(), from.at(), {}};
  {
    Copier copier{{}};
    late.copier = &copier;
    const Copier::Done done{[](void* user, const Result<void>&) noexcept {
                              auto& l = *static_cast<Late*>(user);
                              const auto started = l.copier->copy(l.context, 0, l.to, l.from, 8, {nullptr, nullptr});
                              if (!started) l.refused = started.error().code;
                            },
                            &late};
    ASSERT_TRUE(copier.copy(program_.context, 0, to.at(), from.at(), 8, done));
  }
  EXPECT_EQ(late.refused, Errc::canceled);
}

TEST_F(GpuCopier, WhatIsCalledMayStartTheNextCopy) {
  DeviceBuffer from{8};
  DeviceBuffer to{8};
  Copier copier{{.copy_events = 1}};
  Chain chain{&copier, program_.context, to.at(), from.at(), 100};
  ASSERT_TRUE(copier.copy(program_.context, 0, to.at(), from.at(), 8, {&Chain::next, &chain}));
  finish(copier);
  EXPECT_EQ(chain.left, 0);
}

}  // namespace
}  // namespace opal::gpu::test
