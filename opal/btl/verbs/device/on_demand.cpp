// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/verbs/device/on_demand.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "opal/core/clock.hpp"
#include "opal/core/log.hpp"
#include "opal/core/system/mapping.hpp"

namespace opal::btl::verbs {
namespace {

constexpr int kLoopbackDepth = 4;
constexpr std::chrono::seconds kTimeout{2};
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

/// The addressing of a connection from a port to itself.
Result<ibv_ah_attr> way_to_itself(ibv_context* context, std::uint8_t port, const ibv_port_attr& attributes,
                                  const std::array<std::uint8_t, 16>& ip) {
  ibv_ah_attr way{};
  way.port_num = port;
  way.dlid = attributes.lid;
  if (attributes.link_layer == IBV_LINK_LAYER_INFINIBAND) return way;
  way.is_global = 1;
  way.grh.hop_limit = 1;
  bool found = false;
  for (int i = 0; i < std::min(attributes.gid_tbl_len, 256); ++i) {  // the RoCE v2 entry follows the v1 entry
    ibv_gid gid{};
    if (ibv_query_gid(context, port, i, &gid) != 0 || !std::equal(ip.begin(), ip.end(), gid.raw)) continue;
    way.grh.dgid = gid;
    way.grh.sgid_index = static_cast<std::uint8_t>(i);
    found = true;
  }
  if (!found) return Error{Errc::not_supported, 0, "verbs: no GID of the module's address", port};
  return way;
}

Result<void> join(ibv_qp* pair, std::uint32_t peer, const ibv_ah_attr& way, ibv_mtu mtu) noexcept {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = way.port_num;
  attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  attributes.path_mtu = mtu;
  attributes.dest_qp_num = peer;
  attributes.max_dest_rd_atomic = attributes.max_rd_atomic = 1;
  attributes.min_rnr_timer = 12;
  attributes.ah_attr = way;
  attributes.timeout = 14;
  attributes.retry_cnt = attributes.rnr_retry = 6;
  const auto move = [&](ibv_qp_state state, int mask) -> Result<void> {
    attributes.qp_state = state;
    const int code = ibv_modify_qp(pair, &attributes, IBV_QP_STATE | mask);
    return code == 0 ? Result<void>{} : device_error(code, "ibv_modify_qp(loopback)", state);
  };
  OPAL_TRY(move(IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
  OPAL_TRY(move(IBV_QPS_RTR, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                                 IBV_QP_MIN_RNR_TIMER));
  return move(IBV_QPS_RTS,
              IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

/// Two queue pairs of one device that are connected to each other.
class Loopback {
 public:
  /// `ip`: the address whose GID is used, as in wire::Address.  Errors: not_supported (no such GID), limit_reached, os.
  static Result<Loopback> open(const Device& device, std::uint8_t port, const std::array<std::uint8_t, 16>& ip);

  /// One write or read of `size` bytes; waits for its end.  Errors: internal (the device's status), timed_out (2 s).
  Result<void> move(ibv_wr_opcode opcode, std::byte* local, std::uint32_t lkey, const std::byte* remote,
                    std::uint32_t rkey, std::uint32_t size) noexcept;

 private:
  Loopback() = default;
  CompletionQueue completions_;
  std::array<QueuePair, 2> pairs_;
};

Result<Loopback> Loopback::open(const Device& device, std::uint8_t port, const std::array<std::uint8_t, 16>& ip) {
  ibv_port_attr attributes{};
  if (const int code = ibv_query_port(device.context(), port, &attributes); code != 0) {
    return device_error(code, "ibv_query_port", port);
  }
  OPAL_TRY_ASSIGN(const ibv_ah_attr way, way_to_itself(device.context(), port, attributes, ip));
  Loopback loopback;
  loopback.completions_.reset(ibv_create_cq(device.context(), 2 * kLoopbackDepth, nullptr, nullptr, 0));
  if (loopback.completions_ == nullptr) return device_error(errno, "ibv_create_cq(loopback)");
  for (QueuePair& pair : loopback.pairs_) {
    ibv_qp_init_attr initial{};
    initial.send_cq = initial.recv_cq = loopback.completions_.get();
    initial.qp_type = IBV_QPT_RC;
    initial.cap = {kLoopbackDepth, kLoopbackDepth, 1, 1, 0};
    pair.reset(ibv_create_qp(device.domain(), &initial));
    if (pair == nullptr) return device_error(errno, "ibv_create_qp(loopback)");
  }
  for (std::size_t i = 0; i < 2; ++i) {
    OPAL_TRY(join(loopback.pairs_[i].get(), loopback.pairs_[1 - i]->qp_num, way, attributes.active_mtu));
  }
  return loopback;
}

Result<void> Loopback::move(ibv_wr_opcode opcode, std::byte* local, std::uint32_t lkey, const std::byte* remote,
                            std::uint32_t rkey, std::uint32_t size) noexcept {
  ibv_sge piece{reinterpret_cast<std::uint64_t>(local), size, lkey};
  ibv_send_wr request{};
  request.sg_list = &piece;
  request.num_sge = 1;
  request.opcode = opcode;
  request.send_flags = IBV_SEND_SIGNALED;
  request.wr.rdma.remote_addr = reinterpret_cast<std::uint64_t>(remote);
  request.wr.rdma.rkey = rkey;
  ibv_send_wr* bad = nullptr;
  if (const int code = ibv_post_send(pairs_[0].get(), &request, &bad); code != 0) {
    return device_error(code, "ibv_post_send(loopback)");
  }
  const Deadline deadline = Deadline::after(kTimeout);
  ibv_wc end{};
  int count = 0;
  while ((count = ibv_poll_cq(completions_.get(), 1, &end)) == 0) {
    if (deadline.expired()) return Error{Errc::timed_out, 0, "loopback: no completion", size};
  }
  if (count < 0) return Error{Errc::os, 0, "ibv_poll_cq(loopback)"};
  if (end.status != IBV_WC_SUCCESS) return Error{Errc::internal, 0, ibv_wc_status_str(end.status), end.vendor_err};
  return {};
}

/// Moves bytes between pinned memory and memory registered for on-demand paging, and compares them.
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

  /// `as_remote`: tests `region` as the target of puts and gets, too.  Errors: those of the device, protocol (wrong
  /// bytes).
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

  /// Maps other pages at the same addresses: a region that is in fact pinned still accesses the old pages.
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
  Loopback loopback_;  // destroyed before the memory that it accesses
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
