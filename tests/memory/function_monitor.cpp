// SPDX-License-Identifier: Apache-2.0
// A program that reports releases from the functions munmap, madvise, mmap and mremap, as a library that replaces
// symbols does.  Allocators reach the kernel without them (libc inside itself, sanitizers by instructions of their
// own), so the self-test has to fail.  Prints what was said.
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>

#include "opal/memory/events/events.hpp"
#include "opal/memory/events/monitor.hpp"

namespace {

using opal::memory::Range;

bool started = false;

void report(void* address, std::size_t size) {
  if (started) opal::memory::released(Range::pages(reinterpret_cast<std::uintptr_t>(address), size));
}

}  // namespace

extern "C" {
#pragma GCC visibility push(default)
int munmap(void* address, std::size_t size) noexcept {
  report(address, size);
  return static_cast<int>(::syscall(SYS_munmap, address, size));
}
int madvise(void* address, std::size_t size, int advice) noexcept {
  report(address, size);
  return static_cast<int>(::syscall(SYS_madvise, address, size, advice));
}
void* mmap(void* address, std::size_t size, int protection, int flags, int file, off_t offset) noexcept {
  if ((flags & MAP_FIXED) != 0) report(address, size);
  return reinterpret_cast<void*>(::syscall(SYS_mmap, address, size, protection, flags, file, offset));
}
void* mremap(void* address, std::size_t size, std::size_t new_size, int flags, ...) noexcept {
  va_list arguments;
  va_start(arguments, flags);
  void* const target = (flags & MREMAP_FIXED) != 0 ? va_arg(arguments, void*) : nullptr;
  va_end(arguments);
  report(address, size);
  return reinterpret_cast<void*>(::syscall(SYS_mremap, address, size, new_size, flags, target));
}
#pragma GCC visibility pop
}

int main() {
  started = true;
  const opal::Result<void> outcome = opal::memory::self_test();
  if (outcome) return 1;
  std::puts(opal::to_string(outcome.error()).c_str());
  return 0;
}
