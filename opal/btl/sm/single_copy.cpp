// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/sm/single_copy.hpp"

#include <fmt/format.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "opal/core/log.hpp"

namespace opal::btl::sm {
namespace {

// The kernel copies at most 0x7ffff000 bytes in one call; a round number below it keeps every piece page aligned.
constexpr std::uint64_t kPiece = std::uint64_t{1} << 30;

std::uint64_t next(std::uint64_t& state) noexcept {  // splitmix64
  state += 0x9e3779b97f4a7c15ULL;
  std::uint64_t z = state;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

/// What the kernel says about tracing, for people.
std::string ptrace_scope() {
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file{std::fopen("/proc/sys/kernel/yama/ptrace_scope", "re"),
                                                       &std::fclose};
  int scope = 0;
  if (file == nullptr || std::fscanf(file.get(), "%d", &scope) != 1) return "";
  return fmt::format(", kernel.yama.ptrace_scope {}", scope);
}

}  // namespace

Result<SingleCopyChoice> SingleCopyChoice::parse(std::string_view list) {
  SingleCopyChoice choice;
  while (!list.empty()) {
    const std::size_t comma = list.find(',');
    const std::string_view name = list.substr(0, comma);
    list = comma == std::string_view::npos ? std::string_view{} : list.substr(comma + 1);
    if (name == "none") return choice;
    if (name != "cma") {
      log::error("btl.sm", "btl_sm_single_copy: \"{}\" is neither cma nor none", name);
      return Error{Errc::invalid_argument, 0, "btl_sm_single_copy: allowed are cma and none"};
    }
    choice.cma = true;
  }
  return choice;
}

ProbePage::ProbePage(std::uint64_t seed) : seed_(seed), bytes_(std::make_unique_for_overwrite<std::byte[]>(kSize)) {
  std::uint64_t state = seed;
  for (std::size_t i = 0; i < kSize; i += sizeof state) {
    const std::uint64_t word = next(state);
    std::memcpy(bytes_.get() + i, &word, sizeof word);
  }
}

bool ProbePage::matches(std::uint64_t seed, ByteSpan bytes) noexcept {
  if (bytes.size() != kSize) return false;
  std::uint64_t state = seed;
  for (std::size_t i = 0; i < kSize; i += sizeof state) {
    const std::uint64_t word = next(state);
    if (std::memcmp(bytes.data() + i, &word, sizeof word) != 0) return false;
  }
  return true;
}

SingleCopy SingleCopy::probe(const SingleCopyChoice& choice, pid_t pid, std::uint64_t address, std::uint64_t seed) {
  SingleCopy copy;
  if (!choice.cma) {
    copy.why_ = "no single copy: btl_sm_single_copy is none";
    return copy;
  }
  if (pid <= 0) {
    copy.why_ = "no single copy: cma: the peer's process is not visible in this PID namespace";
    return copy;
  }
  copy.pid_ = pid;
  copy.usable_ = true;
  std::array<std::byte, ProbePage::kSize> page{};
  if (const auto read = copy.read(page.data(), address, page.size()); !read) {
    copy.usable_ = false;
    copy.why_ = fmt::format("no single copy: cma: process_vm_readv: {}{}",
                            std::strerror(read.error().os_errno),  // NOLINT(concurrency-mt-unsafe): glibc's is safe
                            ptrace_scope());
  } else if (!ProbePage::matches(seed, page)) {
    copy.usable_ = false;
    copy.why_ = "no single copy: cma: the probe read something else, that PID is not the peer";
  } else {
    copy.why_ = fmt::format("cma: probe copied {} bytes", page.size());
  }
  return copy;
}

Error SingleCopy::failed(int error, const char* where, std::uint64_t left) noexcept {
  switch (error) {
    case ESRCH: return {Errc::peer_gone, error, where, left};
    case EFAULT: return {Errc::invalid_argument, error, where, left};
    case EPERM:
    case EACCES:
    case ENOSYS: break;
    default: return {Errc::os, error, where, left};
  }
  const std::string reason = fmt::format("no single copy any more: {}: {}", where,
                                         std::strerror(error));  // NOLINT(concurrency-mt-unsafe): glibc's is safe
  if (usable_ && why_ != "not tried") {
    log::once(log::Level::warn, "sm cma demoted", "btl.sm", "{}; put and get go through messages instead", reason);
  }
  usable_ = false;
  why_ = reason;
  return {Errc::not_supported, error, where, left};
}

Result<void> SingleCopy::write(std::uint64_t remote, const void* source, std::uint64_t size) noexcept {
  const auto* from = static_cast<const std::byte*>(source);
  while (size != 0) {
    const std::uint64_t piece = std::min(size, kPiece);
    const iovec local{const_cast<std::byte*>(from), piece};
    const iovec there{reinterpret_cast<void*>(remote), piece};
    const ssize_t copied = ::process_vm_writev(pid_, &local, 1, &there, 1, 0);
    if (copied <= 0) {
      if (copied < 0 && errno == EINTR) continue;
      return failed(copied < 0 ? errno : EFAULT, "process_vm_writev", size);
    }
    from += copied;
    remote += static_cast<std::uint64_t>(copied);
    size -= static_cast<std::uint64_t>(copied);
  }
  return {};
}

Result<void> SingleCopy::read(void* destination, std::uint64_t remote, std::uint64_t size) noexcept {
  auto* to = static_cast<std::byte*>(destination);
  while (size != 0) {
    const std::uint64_t piece = std::min(size, kPiece);
    const iovec local{to, piece};
    const iovec there{reinterpret_cast<void*>(remote), piece};
    const ssize_t copied = ::process_vm_readv(pid_, &local, 1, &there, 1, 0);
    if (copied <= 0) {
      if (copied < 0 && errno == EINTR) continue;
      return failed(copied < 0 ? errno : EFAULT, "process_vm_readv", size);
    }
    to += copied;
    remote += static_cast<std::uint64_t>(copied);
    size -= static_cast<std::uint64_t>(copied);
  }
  return {};
}

}  // namespace opal::btl::sm
