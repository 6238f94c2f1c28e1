// SPDX-License-Identifier: Apache-2.0
// On-demand paging where a device offers it: rxe of a newer kernel, in a guest (tests/vm/suite).  That of Linux 7.3
// moves the right bytes only where an address is the first of a page, and ends every transfer with success.
#include <infiniband/verbs.h>
#include <sys/mman.h>

#include <cstring>

#include "opal/btl/verbs/module.hpp"
#include "opal/core/system/mapping.hpp"
#include "tests/conformance/side.hpp"

namespace opal::test {
namespace {

constexpr std::size_t kSize = 512 << 10;

bool some_device_offers_it() {
  int count = 0;
  ibv_device** const list = ibv_get_device_list(&count);
  bool offered = false;
  for (int i = 0; i < count; ++i) {
    ibv_context* const context = ibv_open_device(list[i]);
    ibv_device_attr_ex attributes{};
    offered = offered || (context != nullptr && ibv_query_device_ex(context, nullptr, &attributes) == 0 &&
                          (attributes.odp_caps.general_caps & IBV_ODP_SUPPORT) != 0);
    if (context != nullptr) ibv_close_device(context);
  }
  if (list != nullptr) ibv_free_device_list(list);
  return offered;
}

class VerbsOnDemand : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!some_device_offers_it()) GTEST_SKIP() << "needs rdma: tests/vm/suite runs this in the guest odp";
  }
  void open(const char* wanted) {
    config::Store store;
    store.set("btl_verbs_on_demand", wanted);
    a_ = std::make_unique<Side>("verbs", store);
    b_ = std::make_unique<Side>("verbs", store);
    to_b_ = a_->connect(*b_);
    handle_ = *b_->module().register_memory(there_.data(), kSize, Rights::all);
  }
  [[nodiscard]] static bool on_demand(Side& side) {
    return dynamic_cast<btl::verbs::Module&>(side.module()).memory().on_demand().regions;
  }
  /// Puts `size` bytes from `from` of here_ to `to` of there_, gets them back, and compares.
  void put_and_get(std::size_t from, std::size_t to, std::size_t size) {
    const auto bytes = pattern(size, ++seed_);
    const auto address = reinterpret_cast<std::uint64_t>(there_.data()) + to;
    std::byte* const here = here_.data() + from;
    std::memcpy(here, bytes.data(), size);
    finish([&](Completion& end) { return a_->module().put(*to_b_, here, nullptr, address, handle_, size, end); });
    EXPECT_EQ(std::memcmp(there_.data() + to, bytes.data(), size), 0) << "put from +" << from << " to +" << to;
    std::memset(here, 0, size);
    finish([&](Completion& end) { return a_->module().get(*to_b_, here, nullptr, address, handle_, size, end); });
    EXPECT_EQ(std::memcmp(here, bytes.data(), size), 0) << "get from +" << to << " to +" << from;
  }
  void finish(const std::function<Post(Completion&)>& post) {
    CountedCompletion completion;
    Post answer = Post::again;
    ASSERT_TRUE(pump([&] { return (answer = post(completion)) != Post::again; }, *a_, *b_));
    ASSERT_TRUE(pump([&] { return answer != Post::queued || completion.calls != 0; }, *a_, *b_));
    EXPECT_TRUE(completion.ok()) << to_string(completion.error);
  }

  Mapping here_ = *Mapping::anonymous(kSize);
  Mapping there_ = *Mapping::anonymous(kSize);
  std::unique_ptr<Side> a_;
  std::unique_ptr<Side> b_;
  btl::Endpoint* to_b_ = nullptr;
  MemoryHandle handle_;
  std::uint32_t seed_ = 0;
};

TEST_F(VerbsOnDemand, IsLeftWhereItMovesWrongBytes) {
  open("auto");
  std::printf("on demand: %s\n", on_demand(*a_) ? "yes" : "no");
  EXPECT_EQ(on_demand(*a_), on_demand(*b_));
  for (const std::size_t from : {0, 8, 4095}) {
    for (const std::size_t to : {0, 100, 5000}) put_and_get(from, to, 100'000);
  }
}

TEST_F(VerbsOnDemand, NeedsNoNewRegistrationWhenTheMemoryBelowIsReplaced) {
  open("yes");
  ASSERT_TRUE(on_demand(*a_) && on_demand(*b_));
  for (int round = 0; round < 5; ++round) {
    for (Mapping* mapping : {&here_, &there_}) {
      ASSERT_NE(::mmap(mapping->data(), kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
                MAP_FAILED);
    }
    put_and_get(0, 0, kSize);
    put_and_get(8192, 4096, 65536);
  }
}

TEST_F(VerbsOnDemand, IsNotUsedWhereItIsNotWanted) {
  open("no");
  EXPECT_FALSE(on_demand(*a_));
  put_and_get(1, 2, 100'000);
}

}  // namespace
}  // namespace opal::test
