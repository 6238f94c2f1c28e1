// SPDX-License-Identifier: Apache-2.0
// tests/btl/sm/own_memory.hpp — a double of XPMEM for two modules of one process: a peer's addresses are our own.
#pragma once
#include <functional>
#include <memory>
#include <string_view>
#include <utility>

#include "opal/btl/sm/module.hpp"
#include "tests/conformance/side.hpp"

namespace opal::btl::sm {

class OwnMemory final : public XpmemDevice {
 public:
  Result<std::int64_t> make() noexcept override { return 77; }
  void remove(std::int64_t) noexcept override {}
  Result<std::int64_t> get(std::int64_t) noexcept override { return 5; }
  void release(std::int64_t) noexcept override {}
  Result<std::byte*> attach(std::int64_t, std::uint64_t offset, std::uint64_t) noexcept override {
    if (on_attach) on_attach(offset);
    return reinterpret_cast<std::byte*>(offset);
  }
  void detach(std::byte*) noexcept override {}

  std::function<void(std::uint64_t window)>
      on_attach;  ///< at the first access to each window of XpmemMechanism::kWindow
};

/// A module over such a device, in the Context of a Side of another transport.
struct Doubled {
  Doubled(std::shared_ptr<OwnMemory> device, std::string_view mechanisms, std::string_view large_get) {
    Config config;
    config.large_get = large_get;
    config.single_copy = mechanisms;
    auto opened =
        Module::open(host.module().parameters(), config,
                     KernelDevices{std::shared_ptr<XpmemDevice>{std::move(device)}, Error{Errc::not_supported}});
    EXPECT_TRUE(opened);
    module = std::move(*opened);
  }
  test::Side host{"self"};
  std::unique_ptr<Module> module;
};

}  // namespace opal::btl::sm
