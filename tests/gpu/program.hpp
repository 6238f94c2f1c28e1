// SPDX-License-Identifier: Apache-2.0
// tests/gpu/program.hpp — what a program that uses GPUs does, for tests: the Driver API directly, on the double or on a
// real GPU.  A process that initialised the driver must not fork, so tests of several processes leave that to children.
#pragma once
#include <gtest/gtest.h>
#include "tests/gpu/cuda_test_api.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "opal/gpu/gpu.hpp"
#include "opal/gpu/memory.hpp"
#include "opal/memory/events/monitor.hpp"
#include "tests/gpu/double/control.hpp"
#include "tests/harness/child.hpp"

namespace opal::gpu::test {

using cuda_double::Control;
using cuda_double::Count;
using cuda_double::Setting;

/// Most tests end here when the real driver is loaded: they set the double up.
inline constexpr const char* kNeedsDouble = "needs driver-double: this test makes the driver misbehave or counts";

/// A CUdeviceptr is a number, a pointer of a message is a pointer.
inline void* pointer(CUdeviceptr address, std::size_t offset = 0) {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(address) + offset);
}

/// cuInit, a primary context of device 0 that is current, and the driver known to OPAL.
class CudaProgram {
 public:
  explicit CudaProgram(int ordinal = 0, const Config& config = {}) : ordinal_(ordinal) {
    EXPECT_EQ(cuInit(0), CUDA_SUCCESS);
    EXPECT_EQ(cuDevicePrimaryCtxRetain(&context, ordinal), CUDA_SUCCESS);
    EXPECT_EQ(cuCtxSetCurrent(context), CUDA_SUCCESS);
    memory::start_monitor({});
    EXPECT_TRUE(start(config).loaded) << start(config).why;
  }
  ~CudaProgram() {
    cuCtxSetCurrent(nullptr);
    cuDevicePrimaryCtxRelease(ordinal_);
    if (Control* const control = cuda_double::control()) control->reset();
  }
  CudaProgram(const CudaProgram&) = delete;
  CudaProgram& operator=(const CudaProgram&) = delete;

  CUcontext context = nullptr;

 private:
  int ordinal_;
};

/// Memory of cuMemAlloc.
class DeviceBuffer {
 public:
  explicit DeviceBuffer(std::size_t size) : size_(size) { EXPECT_EQ(cuMemAlloc(&address_, size), CUDA_SUCCESS); }
  ~DeviceBuffer() {
    if (address_ != 0) cuMemFree(address_);
  }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  [[nodiscard]] CUdeviceptr address() const { return address_; }
  [[nodiscard]] void* at(std::size_t offset = 0) const { return pointer(address_, offset); }
  [[nodiscard]] std::size_t size() const { return size_; }
  /// The caller frees it.
  CUdeviceptr release() { return std::exchange(address_, 0); }
  void write(const std::vector<std::byte>& bytes, std::size_t offset = 0) {
    EXPECT_EQ(cuMemcpyHtoD(address_ + offset, bytes.data(), bytes.size()), CUDA_SUCCESS);
  }
  [[nodiscard]] std::vector<std::byte> read(std::size_t offset, std::size_t length) const {
    std::vector<std::byte> bytes(length);
    EXPECT_EQ(cuMemcpyDtoH(bytes.data(), address_ + offset, length), CUDA_SUCCESS);
    return bytes;
  }
  [[nodiscard]] std::vector<std::byte> read() const { return read(0, size_); }

 private:
  CUdeviceptr address_ = 0;
  std::size_t size_;
};

/// Physical memory of a device, mapped at addresses of the caller's choice.
class Mapped {
 public:
  static constexpr std::size_t kPiece = std::size_t{2} << 20;

  /// `pieces` mappings side by side, each of memory of its own.
  explicit Mapped(std::size_t pieces = 1, bool to_share = true) : size_(pieces * kPiece) {
    EXPECT_EQ(cuMemAddressReserve(&address_, size_, 0, 0, 0), CUDA_SUCCESS);
    CUmemAllocationProp prop{};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    if (to_share) prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = 0;
    for (std::size_t offset = 0; offset < size_; offset += kPiece) {
      CUmemGenericAllocationHandle handle = 0;
      EXPECT_EQ(cuMemCreate(&handle, kPiece, &prop, 0), CUDA_SUCCESS);
      EXPECT_EQ(cuMemMap(address_ + offset, kPiece, 0, handle, 0), CUDA_SUCCESS);
      EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
    }
    CUmemAccessDesc access{};
    access.location = prop.location;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    EXPECT_EQ(cuMemSetAccess(address_, size_, &access, 1), CUDA_SUCCESS);
  }
  ~Mapped() {
    cuMemUnmap(address_, size_);
    cuMemAddressFree(address_, size_);
  }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;
  [[nodiscard]] CUdeviceptr address() const { return address_; }
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  CUdeviceptr address_ = 0;
  std::size_t size_;
};

/// Memory of a pool that may be shared by descriptor.
class Pooled {
 public:
  explicit Pooled(std::size_t size) : size_(size) {
    CUmemPoolProps props{};
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    props.location.id = 0;
    EXPECT_EQ(cuMemPoolCreate(&pool_, &props), CUDA_SUCCESS);
    EXPECT_EQ(cuMemAllocFromPoolAsync(&address_, size, pool_, nullptr), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamSynchronize(nullptr), CUDA_SUCCESS);
  }
  ~Pooled() {
    cuMemFreeAsync(address_, nullptr);
    cuStreamSynchronize(nullptr);
    cuMemPoolDestroy(pool_);
  }
  Pooled(const Pooled&) = delete;
  Pooled& operator=(const Pooled&) = delete;
  [[nodiscard]] CUdeviceptr address() const { return address_; }
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  CUmemoryPool pool_ = nullptr;
  CUdeviceptr address_ = 0;
  std::size_t size_;
};

/// Bytes that tell where they belong.
inline std::vector<std::byte> pattern(std::size_t size, unsigned seed = 1) {
  std::vector<std::byte> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>((i * 131 + seed * 17 + (i >> 8)) & 0xff);
  return bytes;
}

/// Runs `owner` and `user` in two processes of their own that talk over a channel; what they EXPECT counts.
inline void in_two_processes(const std::function<void(opal::test::Channel&)>& owner,
                             const std::function<void(opal::test::Channel&)>& user) {
  opal::test::Child outer{[&](opal::test::Channel&) {
    opal::test::Child inner{[&](opal::test::Channel& channel) {
      user(channel);
      return ::testing::Test::HasFailure() ? 1 : 0;
    }};
    owner(inner.channel());
    EXPECT_EQ(inner.wait(std::chrono::seconds{60}), 0) << "the other process failed";
    return ::testing::Test::HasFailure() ? 1 : 0;
  }};
  EXPECT_EQ(outer.wait(std::chrono::seconds{100}), 0) << "a process failed: see above";
}

/// Runs `body` in a process of its own, whose driver is not initialised yet.
inline void in_own_process(const std::function<void()>& body) {
  opal::test::Child child{[&](opal::test::Channel&) {
    body();
    return ::testing::Test::HasFailure() ? 1 : 0;
  }};
  EXPECT_EQ(child.wait(std::chrono::seconds{60}), 0) << "the process failed: see above";
}

/// Plain objects over a channel.
template <class T>
void send(const opal::test::Channel& channel, const T& object) {
  channel.send(bytes_of(object));
}
template <class T>
T receive(const opal::test::Channel& channel) {
  T object{};
  EXPECT_TRUE(read_object(channel.receive(), object)) << "nothing came from the other process";
  return object;
}

}  // namespace opal::gpu::test
