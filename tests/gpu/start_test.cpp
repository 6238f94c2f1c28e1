// SPDX-License-Identifier: Apache-2.0
// The driver is found or not, once per process, and never initialised.  Each test has a process of its own.
#include "opal/core/sanitizer.hpp"
#include "opal/gpu/gpu.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "opal/gpu/context.hpp"
#include "opal/gpu/copies/copy.hpp"
#include "opal/gpu/memory.hpp"
#include "opal/gpu/sharing/remote_memory.hpp"
#include "opal/mpool/pool.hpp"
#include "tests/gpu/program.hpp"
#include "tests/harness/stepper.hpp"

namespace opal::gpu::test {
namespace {

TEST(GpuStart, BeforeStartAllMemoryIsTheHosts) {
  in_own_process([] {
    const int here = 1;
    EXPECT_FALSE(active());
    EXPECT_TRUE(is_host(&here));
    EXPECT_FALSE(usable());
    EXPECT_EQ(device_id(0).error().code, Errc::not_supported);
  });
}

TEST(GpuStart, WithoutADriverItSaysWhatIsMissing) {
  in_own_process([] {
    const Status& status = start({.library = "libcuda-that-is-missing.so.1"});
    EXPECT_FALSE(status.loaded);
    EXPECT_FALSE(active());
    EXPECT_THAT(status.why, testing::HasSubstr("libcuda-that-is-missing.so.1"));
    EXPECT_STREQ(usable().error().where, status.why.c_str());
    EXPECT_EQ(&start({}), &status) << "the first call decides";
  });
}

TEST(GpuStart, SwitchedOffNoDriverIsLoaded) {
  in_own_process([] {
    const Status& status = start({.use = "off"});
    EXPECT_FALSE(status.loaded);
    EXPECT_THAT(status.why, testing::HasSubstr("gpu_use"));
  });
}

TEST(GpuStart, ALibraryThatIsNoDriverIsRefusedByName) {
  in_own_process([] {
    const Status& status = start({.library = "libm.so.6"});
    EXPECT_FALSE(status.loaded);
    EXPECT_THAT(status.why, testing::HasSubstr("libm.so.6"));
  });
}

TEST(GpuStart, ADriverThatIsTooOldIsRefusedWithWhatItLacks) {
  in_own_process([] {
    Control* const control = cuda_double::control();
    if (control == nullptr) return;
    control->set(Setting::api_version, 11020);
    const Status& status = start({});
    EXPECT_FALSE(status.loaded);
    EXPECT_THAT(status.why, testing::HasSubstr("cuDeviceGetUuid"));
  });
}

// The program decides whether and when it uses GPUs: many call MPI_Init before they choose a device.
TEST(GpuStart, TheDriverIsNeverInitialisedAndNoContextIsMade) {
  in_own_process([] {
    ASSERT_TRUE(start({}).loaded) << start({}).why;
    EXPECT_GE(start({}).driver_version, 12000);
    const int here = 1;
    EXPECT_TRUE(is_host(&here));
    EXPECT_EQ(inspect(&here)->kind, MemoryKind::host);
    EXPECT_EQ(WorkContext::any().error().code, Errc::not_supported);
    EXPECT_EQ(device_id(0).error().code, Errc::not_supported);
    int count = 0;
    EXPECT_EQ(cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);

    ASSERT_EQ(cuInit(0), CUDA_SUCCESS);
    EXPECT_TRUE(is_host(&here));
    EXPECT_EQ(inspect(&here)->kind, MemoryKind::host);
    const auto none = WorkContext::on_device(0);
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().code, Errc::not_supported);
    EXPECT_THAT(none.error().where, testing::HasSubstr("no CUDA context"));
    unsigned flags = 0;
    int is_active = 1;
    ASSERT_EQ(cuDevicePrimaryCtxGetState(0, &flags, &is_active), CUDA_SUCCESS);
    EXPECT_EQ(is_active, 0);
    CUcontext current = nullptr;
    ASSERT_EQ(cuCtxGetCurrent(&current), CUDA_SUCCESS);
    EXPECT_EQ(current, nullptr);
  });
}

TEST(GpuStart, APrimaryContextThatTheProgramMadeActiveIsTakenFromAnyThread) {
  in_own_process([] {
    const CudaProgram program;
    ASSERT_EQ(cuCtxSetCurrent(nullptr), CUDA_SUCCESS);
    const auto work = WorkContext::any();
    ASSERT_TRUE(work) << to_string(work.error());
    EXPECT_EQ(work->handle(), program.context);
    EXPECT_EQ(work->device(), 0);
  });
}

TEST(GpuStart, WithoutAContextNoHostMemoryIsPinned) {
  in_own_process([] {
    ASSERT_TRUE(start({}).loaded);
    auto pool = mpool::open("cuda_host");
    ASSERT_TRUE(pool) << to_string(pool.error());
    const auto block = (*pool)->allocate(4096);
    ASSERT_FALSE(block);
    EXPECT_EQ(block.error().code, Errc::not_supported);
    EXPECT_EQ((*pool)->usage().blocks, 0u);
  });
}

TEST(GpuStart, WithoutADriverThePoolOfPinnedMemoryIsNotOpened) {
  in_own_process([] {
    (void)start({.use = "off"});
    const auto pool = mpool::open("cuda_host");
    ASSERT_FALSE(pool);
    EXPECT_EQ(pool.error().code, Errc::not_supported);
  });
}

// The same number is another device in the other process: compared are UUIDs (ucx#3588, #4137).
TEST(GpuDevices, ADeviceIsKnownByItsIdUnderAnyNumbering) {
  if (cuda_double::control() == nullptr) GTEST_SKIP() << kNeedsDouble;
  in_two_processes(
      [](const opal::test::Channel& other) {
        const CudaProgram program;
        send(other, *device_id(0));
        send(other, *device_id(1));
        EXPECT_TRUE(other.expect("done"));
      },
      [](const opal::test::Channel& other) {
        ::setenv("CUDA_VISIBLE_DEVICES", "1", 1);
        const CudaProgram program;
        EXPECT_EQ(*ordinal_of(receive<DeviceId>(other)), std::nullopt) << "not visible here";
        EXPECT_EQ(*ordinal_of(receive<DeviceId>(other)), std::optional{0});
        other.send("done");
      });
}

TEST(GpuDevices, AccessIsTheDriversDecisionButForTheSameDevice) {
  in_own_process([] {
    Control* const control = cuda_double::control();
    if (control == nullptr) return;
    const CudaProgram program;
    EXPECT_TRUE(*can_access(0, 1));
    control->set(Setting::peer_access, 0);
    EXPECT_FALSE(*can_access(0, 1));
    EXPECT_TRUE(*can_access(0, 0)) << "asked, the driver would say no";
    EXPECT_EQ(can_access(0, 7).error().code, Errc::invalid_argument);
  });
}

#if !OPAL_ADDRESS_SANITIZER && !OPAL_THREAD_SANITIZER  // they add instructions of their own
volatile bool seen = false;

// What every message of a program without GPUs pays, exactly.
TEST(GpuStart, WithoutADriverClassifyingCostsAHandfulOfInstructions) {
  const auto steps = opal::test::count_steps([] {
    static int here = 1;
    opal::test::step_mark();
    seen = is_host(&here);
    opal::test::step_mark();
  });
  if (!steps) GTEST_SKIP() << "needs ptrace: single steps are not possible here";
  ASSERT_EQ(steps->size(), 1u);
  EXPECT_LE(steps->front().instructions, 10u);
  EXPECT_EQ(steps->front().locked, 0u);
  EXPECT_EQ(steps->front().system_calls, 0u);
}

TEST(GpuStart, WithADriverAPageThatIsKnownCostsNoCallOfTheDriver) {
  const auto steps = opal::test::count_steps([] {
    static int here = 1;
    const CudaProgram program;
    seen = is_host(&here);
    opal::test::step_mark();
    seen = is_host(&here);
    opal::test::step_mark();
  });
  if (!steps) GTEST_SKIP() << "needs ptrace: single steps are not possible here";
  if (!memory::start_monitor({}).monitor) GTEST_SKIP() << "needs memory monitor: none works here";
  ASSERT_EQ(steps->size(), 1u);
  EXPECT_LE(steps->front().instructions, 30u);
  EXPECT_EQ(steps->front().locked, 0u);
  EXPECT_EQ(steps->front().system_calls, 0u);
}
#endif

}  // namespace
}  // namespace opal::gpu::test
