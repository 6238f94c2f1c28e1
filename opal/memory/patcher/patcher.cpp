// SPDX-License-Identifier: Apache-2.0
// The monitor `patcher`: it replaces the system call instructions inside libc by jumps to trampolines.  It does not
// replace symbols, because libc calls its own functions without them (free() -> munmap), nor function entries, because
// other libraries patch those.  So it detects every call through libc, whatever hooks precede it.  It replaces one
// instruction by one of the same size, so a thread is never between the bytes that change (code_changes.hpp).
#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <vector>

#include "opal/core/bytes.hpp"
#include "opal/memory/events/monitor.hpp"
#include "opal/memory/patcher/code_changes.hpp"
#include "opal/memory/patcher/syscall_sites.hpp"
#include "opal/memory/patcher/trampolines.hpp"

namespace opal::memory {
namespace {

bool single_threaded() noexcept {
  struct stat status {};  // one link per thread besides "." and ".."
  return ::stat("/proc/self/task", &status) == 0 && status.st_nlink == 3;
}

/// Prevents that this library is unloaded: trampolines call it until the process ends.
Result<void> stay_loaded() noexcept {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&opal_memory_syscall_entry), &info) == 0 ||
      ::dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE) == nullptr) {
    return Error{Errc::not_supported, 0, "patcher: dlopen(RTLD_NODELETE) of the library itself"};
  }
  return {};
}

/// Writes the jumps into one segment of code, and makes it writable for this time only.
Result<void> write_jumps(std::span<std::byte> code, std::span<const Patch> patches) noexcept {
  const auto begin = reinterpret_cast<std::uintptr_t>(code.data()) & ~std::uintptr_t{4095};
  const auto end = align_up(reinterpret_cast<std::uintptr_t>(code.data() + code.size()), 4096);
  void* const pages = reinterpret_cast<void*>(begin);
  if (::mprotect(pages, end - begin, PROT_READ | PROT_WRITE | PROT_EXEC) != 0) {
    return Error{Errc::permission, errno, "patcher: mprotect(writable code of libc); does this system forbid it?"};
  }
  Result<void> written;
  if (single_threaded()) {
    for (const Patch& patch : patches) std::copy(patch.bytes.begin(), patch.bytes.end(), patch.where);
  } else {
    written = replace_while_threads_run(patches);
  }
  if (::mprotect(pages, end - begin, PROT_READ | PROT_EXEC) != 0) {
    return Error{Errc::permission, errno, "patcher: mprotect(code of libc back to read-only)"};
  }
  return written;
}

Result<void> patch(const CodeSegments& object) {
  for (const std::span<std::byte> code : object) {
    std::vector<SyscallSite> sites;
    find_syscall_sites(code, sites);
    if (sites.empty()) continue;
    OPAL_TRY_ASSIGN(const std::vector<Patch> patches, make_trampolines(object, sites));
    OPAL_TRY(write_jumps(code, patches));
  }
  return {};
}

}  // namespace

Result<void> start_patcher() {
  if (::dlsym(RTLD_DEFAULT, "__tsan_init") != nullptr) {
    // Its threads still unmap memory after ThreadSanitizer has freed their state, and then cannot take a lock.
    return Error{Errc::not_supported, 0, "patcher: not under ThreadSanitizer; use explicit"};
  }
  OPAL_TRY(stay_loaded());
  OPAL_TRY(hold_forks());
  prepare_syscall_entry();
  for (const CodeSegments& object : objects_to_patch()) OPAL_TRY(patch(object));
  return {};
}

}  // namespace opal::memory
