// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/sm/single_copy/cma.hpp"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <fstream>
#include <memory>
#include <new>

#include "opal/core/copy.hpp"
#include "opal/core/system/guarded_copy.hpp"

namespace opal::btl::sm {
namespace {

// The kernel copies at most 0x7ffff000 bytes in one call; a round number below it keeps every piece page aligned.
constexpr std::uint64_t kPiece = std::uint64_t{1} << 30;

// Bytes from which copies in two steps pay: below, the system call costs more than the slow copy.
// With pieces of 16 KiB the copy has half the speed, since each call looks up the pages of the peer.
constexpr std::uint64_t kTwoStepsFrom = 2048;
constexpr std::size_t kTwoStepPiece = std::size_t{64} << 10;
constexpr std::size_t kLine = 64;

/// The buffer of this thread for copies in two steps, aligned to kLine, made at the first use; null: no memory.
std::byte* two_step_buffer() noexcept {
  thread_local const std::unique_ptr<std::byte[]> buffer{new (std::nothrow) std::byte[kTwoStepPiece + 2 * kLine]};
  if (buffer == nullptr) return nullptr;
  return buffer.get() + (kLine - reinterpret_cast<std::uintptr_t>(buffer.get()) % kLine);
}

Error error_of(int error, const char* where, std::uint64_t left) noexcept {
  switch (error) {
    case ESRCH: return {Errc::peer_gone, error, where, left};
    case EFAULT: return {Errc::invalid_argument, error, where, left};
    case EPERM:
    case EACCES:
    case ENOSYS: return {Errc::not_supported, error, where, left};
    default: return {Errc::os, error, where, left};
  }
}

/// Calls process_vm_readv() or process_vm_writev() until all is copied or a call fails.
CopyOutcome call_kernel(pid_t pid, const RemoteRange& there, std::byte* here, bool write) noexcept {
  CopyOutcome outcome;
  while (outcome.copied < there.size) {
    const std::uint64_t left = there.size - outcome.copied;
    const iovec local{here + outcome.copied, std::min(left, kPiece)};
    const iovec remote{reinterpret_cast<void*>(there.address + outcome.copied), local.iov_len};
    const ssize_t copied = (write ? ::process_vm_writev : ::process_vm_readv)(pid, &local, 1, &remote, 1, 0);
    if (copied > 0) {
      outcome.copied += static_cast<std::uint64_t>(copied);
    } else if (copied == 0 || errno != EINTR) {
      outcome.error = error_of(copied == 0 ? EFAULT : errno, write ? "process_vm_writev" : "process_vm_readv", left);
      break;
    }
  }
  return outcome;
}

/// For addresses between which the kernel copies slowly (opal/core/copy.hpp).  The kernel copies between the peer and a
/// buffer in the cache, at the same offset in a line as the peer's bytes; this process copies between buffer and
/// `here`.
CopyOutcome copy_in_two_steps(pid_t pid, const RemoteRange& there, std::byte* here, bool write) noexcept {
  std::byte* const buffer = two_step_buffer();
  if (buffer == nullptr) return call_kernel(pid, there, here, write);
  CopyOutcome outcome;
  while (outcome.copied < there.size) {
    RemoteRange piece = there.after(outcome.copied);
    piece.size = std::min<std::uint64_t>(piece.size, kTwoStepPiece);
    std::byte* const between = buffer + piece.address % kLine;
    std::byte* const user = here + outcome.copied;
    const CopyOutcome bad_buffer{
        outcome.copied,
        {Errc::invalid_argument, EFAULT, "put or get: the caller's buffer", there.size - outcome.copied}};
    if (write && !guarded_copy(between, user, piece.size)) return bad_buffer;
    const CopyOutcome copied = call_kernel(pid, piece, between, write);
    if (!write && !guarded_copy(user, between, copied.copied)) return bad_buffer;
    outcome.copied += copied.copied;
    outcome.error = copied.error;
    if (copied.copied != piece.size) return outcome;
  }
  return outcome;
}

}  // namespace

CopyOutcome CmaMechanism::copy(const RemoteRange& there, std::byte* here, bool write) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(here);
  const bool slow = write ? kernel_copies_slowly(there.address, address) : kernel_copies_slowly(address, there.address);
  return slow && there.size >= kTwoStepsFrom ? copy_in_two_steps(pid_, there, here, write)
                                             : call_kernel(pid_, there, here, write);
}

void CmaMechanism::permit_peers() noexcept { (void)::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0); }

std::string CmaMechanism::ptrace_rule() {
  int scope = 0;
  if (!(std::ifstream{"/proc/sys/kernel/yama/ptrace_scope"} >> scope)) return "";
  return fmt::format(", kernel.yama.ptrace_scope {}", scope);
}

}  // namespace opal::btl::sm
