// SPDX-License-Identifier: Apache-2.0
// The kernel's KNEM device.
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "opal/btl/sm/single_copy/knem.hpp"
#include "opal/core/system/fd.hpp"

namespace opal::btl::sm {
namespace {

// The module's ioctl interface, as its public header describes it (knem, common/knem_io.h, driver ABI 0xc and 0xd).
// _IOR and _IOW in the command numbers are as in the header; they do not show the true direction.
struct Info {
  std::uint32_t abi;
  std::uint32_t features;
  std::uint32_t ignored_flags;
  std::uint32_t forced_flags;
};
struct Segment {
  std::uint64_t base;
  std::uint64_t size;
};
struct CreateRegion {
  std::uint64_t segments;  // address of the array of Segments
  std::uint32_t segment_count;
  std::uint32_t flags;
  std::uint32_t protection;  // PROT_READ | PROT_WRITE
  std::uint32_t pad;
  std::uint64_t cookie;  // out
};
struct InlineCopy {
  std::uint64_t segments;  // address of the array of Segments, in memory of the calling process
  std::uint32_t segment_count;
  std::uint32_t write;  // 1: into the region
  std::uint64_t cookie;
  std::uint64_t offset;
  std::uint32_t flags;   // 0: synchronous
  std::uint32_t status;  // out
  std::uint32_t async_index;
  std::uint32_t pad;
};
constexpr unsigned long kGetInfo = _IOW('K', 0x10, Info);
constexpr unsigned long kCreateRegion = _IOWR('K', 0x21, CreateRegion);
constexpr unsigned long kDestroyRegion = _IOR('K', 0x22, std::uint64_t);
constexpr unsigned long kInlineCopy = _IOR('K', 0x33, InlineCopy);
constexpr std::uint32_t kSuccess = 1;
constexpr std::uint32_t kOldestAbi = 0xc;
constexpr std::uint32_t kNewestAbi = 0xd;
static_assert(sizeof(Info) == 16 && sizeof(Segment) == 16 && sizeof(CreateRegion) == 32 && sizeof(InlineCopy) == 48,
              "layout of the driver's ABI");

class KernelKnem final : public KnemDevice {
 public:
  explicit KernelKnem(Fd fd) noexcept : fd_(std::move(fd)) {}

  [[nodiscard]] Result<void> check() const noexcept {
    Info info{};
    if (::ioctl(fd_.get(), kGetInfo, &info) != 0) return Error{Errc::not_supported, errno, "ioctl(KNEM_CMD_GET_INFO)"};
    if (info.abi >= kOldestAbi && info.abi <= kNewestAbi) return {};
    return Error{Errc::not_supported, 0, "/dev/knem: a driver ABI that we do not know", info.abi};
  }
  Result<std::uint64_t> create(std::uint64_t base, std::uint64_t size) noexcept override {
    const Segment segment{base, size};
    CreateRegion command{reinterpret_cast<std::uint64_t>(&segment), 1, 0, PROT_READ | PROT_WRITE, 0, 0};
    if (::ioctl(fd_.get(), kCreateRegion, &command) == 0) return command.cookie;
    const Errc code = errno == EFAULT   ? Errc::invalid_argument
                      : errno == ENOMEM ? Errc::no_memory
                                        : Errc::not_supported;
    return Error{code, errno, "ioctl(KNEM_CMD_CREATE_REGION)", size};
  }
  void destroy(std::uint64_t cookie) noexcept override { (void)::ioctl(fd_.get(), kDestroyRegion, &cookie); }
  Result<void> copy(std::uint64_t cookie, std::uint64_t offset, std::byte* here, std::uint64_t size,
                    bool write) noexcept override {
    const Segment segment{reinterpret_cast<std::uint64_t>(here), size};
    InlineCopy command{};
    command.segments = reinterpret_cast<std::uint64_t>(&segment);
    command.segment_count = 1;
    command.write = write ? 1 : 0;
    command.cookie = cookie;
    command.offset = offset;
    const long outcome = TEMP_FAILURE_RETRY(::ioctl(fd_.get(), kInlineCopy, &command));
    if (outcome == 0 && command.status == kSuccess) return {};
    if (outcome == 0) return Error{Errc::not_supported, 0, "ioctl(KNEM_CMD_INLINE_COPY): the copy failed", size};
    // EINVAL: no region has this cookie any more; the caller asks the peer for a new one.
    const Errc code = errno == EINVAL ? Errc::busy : errno == EFAULT ? Errc::invalid_argument : Errc::not_supported;
    return Error{code, errno, "ioctl(KNEM_CMD_INLINE_COPY)", size};
  }

 private:
  Fd fd_;
};

}  // namespace

Result<std::shared_ptr<KnemDevice>> KnemDevice::open() {
  Fd fd{::open("/dev/knem", O_RDWR | O_CLOEXEC)};
  if (!fd) return Error{Errc::not_supported, errno, "open(/dev/knem)"};
  auto device = std::make_shared<KernelKnem>(std::move(fd));
  OPAL_TRY(device->check());
  return std::shared_ptr<KnemDevice>{std::move(device)};
}

}  // namespace opal::btl::sm
