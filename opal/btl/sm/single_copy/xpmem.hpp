// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/single_copy/xpmem.hpp — single copy through the XPMEM kernel module: a process makes an XPMEM segment of
// its address space; a peer attaches parts of it and copies with guarded_copy(): memory that the peer has unmapped is
// invalid_argument and no signal.
// XpmemDevice is the kernel module's interface, one function per ioctl, so that tests can replace it.  XpmemMechanism
// keeps at most kMost windows of its peer attached and detaches the least recently used one.
// Threads: XpmemDevice any, XpmemMechanism as btl::Module.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "opal/btl/sm/single_copy/copy_mechanism.hpp"
#include "opal/core/export.hpp"
#include "opal/core/result.hpp"
#include "opal/core/system/fd.hpp"

namespace opal::btl::sm {

/// The kernel module's interface.  Errors of make, get and attach: not_supported, with errno.
class OPAL_EXPORT XpmemDevice {
 public:
  virtual ~XpmemDevice() = default;
  /// Opens /dev/xpmem.  Errors: not_supported (no such device, or no permission to open it).
  static Result<std::shared_ptr<XpmemDevice>> open();

  /// Makes a segment of the whole address space, which processes of the same user may attach, and returns its number,
  /// never 0.  The caller ends it with remove().
  virtual Result<std::int64_t> make() noexcept = 0;
  virtual void remove(std::int64_t segment) noexcept = 0;
  /// A permit (XPMEM's apid) to attach parts of a peer's segment; release() ends it.
  virtual Result<std::int64_t> get(std::int64_t segment) noexcept = 0;
  virtual void release(std::int64_t permit) noexcept = 0;
  /// Maps [offset, +size) of the peer; `offset` is an address there, both are multiples of the page size.  Pages that
  /// the peer has not mapped fault at the access.
  virtual Result<std::byte*> attach(std::int64_t permit, std::uint64_t offset, std::uint64_t size) noexcept = 0;
  virtual void detach(std::byte* address) noexcept = 0;
};

class OPAL_EXPORT XpmemMechanism final : public CopyMechanism {
 public:
  /// Size of a window, and alignment of its address in the peer.
  static constexpr std::uint64_t kWindow = std::uint64_t{16} << 20;
  static constexpr std::size_t kMost = 64;  ///< attached windows

  /// `segment`: the peer's.  Errors: those of XpmemDevice::get.
  static Result<std::unique_ptr<XpmemMechanism>> open(std::shared_ptr<XpmemDevice> device, std::int64_t segment);
  ~XpmemMechanism() override;

  [[nodiscard]] MechanismKind kind() const noexcept override { return MechanismKind::xpmem; }
  CopyOutcome copy(const RemoteRange& there, std::byte* here, bool write) noexcept override;

  [[nodiscard]] std::size_t attached() const noexcept { return windows_.size(); }

 private:
  struct Window {
    std::uint64_t base;  // address in the peer
    std::byte* mapped;   // its address in this process
    std::uint64_t used;  // uses_ at the last use
  };
  XpmemMechanism(std::shared_ptr<XpmemDevice> device, std::int64_t permit) noexcept
      : device_(std::move(device)), permit_(permit) {}
  /// The window at `base`, attached if it is not yet.
  Result<std::byte*> window(std::uint64_t base) noexcept;

  std::shared_ptr<XpmemDevice> device_;
  std::int64_t permit_;
  std::vector<Window> windows_;
  std::uint64_t uses_ = 0;
};

}  // namespace opal::btl::sm
