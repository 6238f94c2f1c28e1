// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/sm/single_copy/xpmem.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/types.h>

#include <algorithm>
#include <cerrno>

#include "opal/core/system/guarded_copy.hpp"

namespace opal::btl::sm {
namespace {

// The kernel module's ioctl interface (hpc/xpmem, include/xpmem.h).  The command numbers do not encode the size of the
// argument.
constexpr unsigned long kMake = _IO('x', 1);
constexpr unsigned long kRemove = _IO('x', 2);
constexpr unsigned long kGet = _IO('x', 3);
constexpr unsigned long kRelease = _IO('x', 4);
constexpr unsigned long kAttach = _IO('x', 5);
constexpr unsigned long kDetach = _IO('x', 6);
constexpr int kReadWrite = 2;
constexpr int kPermitMode = 1;
constexpr std::uint64_t kOwnerMayReadAndWrite = 0600;

struct MakeCommand {
  std::uint64_t address;
  std::size_t size;
  int permit_type;
  std::uint64_t permit_value;
  std::int64_t segment;
};
struct GetCommand {
  std::int64_t segment;
  int flags;
  int permit_type;
  std::uint64_t permit_value;
  std::int64_t permit;
};
struct AttachCommand {
  std::int64_t permit;
  off_t offset;
  std::size_t size;
  std::uint64_t address;
  int fd;
  int flags;
};

class KernelXpmem final : public XpmemDevice {
 public:
  explicit KernelXpmem(Fd fd) noexcept : fd_(std::move(fd)) {}

  Result<std::int64_t> make() noexcept override {
    // Address 0 with SIZE_MAX: the kernel module exports the whole address space.
    MakeCommand command{0, SIZE_MAX, kPermitMode, kOwnerMayReadAndWrite, 0};
    OPAL_TRY(call(kMake, command, "ioctl(XPMEM_CMD_MAKE)"));
    return command.segment;
  }
  void remove(std::int64_t segment) noexcept override { (void)call(kRemove, segment, "ioctl(XPMEM_CMD_REMOVE)"); }
  Result<std::int64_t> get(std::int64_t segment) noexcept override {
    GetCommand command{segment, kReadWrite, kPermitMode, 0, 0};  // 0: XPMEM refuses any other permit value
    OPAL_TRY(call(kGet, command, "ioctl(XPMEM_CMD_GET)"));
    return command.permit;
  }
  void release(std::int64_t permit) noexcept override { (void)call(kRelease, permit, "ioctl(XPMEM_CMD_RELEASE)"); }
  Result<std::byte*> attach(std::int64_t permit, std::uint64_t offset, std::uint64_t size) noexcept override {
    AttachCommand command{permit, static_cast<off_t>(offset), size, 0, -1, 0};
    OPAL_TRY(call(kAttach, command, "ioctl(XPMEM_CMD_ATTACH)"));
    return reinterpret_cast<std::byte*>(command.address);
  }
  void detach(std::byte* address) noexcept override {
    auto value = reinterpret_cast<std::uint64_t>(address);
    (void)call(kDetach, value, "ioctl(XPMEM_CMD_DETACH)");
  }

 private:
  template <class Command>
  Result<void> call(unsigned long number, Command& command, const char* where) noexcept {
    if (::ioctl(fd_.get(), number, &command) == 0) return {};
    return Error{Errc::not_supported, errno, where};
  }
  Fd fd_;
};

}  // namespace

Result<std::shared_ptr<XpmemDevice>> XpmemDevice::open() {
  Fd fd{::open("/dev/xpmem", O_RDWR | O_CLOEXEC)};
  if (!fd) return Error{Errc::not_supported, errno, "open(/dev/xpmem)"};
  return std::shared_ptr<XpmemDevice>{std::make_shared<KernelXpmem>(std::move(fd))};
}

Result<std::unique_ptr<XpmemMechanism>> XpmemMechanism::open(std::shared_ptr<XpmemDevice> device,
                                                             std::int64_t segment) {
  OPAL_TRY_ASSIGN(const std::int64_t permit, device->get(segment));
  return std::unique_ptr<XpmemMechanism>{new XpmemMechanism{std::move(device), permit}};
}

XpmemMechanism::~XpmemMechanism() {
  for (const Window& window : windows_) device_->detach(window.mapped);
  device_->release(permit_);
}

Result<std::byte*> XpmemMechanism::window(std::uint64_t base) noexcept {
  for (Window& window : windows_) {
    if (window.base != base) continue;
    window.used = ++uses_;
    return window.mapped;
  }
  if (windows_.size() == kMost) {
    const auto oldest = std::ranges::min_element(windows_, {}, &Window::used);
    device_->detach(oldest->mapped);
    windows_.erase(oldest);
  }
  OPAL_TRY_ASSIGN(std::byte* const mapped, device_->attach(permit_, base, kWindow));
  windows_.push_back({base, mapped, ++uses_});
  return mapped;
}

CopyOutcome XpmemMechanism::copy(const RemoteRange& there, std::byte* here, bool write) noexcept {
  CopyOutcome outcome;
  while (outcome.copied < there.size) {
    const std::uint64_t address = there.address + outcome.copied;
    const std::uint64_t inside = address % kWindow;
    const std::uint64_t piece = std::min(there.size - outcome.copied, kWindow - inside);
    const auto attached = window(address - inside);
    if (!attached) {
      outcome.error = attached.error();
      break;
    }
    std::byte* const theirs = *attached + inside;
    std::byte* const ours = here + outcome.copied;
    if (!guarded_copy(write ? theirs : ours, write ? ours : theirs, piece)) {
      // The peer has unmapped this memory, the peer has ended, or the caller's buffer `here` is not accessible.
      // The connection manager reports the end of a peer separately.
      outcome.error = {Errc::invalid_argument, EFAULT, "xpmem: the peer's memory is not there", address};
      break;
    }
    outcome.copied += piece;
  }
  return outcome;
}

}  // namespace opal::btl::sm
