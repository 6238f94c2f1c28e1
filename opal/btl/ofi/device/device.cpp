// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/ofi/device/device.hpp"

#include <glob.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>

#include <array>
#include <cstddef>
#include <cstring>

#include "opal/btl/ofi/device/offers.hpp"
#include "opal/core/log.hpp"

namespace opal::btl::ofi {
namespace {

constexpr std::uint32_t kApi = FI_VERSION(1, 11);

/// Capabilities to request, the best first: libfabric leaves out providers that lack one.
constexpr std::uint64_t kCapabilities[] = {FI_MSG | FI_MULTI_RECV | FI_RMA, FI_MSG | FI_RMA, FI_MSG | FI_MULTI_RECV,
                                           FI_MSG};

/// Devices that a provider other than verbs may drive.
bool devices_present() noexcept {
  for (const char* pattern : {"/sys/class/infiniband/*", "/sys/class/cxi*/*", "/dev/hfi1_[0-9]*"}) {
    glob_t found{};
    const bool some = ::glob(pattern, GLOB_NOSORT, nullptr, &found) == 0;
    ::globfree(&found);
    if (some) return true;
  }
  return false;
}

Result<Info> offers_of(const std::string& provider, std::uint64_t capabilities) {
  const Info hints{library().dupinfo(nullptr)};
  if (hints == nullptr) return Error{Errc::no_memory, 0, "fi_allocinfo"};
  hints->caps = capabilities;
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->ep_attr->type = FI_EP_RDM;
  hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
  hints->domain_attr->threading = FI_THREAD_DOMAIN;
  // With manual progress, a descriptor of sockets reports only what the process itself has received.
  const fi_progress progress = same_provider(provider, "sockets") ? FI_PROGRESS_AUTO : FI_PROGRESS_MANUAL;
  hints->domain_attr->control_progress = progress;
  hints->domain_attr->data_progress = progress;
  hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
  hints->tx_attr->msg_order = FI_ORDER_SAS;
  hints->rx_attr->msg_order = FI_ORDER_SAS;
  if (!provider.empty()) hints->fabric_attr->prov_name = ::strdup(provider.c_str());  // fi_freeinfo() frees it
  fi_info* found = nullptr;
  const int result = library().getinfo(kApi, nullptr, nullptr, 0, hints.get(), &found);
  if (result == -FI_ENODATA) return Info{};
  if (result != 0) return error_of(result, "fi_getinfo");
  return Info{found};
}

std::vector<Offer> list(const fi_info* first) {
  std::vector<Offer> offers;
  for (const fi_info* info = first; info != nullptr; info = info->next) {
    const char* const domain = info->domain_attr->name;
    offers.push_back({info->fabric_attr->prov_name, domain == nullptr ? "" : domain});
  }
  return offers;
}

Result<Info> find(const Config& config) {
  if (!library().loaded) return Error{Errc::not_supported, 0, kept_for_ever(library().why)};
  for (const std::uint64_t capabilities : kCapabilities) {
    OPAL_TRY_ASSIGN(const Info found, offers_of(config.provider, capabilities));
    const std::vector<Offer> offers = list(found.get());
    const auto index = choose(offers, config.provider, config.domain);
    if (!index) continue;
    const fi_info* info = found.get();
    for (std::size_t i = 0; i < *index; ++i) info = info->next;
    return Info{library().dupinfo(info)};
  }
  OPAL_TRY_ASSIGN(const Info all, offers_of({}, FI_MSG));
  const auto refused = choose(list(all.get()), config.provider, config.domain);
  if (!refused) return refused.error();
  return Error{Errc::unreachable, 0, "ofi: the provider does not offer its domain"};
}

Result<Owned<fid_cq>> open_queue(fid_domain* domain, std::size_t size, fi_wait_obj wait) noexcept {
  fi_cq_attr attributes{};
  attributes.size = size;
  attributes.format = FI_CQ_FORMAT_DATA;
  attributes.wait_obj = wait;
  fid_cq* queue = nullptr;
  OPAL_TRY(check(fi_cq_open(domain, &attributes, &queue, nullptr), "fi_cq_open"));
  return Owned<fid_cq>{queue};
}

}  // namespace

Result<Device> Device::open(const Config& config) {
  OPAL_TRY_ASSIGN(Info info, find(config));
  Device device{std::move(info)};
  fid_fabric* fabric = nullptr;
  OPAL_TRY(check(library().fabric(device.info_->fabric_attr, &fabric, nullptr), "fi_fabric"));
  device.fabric_.reset(fabric);
  fid_domain* domain = nullptr;
  OPAL_TRY(check(fi_domain(fabric, device.info_.get(), &domain, nullptr), "fi_domain"));
  device.domain_.reset(domain);
  fi_av_attr attributes{};
  attributes.type = device.info_->domain_attr->av_type == FI_AV_UNSPEC ? FI_AV_MAP : device.info_->domain_attr->av_type;
  fid_av* addresses = nullptr;
  OPAL_TRY(check(fi_av_open(domain, &attributes, &addresses, nullptr), "fi_av_open"));
  device.addresses_.reset(addresses);
  return device;
}

Result<FabricEndpoint> Device::open_endpoint() const noexcept {
  const std::size_t size = info_->tx_attr->size + info_->rx_attr->size;
  auto queue = open_queue(domain_.get(), size, FI_WAIT_FD);
  FabricEndpoint fabric;
  if (queue) {
    fabric.completions = std::move(*queue);
    if (fi_control(&fabric.completions->fid, FI_GETWAIT, &fabric.wait_fd) != 0) fabric.wait_fd = -1;
  } else {
    OPAL_TRY_ASSIGN(fabric.completions, open_queue(domain_.get(), size, FI_WAIT_NONE));
  }
  fid_ep* endpoint = nullptr;
  OPAL_TRY(check(fi_endpoint(domain_.get(), info_.get(), &endpoint, nullptr), "fi_endpoint"));
  fabric.endpoint.reset(endpoint);
  OPAL_TRY(check(fi_ep_bind(endpoint, &addresses_->fid, 0), "fi_ep_bind(av)"));
  OPAL_TRY(check(fi_ep_bind(endpoint, &fabric.completions->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind(cq)"));
  return fabric;
}

bool Device::keeps_registrations() const noexcept {
  if (!needs(FI_MR_PROV_KEY) || needs(FI_MR_ENDPOINT)) return false;
  alignas(4096) static std::byte page[4096];
  std::array<std::uint64_t, 2> keys{};
  for (std::uint64_t& key : keys) {
    fid_mr* made = nullptr;
    if (fi_mr_reg(domain(), page, sizeof page, FI_REMOTE_READ, 0, 0, 0, &made, nullptr) != 0) return false;
    const MemoryRegion region{made};
    key = fi_mr_key(made);
  }
  return keys[0] == keys[1];
}

Result<MemoryRegion> Device::register_buffers(const Mapping& memory) const noexcept {
  if (!needs(FI_MR_LOCAL)) return MemoryRegion{};
  static std::uint64_t next_key = 1;  // only for providers that let the caller choose; local use needs no secret key
  fid_mr* region = nullptr;
  OPAL_TRY(
      check(fi_mr_reg(domain(), memory.data(), memory.size(), FI_SEND | FI_RECV, 0, next_key++, 0, &region, nullptr),
            "fi_mr_reg(message buffers)"));
  return MemoryRegion{region};
}

Result<void> Device::enable(const FabricEndpoint& fabric) noexcept {
  // ofi_rxm makes its completion queue for as many peers as FI_UNIVERSE_SIZE says; rxe refuses that size.
  constexpr const char* kWhat =
      "fi_enable (if the device has small completion queues, set FI_UNIVERSE_SIZE to the number of peers, libfabric "
      "takes 256; FI_LOG_LEVEL=warn shows the reason)";
  return check(fi_enable(fabric.endpoint.get()), kWhat);
}

bool Device::arm(const FabricEndpoint& fabric) const noexcept {
  if (fabric.wait_fd < 0) return true;
  fid* queue = &fabric.completions->fid;
  return fi_trywait(fabric_.get(), &queue, 1) == FI_SUCCESS;
}

Result<std::vector<std::byte>> Device::name_of(const FabricEndpoint& fabric, std::size_t most) {
  std::vector<std::byte> name(most);
  std::size_t size = name.size();
  OPAL_TRY(check(fi_getname(&fabric.endpoint->fid, name.data(), &size), "fi_getname"));
  if (size == 0 || size > most)
    return Error{Errc::not_supported, 0, "ofi: the provider's addresses are too long", size};
  name.resize(size);
  return name;
}

Result<void> provider_present(const Config& config) noexcept {
  if (config.provider.empty() && !devices_present()) {
    return Error{
        Errc::unreachable, 0,
        "ofi: no EFA, Slingshot or Omni-Path device on this host; btl_ofi_provider chooses another provider of "
        "libfabric, by its name in fi_info"};
  }
  const auto found = find(config);
  if (!found) return found.error();
  return {};
}

}  // namespace opal::btl::ofi
