// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/verbs/device/on_demand.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>

#include "opal/btl/verbs/device/loopback.hpp"
#include "opal/core/log.hpp"
#include "opal/core/system/mapping.hpp"

namespace opal::btl::verbs {
namespace {

constexpr std::size_t kArea = 128 << 10;
constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
// At a page's first byte, inside it, at its last; within a page, over a few, as much as a request takes.
constexpr std::array<std::size_t, 4> kOffsets{0, 8, 4095, 5000};
constexpr std::array<std::uint32_t, 3> kSizes{8, 5000, 65536};

Result<MemoryRegion> register_region(const Device& device, void* base, std::uint64_t size, int access) noexcept {
  MemoryRegion region{ibv_reg_mr(device.domain(), base, size, access)};
  if (region == nullptr) return device_error(errno, "ibv_reg_mr(trial)", size);
  return region;
}

/// Moves bytes between pinned memory and memory that the device reaches on demand, and compares.
class Trial {
 public:
  static Result<Trial> open(const Device& device, std::uint8_t port, const std::array<std::uint8_t, 16>& ip) {
    OPAL_TRY_ASSIGN(Mapping pinned, Mapping::anonymous(kArea));
    OPAL_TRY_ASSIGN(Mapping memory, Mapping::anonymous(kArea));
    OPAL_TRY_ASSIGN(MemoryRegion pin, register_region(device, pinned.data(), kArea, kAccess));
    OPAL_TRY_ASSIGN(Loopback loopback, Loopback::open(device, port, ip));
    return Trial{std::move(pinned), std::move(memory), std::move(pin), std::move(loopback)};
  }

  [[nodiscard]] std::byte* memory() const noexcept { return memory_.data(); }

  /// `as_remote`: `region` also is the side that takes no part.  Errors: a device's refusal, protocol (wrong bytes).
  Result<void> run(const ibv_mr& region, bool as_remote) noexcept {
    for (const bool replaced : {false, true}) {
      for (const std::size_t offset : kOffsets) {
        for (const std::uint32_t size : kSizes) {
          if (replaced) OPAL_TRY(replace());
          for (const bool into : {true, false}) {
            OPAL_TRY(move(region, false, into, offset, size));
            if (as_remote) OPAL_TRY(move(region, true, into, offset, size));
          }
        }
      }
    }
    if (wrong_ != 0) return Error{Errc::protocol, 0, "wrong bytes arrived", wrong_};
    return {};
  }

 private:
  Trial(Mapping pinned, Mapping memory, MemoryRegion pin, Loopback loopback) noexcept
      : pinned_(std::move(pinned)), memory_(std::move(memory)), pin_(std::move(pin)), loopback_(std::move(loopback)) {}

  /// Other pages at the same addresses: a region that is pinned in truth goes on with the old ones.
  Result<void> replace() noexcept {
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED;
    if (::mmap(memory_.data(), kArea, PROT_READ | PROT_WRITE, flags, -1, 0) == MAP_FAILED)
      return Error{Errc::os, errno, "mmap(trial)"};
    return {};
  }

  Result<void> move(const ibv_mr& region, bool remote, bool into, std::size_t offset, std::uint32_t size) noexcept {
    std::byte* const there = memory_.data() + offset;
    std::byte* const from = into ? pinned_.data() : there;
    std::byte* const to = into ? there : pinned_.data();
    ++seed_;
    for (std::uint32_t i = 0; i < size; ++i) from[i] = static_cast<std::byte>(seed_ * 37 + i * 7 + (i >> 8) * 13);
    std::fill_n(to, size, std::byte{0});
    const ibv_wr_opcode opcode = into == remote ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ;
    OPAL_TRY(remote ? loopback_.move(opcode, pinned_.data(), pin_->lkey, there, region.rkey, size)
                    : loopback_.move(opcode, there, region.lkey, pinned_.data(), pin_->rkey, size));
    if (!std::equal(from, from + size, to)) ++wrong_;
    return {};
  }

  Mapping pinned_;
  Mapping memory_;
  MemoryRegion pin_;
  Loopback loopback_;  // ends before the memory that it works on
  unsigned seed_ = 0;
  std::uint64_t wrong_ = 0;
};

/// Whether the device moves the right bytes through a region on demand, or through `everything` where it is not null.
Result<void> try_out(const Device& device, const ibv_mr* everything, std::uint8_t port,
                     const std::array<std::uint8_t, 16>& ip) {
  OPAL_TRY_ASSIGN(Trial trial, Trial::open(device, port, ip));
  if (everything != nullptr) return trial.run(*everything, false);
  OPAL_TRY_ASSIGN(const MemoryRegion region,
                  register_region(device, trial.memory(), kArea, kAccess | IBV_ACCESS_ON_DEMAND));
  return trial.run(*region, true);
}

}  // namespace

OnDemand find_on_demand(const Device& device, std::string_view wanted, std::uint8_t port,
                        const std::array<std::uint8_t, 16>& ip) {
  OnDemand found;
  if (wanted == "no") return found;
  ibv_device_attr_ex attributes{};
  constexpr std::uint32_t kNeeded = IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ;
  const bool offered = ibv_query_device_ex(device.context(), nullptr, &attributes) == 0 &&
                       (attributes.odp_caps.general_caps & IBV_ODP_SUPPORT) != 0 &&
                       (attributes.odp_caps.per_transport_caps.rc_odp_caps & kNeeded) == kNeeded;
  if (!offered) {
    if (wanted == "yes")
      log::warn("btl.verbs", "device {} offers no on-demand paging: memory is pinned", device.name());
    return found;
  }
  const auto works = [&](const char* what, const ibv_mr* everything) {
    if (wanted == "yes") return true;
    const auto tried = try_out(device, everything, port, ip);
    if (!tried) {
      log::info("btl.verbs", "device {}: {} is not used, because the trial of it failed: {}", device.name(), what,
                to_string(tried.error()));
    }
    return tried.has_value();
  };
  found.regions = works("on-demand paging", nullptr);
  if (!found.regions || (attributes.odp_caps.general_caps & IBV_ODP_SUPPORT_IMPLICIT) == 0) return found;
  auto everything = register_region(device, nullptr, SIZE_MAX, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND);
  if (everything && works("on-demand paging of the whole address space", everything->get())) {
    found.everything = std::move(*everything);
  }
  return found;
}

}  // namespace opal::btl::verbs
