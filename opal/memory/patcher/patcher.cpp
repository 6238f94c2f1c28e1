// SPDX-License-Identifier: Apache-2.0
// The monitor that replaces system calls inside libc.  Not symbols, because libc calls itself without them (free() ->
// munmap), and not function entries, because other libraries replace those: the call itself gives way, so every call
// through libc is seen, whatever stands before.  Patched while there is one thread: none can be in the middle.
#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <vector>

#include "opal/core/bytes.hpp"
#include "opal/memory/events/monitor.hpp"
#include "opal/memory/patcher/syscall_sites.hpp"
#include "opal/memory/patcher/trampolines.hpp"

namespace opal::memory {
namespace {

bool single_threaded() noexcept {
  struct stat status {};  // one link per thread besides "." and ".."
  return ::stat("/proc/self/task", &status) == 0 && status.st_nlink == 3;
}

/// Trampolines lead here for ever: this library must not be unloaded.
Result<void> stay_loaded() noexcept {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&opal_memory_syscall_entry), &info) == 0 ||
      ::dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE) == nullptr) {
    return Error{Errc::not_supported, 0, "patcher: dlopen(RTLD_NODELETE) of the library itself"};
  }
  return {};
}

/// Writes the jumps into one run of code, which is writable for that moment only.
Result<void> write_jumps(std::span<std::byte> code, std::span<const Patch> patches) noexcept {
  const auto begin = reinterpret_cast<std::uintptr_t>(code.data()) & ~std::uintptr_t{4095};
  const auto end = align_up(reinterpret_cast<std::uintptr_t>(code.data() + code.size()), 4096);
  void* const pages = reinterpret_cast<void*>(begin);
  if (::mprotect(pages, end - begin, PROT_READ | PROT_WRITE | PROT_EXEC) != 0) {
    return Error{Errc::permission, errno, "patcher: mprotect(writable code of libc); does this system forbid it?"};
  }
  for (const Patch& patch : patches) std::copy(patch.bytes.begin(), patch.bytes.end(), patch.where);
  if (::mprotect(pages, end - begin, PROT_READ | PROT_EXEC) != 0) {
    return Error{Errc::permission, errno, "patcher: mprotect(code of libc back to read-only)"};
  }
  return {};
}

Result<void> patch(const CodeObject& object) {
  for (const std::span<std::byte> code : object.code) {
    std::vector<SyscallSite> sites;
    find_syscall_sites(code, sites);
    if (sites.empty()) continue;
    OPAL_TRY_ASSIGN(const std::vector<Patch> patches, make_trampolines(object, sites));
    OPAL_TRY(write_jumps(code, patches));
  }
  return {};
}

class Patcher final : public Monitor {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "patcher"; }

  Result<void> start() noexcept override {
    if (!single_threaded()) {
      return Error{Errc::not_supported, 0,
                   "patcher: there are several threads already; start it earlier (open a Context, or MPI_Init, first)"};
    }
    if (::dlsym(RTLD_DEFAULT, "__tsan_init") != nullptr) {
      // Its threads unmap memory after it has forgotten them: then no lock of ours may be taken.
      return Error{Errc::not_supported, 0, "patcher: not under ThreadSanitizer; use userfaultfd or explicit"};
    }
    OPAL_TRY(stay_loaded());
    prepare_syscall_entry();
    for (const CodeObject& object : objects_to_watch()) OPAL_TRY(patch(object));
    return {};
  }
};

}  // namespace

std::unique_ptr<Monitor> make_patcher() { return std::make_unique<Patcher>(); }

}  // namespace opal::memory
