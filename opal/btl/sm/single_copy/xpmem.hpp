// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/single_copy/xpmem.hpp — single copy through the XPMEM kernel module: a process offers its address space
// as a segment, a peer attaches parts of it and copies by plain memcpy.  XpmemDevice is the module's interface, one
// function per ioctl, so that tests can put a double in its place; XpmemMechanism keeps aligned windows attached, at
// most kMost per peer, the one unused longest goes.  Threads: the device from any thread, the mechanism as the module.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "opal/btl/sm/single_copy/copy_mechanism.hpp"
#include "opal/core/export.hpp"
#include "opal/core/result.hpp"
#include "opal/core/system/fd.hpp"

namespace opal::btl::sm {

class OPAL_EXPORT XpmemDevice {
 public:
  virtual ~XpmemDevice() = default;
  /// The kernel's.  Errors: not_supported (no /dev/xpmem, or not for us).
  static Result<std::shared_ptr<XpmemDevice>> open();

  /// Offers all of this process's memory to processes of the same user; a segment number, never 0.
  virtual Result<std::int64_t> make() noexcept = 0;
  virtual void remove(std::int64_t segment) noexcept = 0;
  /// Permission to attach parts of a peer's segment.
  virtual Result<std::int64_t> get(std::int64_t segment) noexcept = 0;
  virtual void release(std::int64_t permit) noexcept = 0;
  /// Maps [offset, +size), whole pages, of the peer's address space.
  virtual Result<std::byte*> attach(std::int64_t permit, std::uint64_t offset, std::uint64_t size) noexcept = 0;
  virtual void detach(std::byte* address) noexcept = 0;
};

class OPAL_EXPORT XpmemMechanism final : public CopyMechanism {
 public:
  static constexpr std::uint64_t kWindow = std::uint64_t{16} << 20;  ///< attached at a time, at multiples of it
  static constexpr std::size_t kMost = 64;

  /// Errors: those of XpmemDevice::get.
  static Result<std::unique_ptr<XpmemMechanism>> open(std::shared_ptr<XpmemDevice> device, std::int64_t segment);
  ~XpmemMechanism() override;

  [[nodiscard]] MechanismKind kind() const noexcept override { return MechanismKind::xpmem; }
  CopyOutcome copy(const RemoteRange& there, std::byte* here, bool write) noexcept override;

  [[nodiscard]] std::size_t attached() const noexcept { return windows_.size(); }

 private:
  struct Window {
    std::uint64_t base;  // in the peer
    std::byte* here;
    std::uint64_t used;
  };
  XpmemMechanism(std::shared_ptr<XpmemDevice> device, std::int64_t permit) noexcept
      : device_(std::move(device)), permit_(permit) {}
  Result<std::byte*> window(std::uint64_t base) noexcept;

  std::shared_ptr<XpmemDevice> device_;
  std::int64_t permit_;
  std::vector<Window> windows_;
  std::uint64_t uses_ = 0;
};

}  // namespace opal::btl::sm
