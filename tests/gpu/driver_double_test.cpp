// SPDX-License-Identifier: Apache-2.0
// The double behaves as its README says: otherwise the other tests would prove something about another driver.
#include <gtest/gtest.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "tests/gpu/program.hpp"

namespace opal::gpu::test {
namespace {

// The first test: the others initialise the driver in this process, which must not fork then.
TEST(DriverDoubleMisuse, TheUseOfADestroyedContextEndsTheProcess) {
  if (cuda_double::control() == nullptr) GTEST_SKIP() << kNeedsDouble;
  opal::test::Child child{[](opal::test::Channel&) {
    const CudaProgram program;
    CUcontext own = nullptr;
    if (cuCtxCreate(&own, nullptr, 0, 0) != CUDA_SUCCESS || cuCtxDestroy(own) != CUDA_SUCCESS) return 1;
    (void)cuCtxPushCurrent(own);
    return 0;
  }};
  EXPECT_EQ(child.wait(), SIGABRT);
}

class DriverDouble : public testing::Test {
 protected:
  void SetUp() override {
    if (control_ == nullptr) GTEST_SKIP() << kNeedsDouble;
  }
  Control* const control_ = cuda_double::control();
  CudaProgram program_;
};

TEST_F(DriverDouble, DeviceMemoryCannotBeReadByTheProcessor) {
  const DeviceBuffer buffer{4096};
  std::byte byte{};
  iovec to{&byte, 1};
  iovec from{buffer.at(), 1};
  EXPECT_EQ(::process_vm_readv(::getpid(), &to, 1, &from, 1, 0), -1);
  EXPECT_EQ(errno, EFAULT);
}

TEST_F(DriverDouble, CopiesCarryBytesBetweenHostAndDevice) {
  DeviceBuffer one{10'000};
  DeviceBuffer two{10'000};
  one.write(pattern(10'000));
  ASSERT_EQ(cuMemcpyDtoD(two.address() + 10, one.address(), 9'990), CUDA_SUCCESS);
  const auto read = two.read(10, 9'990);
  EXPECT_TRUE(std::equal(read.begin(), read.end(), pattern(10'000).begin()));
  EXPECT_EQ(cuMemcpyDtoD(two.address() + 11, one.address(), 9'990), CUDA_ERROR_INVALID_VALUE) << "beyond the end";
}

TEST_F(DriverDouble, AFreedAddressIsGivenOutAgainAtOnceButItsBufferIdIsNot) {
  CUdeviceptr first = 0;
  ASSERT_EQ(cuMemAlloc(&first, 32 << 10), CUDA_SUCCESS);
  unsigned long long first_id = 0;
  ASSERT_EQ(cuPointerGetAttribute(&first_id, CU_POINTER_ATTRIBUTE_BUFFER_ID, first), CUDA_SUCCESS);
  ASSERT_EQ(cuMemFree(first), CUDA_SUCCESS);
  const DeviceBuffer second{64 << 10};
  unsigned long long second_id = 0;
  ASSERT_EQ(cuPointerGetAttribute(&second_id, CU_POINTER_ATTRIBUTE_BUFFER_ID, second.address()), CUDA_SUCCESS);
  EXPECT_EQ(second.address(), first);
  EXPECT_NE(second_id, first_id);

  control_->set(Setting::reuse, 0);
  CUdeviceptr third = 0;
  ASSERT_EQ(cuMemAlloc(&third, 4096), CUDA_SUCCESS);
  ASSERT_EQ(cuMemFree(third), CUDA_SUCCESS);
  const DeviceBuffer fourth{4096};
  EXPECT_NE(fourth.address(), third);
}

TEST_F(DriverDouble, SmallAllocationsShareAPage) {
  const DeviceBuffer one{100};
  const DeviceBuffer two{100};
  EXPECT_EQ(one.address() / 4096, two.address() / 4096);
}

TEST_F(DriverDouble, AHeldCopyHappensOnlyWhenItIsReleased) {
  DeviceBuffer from{4096};
  DeviceBuffer to{4096};
  from.write(pattern(4096));
  CUstream stream = nullptr;
  CUevent event = nullptr;
  ASSERT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  ASSERT_EQ(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
  control_->set(Setting::hold, 1);
  ASSERT_EQ(cuMemcpyAsync(to.address(), from.address(), 4096, stream), CUDA_SUCCESS);
  ASSERT_EQ(cuEventRecord(event, stream), CUDA_SUCCESS);
  EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_NOT_READY);
  const unsigned yes = 1;
  ASSERT_EQ(cuPointerSetAttribute(&yes, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, from.address()), CUDA_SUCCESS);
  from.write(pattern(4096, 2));  // too early, and so it is seen
  control_->release(2);
  EXPECT_EQ(cuEventQuery(event), CUDA_SUCCESS);
  EXPECT_EQ(to.read(), pattern(4096, 2));
  EXPECT_EQ(cuEventDestroy(event), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
}

TEST_F(DriverDouble, ACopyFromPageableMemoryIsStillUnderWayUnlessTheMemoryIsMarked) {
  DeviceBuffer buffer{4096};
  control_->set(Setting::hold, 1);
  buffer.write(pattern(4096));
  EXPECT_EQ(control_->count(Count::unfinished), 1u);
  EXPECT_EQ(buffer.read(), pattern(4096)) << "in the order of the stream";
  const unsigned yes = 1;
  ASSERT_EQ(cuPointerSetAttribute(&yes, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, buffer.address()), CUDA_SUCCESS);
  buffer.write(pattern(4096, 2));
  EXPECT_EQ(control_->count(Count::unfinished), 0u);
}

TEST_F(DriverDouble, LateCopiesKeepTheOrderOfTheirStreamAndOvertakeThoseOfOthers) {
  CUstream streams[2];
  CUevent events[2][4];
  bool overtaken = false;
  for (auto& stream : streams) ASSERT_EQ(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  DeviceBuffer buffer{4096};
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    control_->set(Setting::late, 8);
    control_->set(Setting::seed, seed);
    for (unsigned k = 0; k < 4; ++k) {
      for (unsigned s = 0; s < 2; ++s) {
        ASSERT_EQ(cuEventCreate(&events[s][k], CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
        ASSERT_EQ(cuMemcpyAsync(buffer.address(), buffer.address() + 2048, 8, streams[s]), CUDA_SUCCESS);
        ASSERT_EQ(cuEventRecord(events[s][k], streams[s]), CUDA_SUCCESS);
      }
    }
    for (bool all = false; !all;) {
      unsigned done[2] = {0, 0};
      for (unsigned s = 0; s < 2; ++s) {
        for (unsigned k = 4; k-- > 0;) {  // the last first: nothing that is done now follows what was not
          if (cuEventQuery(events[s][k]) == CUDA_SUCCESS) {
            done[s] = std::max(done[s], k + 1);
          } else {
            EXPECT_GE(k, done[s]) << "a later copy of the stream was done first";
          }
        }
      }
      overtaken = overtaken || done[1] > done[0];
      all = done[0] == 4 && done[1] == 4;
    }
    for (auto& of_stream : events) {
      for (auto& event : of_stream) ASSERT_EQ(cuEventDestroy(event), CUDA_SUCCESS);
    }
  }
  EXPECT_TRUE(overtaken);
  for (auto& stream : streams) ASSERT_EQ(cuStreamDestroy(stream), CUDA_SUCCESS);
}

TEST_F(DriverDouble, ADefaultStreamAndBlockingOnesWaitForEachOther) {
  DeviceBuffer buffer{8};
  buffer.write(pattern(8));
  CUstream blocking = nullptr;
  ASSERT_EQ(cuStreamCreate(&blocking, CU_STREAM_DEFAULT), CUDA_SUCCESS);
  control_->set(Setting::hold, 1);
  ASSERT_EQ(cuMemsetD8(buffer.address(), 1, 8), CUDA_SUCCESS);
  std::vector<std::byte> seen(8);
  ASSERT_EQ(cuMemcpyDtoHAsync(seen.data(), buffer.address(), 8, blocking), CUDA_SUCCESS);  // to pageable memory: waits
  EXPECT_EQ(seen, std::vector<std::byte>(8, std::byte{1}));
  ASSERT_EQ(cuStreamDestroy(blocking), CUDA_SUCCESS);
}

TEST_F(DriverDouble, WithoutACurrentContextNothingIsAllocated) {
  ASSERT_EQ(cuCtxSetCurrent(nullptr), CUDA_SUCCESS);
  CUdeviceptr address = 0;
  EXPECT_EQ(cuMemAlloc(&address, 4096), CUDA_ERROR_INVALID_CONTEXT);
}

TEST_F(DriverDouble, TheMemoryOfADeviceIsBounded) {
  control_->set(Setting::memory_limit, 1 << 20);
  const DeviceBuffer most{1 << 20};
  CUdeviceptr address = 0;
  EXPECT_EQ(cuMemAlloc(&address, 1), CUDA_ERROR_OUT_OF_MEMORY);
}

TEST_F(DriverDouble, AForkedChildHasNoDriver) {
  in_own_process([] {
    int count = 0;
    EXPECT_EQ(cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
    EXPECT_EQ(cuInit(0), CUDA_ERROR_NOT_INITIALIZED);
  });
}

TEST_F(DriverDouble, AnInjectedFailureHappensAsOftenAsAskedFor) {
  control_->fail("cuMemAlloc", CUDA_ERROR_OUT_OF_MEMORY, 2);
  CUdeviceptr address = 0;
  EXPECT_EQ(cuMemAlloc(&address, 8), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(cuMemAlloc(&address, 8), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(cuMemAlloc(&address, 8), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree(address), CUDA_SUCCESS);
}

}  // namespace
}  // namespace opal::gpu::test
