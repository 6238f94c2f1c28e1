// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/sm/single_copy/cma.hpp"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

namespace opal::btl::sm {
namespace {

// The kernel copies at most 0x7ffff000 bytes in one call; a round number below it keeps every piece page aligned.
constexpr std::uint64_t kPiece = std::uint64_t{1} << 30;

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

}  // namespace

CopyOutcome CmaMechanism::copy(const RemoteRange& there, std::byte* here, bool write) noexcept {
  CopyOutcome outcome;
  while (outcome.copied < there.size) {
    const std::uint64_t left = there.size - outcome.copied;
    const iovec local{here + outcome.copied, std::min(left, kPiece)};
    const iovec remote{reinterpret_cast<void*>(there.address + outcome.copied), local.iov_len};
    const ssize_t copied = (write ? ::process_vm_writev : ::process_vm_readv)(pid_, &local, 1, &remote, 1, 0);
    if (copied > 0) {
      outcome.copied += static_cast<std::uint64_t>(copied);
    } else if (copied == 0 || errno != EINTR) {
      outcome.error = error_of(copied == 0 ? EFAULT : errno, write ? "process_vm_writev" : "process_vm_readv", left);
      break;
    }
  }
  return outcome;
}

void CmaMechanism::invite_peers() noexcept { (void)::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0); }

std::string CmaMechanism::ptrace_rule() {
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file{std::fopen("/proc/sys/kernel/yama/ptrace_scope", "re"),
                                                       &std::fclose};
  int scope = 0;
  if (file == nullptr || std::fscanf(file.get(), "%d", &scope) != 1) return "";
  return fmt::format(", kernel.yama.ptrace_scope {}", scope);
}

}  // namespace opal::btl::sm
