// SPDX-License-Identifier: Apache-2.0
// tests/gpu/target.hpp — two modules in this process, one of which owns GPU memory that the other puts and gets by
// messages; every message goes when the test says so.
#pragma once
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "tests/btl/emulation/fake_transport.hpp"
#include "tests/conformance/side.hpp"
#include "tests/gpu/program.hpp"

namespace opal::gpu::test {

using opal::test::CountedCompletion;
using opal::test::FakePair;

class TargetTest : public testing::Test {
 protected:
  static constexpr std::size_t kMessage = 1024;
  static constexpr std::size_t kSize = 10'000;

  /// `b` owns `device_`.
  void open() {
    pair_ = std::make_unique<FakePair>(kMessage);
    handle_ = *pair_->b.module.register_memory(device_.at(), kSize, Rights::all);
  }
  /// The bytes are kept as long as the test.
  Post put(std::vector<std::byte> bytes, CountedCompletion& completion) {
    const auto& from = sent_.emplace_back(std::move(bytes));
    return pair_->a.module.put(pair_->a.module.endpoint(), from.data(), nullptr, address(), handle_, from.size(),
                               completion);
  }
  Post get(std::vector<std::byte>& to, CountedCompletion& completion) {
    return pair_->a.module.get(pair_->a.module.endpoint(), to.data(), nullptr, address(), handle_, to.size(),
                               completion);
  }
  /// Goes on until the completion has been called, however many looks the copies take.
  void settle(const CountedCompletion& completion) {
    for (int i = 0; i < 10'000 && completion.calls == 0; ++i) pair_->settle();
    ASSERT_EQ(completion.calls, 1);
  }
  [[nodiscard]] std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(device_.at()); }
  /// Calls of the driver for a copy between host and device, so far.
  [[nodiscard]] std::uint64_t copies() const { return control_->calls("cuMemcpyAsync"); }

  Control* const control_ = cuda_double::control();
  CudaProgram program_;
  DeviceBuffer device_{kSize};
  std::deque<std::vector<std::byte>> sent_;
  std::unique_ptr<FakePair> pair_;
  MemoryHandle handle_;
};

}  // namespace opal::gpu::test
