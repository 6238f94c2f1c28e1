// SPDX-License-Identifier: Apache-2.0
// opal/btl/ofi/device/device.hpp — one domain of a provider: fabric, domain, address vector, and endpoints.
//   FabricEndpoint    an endpoint (FI_EP_RDM) with a completion queue of its own.  The first carries messages and is
//   the target
//           of peers' puts and gets; one_sided_endpoint.hpp opens another one for those of this process.
// Owned by the module.  Threads: as the module.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "opal/btl/ofi/config.hpp"
#include "opal/btl/ofi/device/library.hpp"
#include "opal/btl/ofi/device/objects.hpp"
#include "opal/core/bytes.hpp"
#include "opal/core/export.hpp"
#include "opal/core/result.hpp"
#include "opal/core/system/mapping.hpp"

namespace opal::btl::ofi {

struct FabricEndpoint {
  Owned<fid_cq> completions;
  Owned<fid_ep> endpoint;  // closed before its queue
  int wait_fd = -1;        ///< becomes readable when there are completions; -1: the provider has no such descriptor
};

class OPAL_EXPORT Device {
 public:
  /// Errors: unreachable (no such provider), not_supported (no libfabric), and those of error_of().
  static Result<Device> open(const Config& config);

  /// Opens an endpoint.  enable() follows at once: shm takes no option before it.
  [[nodiscard]] Result<FabricEndpoint> open_endpoint() const noexcept;
  static Result<void> enable(const FabricEndpoint& fabric) noexcept;
  /// Prepares a sleep on FabricEndpoint::wait_fd; false: there are completions.  True also without a descriptor.
  [[nodiscard]] bool arm(const FabricEndpoint& fabric) const noexcept;
  /// The libfabric address of an enabled endpoint, at most `most` bytes.
  static Result<std::vector<std::byte>> name_of(const FabricEndpoint& fabric, std::size_t most);

  [[nodiscard]] const fi_info& info() const noexcept { return *info_; }
  [[nodiscard]] std::string_view provider() const noexcept { return info_->fabric_attr->prov_name; }
  [[nodiscard]] std::string_view domain_name() const noexcept { return info_->domain_attr->name; }
  [[nodiscard]] fid_domain* domain() const noexcept { return domain_.get(); }
  [[nodiscard]] fid_av* addresses() const noexcept { return addresses_.get(); }
  [[nodiscard]] bool has(std::uint64_t capability) const noexcept { return (info_->caps & capability) == capability; }
  [[nodiscard]] bool needs(int memory_mode) const noexcept {
    return (info_->domain_attr->mr_mode & memory_mode) == memory_mode;
  }
  /// Whether the provider keeps a registration after its end, for a later one of the same memory
  /// (FI_MR_CACHE_MAX_COUNT): peers with the old key access the memory meanwhile.  Registers and deregisters a page to
  /// find out.
  [[nodiscard]] bool keeps_registrations() const noexcept;
  /// Registers message buffers; null: the provider does not require it (FI_MR_LOCAL).  Errors: those of fi_mr_reg().
  [[nodiscard]] Result<MemoryRegion> register_buffers(const Mapping& memory) const noexcept;

 private:
  explicit Device(Info info) noexcept : info_(std::move(info)) {}
  Info info_;
  Owned<fid_fabric> fabric_;
  Owned<fid_domain> domain_;
  Owned<fid_av> addresses_;
};

/// Success if open() would find a provider.  Without btl_ofi_provider it loads libfabric only on a host with a device
/// that a provider might drive.  Errors: unreachable and not_supported, with the reason.
OPAL_EXPORT Result<void> provider_present(const Config& config) noexcept;

}  // namespace opal::btl::ofi
