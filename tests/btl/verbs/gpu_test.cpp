// SPDX-License-Identifier: Apache-2.0
// GPU memory as the target of puts and gets over verbs: through the device where the driver makes a dma-buf of it, else
// by messages.  The device and the GPU are doubles.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "tests/btl/verbs/device_double.hpp"
#include "tests/conformance/side.hpp"
#include "tests/gpu/program.hpp"
#include "tests/harness/process.hpp"

namespace opal::gpu::test {
namespace {

using opal::test::CountedCompletion;
using opal::test::pattern;
using opal::test::pump;
using opal::test::Side;

constexpr std::size_t kSize = 300'000;

/// Side `a` puts to and gets from GPU memory of side `b`, behind other bytes of its allocation.
class GpuOverVerbs : public ::testing::Test {
 protected:
  static constexpr std::size_t kBefore = 5'000;

  std::uint64_t address() const { return memory_.address() + kBefore; }
  MemoryHandle registered() {
    auto handle = b_.module().register_memory(memory_.at(kBefore), kSize, Rights::all);
    EXPECT_TRUE(handle) << to_string(handle.error());
    return *handle;
  }
  using Start = std::function<Post(CountedCompletion&)>;
  /// `target_works`: side `b` progresses meanwhile.
  Error finish(bool target_works, const Start& start) {
    CountedCompletion completion;
    Post post = Post::again;
    const auto over = [&] {
      if (post == Post::again) post = start(completion);
      return post == Post::done || post == Post::failed || completion.calls == 1;
    };
    EXPECT_TRUE(target_works ? pump(over, a_, b_) : pump(over, a_));
    return completion.error;
  }
  void put_and_get(const MemoryHandle& handle, bool target_works) {
    memory_.write(pattern(memory_.size(), 1));
    const auto out = pattern(kSize - 20, 2);
    const Error put = finish(target_works, [&](CountedCompletion& completion) {
      return a_.module().put(route_, out.data(), nullptr, address() + 10, handle, out.size(), completion);
    });
    EXPECT_EQ(put.code, Errc{}) << to_string(put);
    auto expected = pattern(memory_.size(), 1);
    std::copy(out.begin(), out.end(), expected.begin() + kBefore + 10);
    EXPECT_EQ(memory_.read(0, memory_.size()), expected);
    std::vector<std::byte> in(kSize);
    const Error get = finish(target_works, [&](CountedCompletion& completion) {
      return a_.module().get(route_, in.data(), nullptr, address(), handle, in.size(), completion);
    });
    EXPECT_EQ(get.code, Errc{}) << to_string(get);
    EXPECT_TRUE(std::equal(in.begin(), in.end(), expected.begin() + kBefore));
  }

  CudaProgram program_;
  DeviceBuffer memory_{std::size_t{1} << 20};
  Side a_{"verbs"};
  Side b_{"verbs"};
  btl::Endpoint& route_ = *a_.connect(b_);
  Control& control_ = *cuda_double::control();
};

TEST_F(GpuOverVerbs, TheDeviceMovesTheBytesWithoutTheOwner) {
  const MemoryHandle handle = registered();
  put_and_get(handle, true);  // the queue pair for them is made, for which the owner works
  put_and_get(handle, false);
  EXPECT_TRUE(b_.module().deregister_memory(handle));
}

TEST_F(GpuOverVerbs, MessagesMoveTheBytesWhereTheDriverMakesNoDmaBuf) {
  control_.fail("cuMemGetHandleForAddressRange", CUDA_ERROR_NOT_SUPPORTED);
  put_and_get(registered(), true);
}

TEST_F(GpuOverVerbs, MessagesMoveTheBytesWhereKernelsMayNotSeeWhatTheDeviceHasWritten) {
  control_.fail("cuDeviceGetAttribute", CUDA_ERROR_INVALID_VALUE);
  const auto before = control_.calls("cuMemGetHandleForAddressRange");
  put_and_get(registered(), true);
  EXPECT_EQ(control_.calls("cuMemGetHandleForAddressRange"), before);
}

TEST_F(GpuOverVerbs, AtomicsAreRefusedAsOverOtherTransports) {
  const MemoryHandle handle = registered();
  std::uint64_t result = 0;
  const AtomicRequest request{AtomicOp::add, AtomicType::u64, memory_.address() + 5'120, &handle, 1, 0, &result};
  const Error error =
      finish(true, [&](CountedCompletion& completion) { return a_.module().atomic(route_, request, completion); });
  EXPECT_EQ(error.code, Errc::not_supported) << to_string(error);
}

TEST_F(GpuOverVerbs, NoDescriptorAndNoRegistrationStays) {
  const auto before = opal::test::verbs_double::counts().registered_bytes;
  const std::size_t files = opal::test::open_descriptors();
  const MemoryHandle handle = registered();
  EXPECT_EQ(opal::test::verbs_double::counts().registered_bytes, before + kSize);
  EXPECT_EQ(opal::test::open_descriptors(), files);
  EXPECT_TRUE(b_.module().deregister_memory(handle));
  EXPECT_EQ(opal::test::verbs_double::counts().registered_bytes, before);
}

}  // namespace
}  // namespace opal::gpu::test
