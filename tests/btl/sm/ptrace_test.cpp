// SPDX-License-Identifier: Apache-2.0
// Single copy by CMA where the kernel allows tracing of descendants only (Yama's ptrace_scope 1), between processes of
// an unprivileged user of which neither descends from the other.
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <fstream>

#include "opal/btl/sm/module.hpp"
#include "tests/btl/sm/single_copy.hpp"
#include "tests/conformance/side.hpp"
#include "tests/harness/child.hpp"

namespace opal::btl::sm {
namespace {

using test::Channel;
using test::Child;
using test::CountedCompletion;
using test::pattern;
using test::pump;
using test::Side;

constexpr std::size_t kRegion = 100'000;

class SmPtrace : public testing::Test {
 protected:
  void SetUp() override {
    int scope = 0;
    std::ifstream{"/proc/sys/kernel/yama/ptrace_scope"} >> scope;
    if (scope != 1) GTEST_SKIP() << "needs ptrace_scope: kernel.yama.ptrace_scope 1, here it is " << scope;
    if (::geteuid() == 0) GTEST_SKIP() << "needs ptrace_scope: root may trace everything";
  }

  /// What a sibling says of its endpoint to a process that, once its module is open, has called `after_opening`; the
  /// sibling gets the region by it and compares.
  static std::string description_by_sibling(const std::function<void()>& after_opening) {
    Child owner{[&](Channel& parent) {
      Side own{"sm", single_copy_by("cma")};
      after_opening();
      auto region = pattern(kRegion, 5);
      const auto handle = own.module().register_memory(region.data(), region.size(), Rights::all);
      parent.send(own.blob());
      parent.send(handle->bytes());
      parent.send(bytes_of(reinterpret_cast<std::uint64_t>(region.data())));
      return pump([&] { return parent.ready(); }, own) ? 0 : 1;
    }};
    Child reader{[](Channel& parent) {
      Side own{"sm", single_copy_by("cma")};
      btl::Endpoint& there = *own.connect(parent.receive());
      const MemoryHandle handle = *MemoryHandle::from_bytes(parent.receive());
      std::uint64_t address = 0;
      if (!read_object(parent.receive(), address)) return 1;
      std::vector<std::byte> copy(kRegion);
      CountedCompletion completion;
      const Post post = own.module().get(there, copy.data(), nullptr, address, handle, copy.size(), completion);
      if (post == Post::queued && !pump([&] { return completion.calls == 1; }, own)) return 2;
      parent.send(there.describe());
      return completion.ok() && copy == pattern(kRegion, 5) ? 0 : 3;
    }};
    for (int i = 0; i < 3; ++i) reader.channel().send(owner.channel().receive());
    const auto text = reader.channel().receive();
    EXPECT_EQ(reader.wait(), 0) << "the get";
    owner.channel().send("stop");
    EXPECT_EQ(owner.wait(), 0);
    return {reinterpret_cast<const char*>(text.data()), text.size()};
  }
};

TEST_F(SmPtrace, AModuleInvitesItsPeersSoThatCmaWorksBetweenSiblings) {
  const std::string text = description_by_sibling([] {});
  EXPECT_NE(text.find("cma: probe copied"), std::string::npos) << text;
}

/// So that the test above shows something.
TEST_F(SmPtrace, WithoutTheInvitationCmaIsRefusedWithTheReasonAndMessagesServe) {
  const std::string text = description_by_sibling([] { ASSERT_EQ(::prctl(PR_SET_PTRACER, 0, 0, 0, 0), 0); });
  EXPECT_NE(text.find("no cma: process_vm_readv: Operation not permitted, kernel.yama.ptrace_scope 1"),
            std::string::npos)
      << text;
}

}  // namespace
}  // namespace opal::btl::sm
