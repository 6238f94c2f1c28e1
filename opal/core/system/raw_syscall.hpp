// SPDX-License-Identifier: Apache-2.0
// opal/core/system/raw_syscall.hpp — a system call without libc.  For code that must not change errno, and for code
// that runs inside a patched libc call: a call through libc would recurse.
#pragma once
#include <unistd.h>

#include <cerrno>

namespace opal {

/// Returns the kernel's result: a value, or -errno.
inline long raw_syscall(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0, long f = 0) noexcept {
#if defined(__x86_64__)
  register long r10 asm("r10") = d;
  register long r8 asm("r8") = e;
  register long r9 asm("r9") = f;
  long result = number;
  asm volatile("syscall" : "+a"(result) : "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
  return result;
#else
  // On other processors libc is not patched.
  const int saved = errno;
  long result = ::syscall(number, a, b, c, d, e, f);
  if (result == -1) result = -errno;
  errno = saved;
  return result;
#endif
}

}  // namespace opal
