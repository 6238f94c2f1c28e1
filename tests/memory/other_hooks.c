/* SPDX-License-Identifier: Apache-2.0 */
/* A library that hooks munmap and madvise the way many do: the function's first bytes become a jump to its own, which
 * asks the kernel through syscall().  The tests load it before and after OPAL's monitor. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))

EXPORTED char other_hooks_data[64] = "something to register";

static unsigned munmaps, madvises;

static int hooked_munmap(void* address, size_t size) {
  ++munmaps;
  return (int)syscall(SYS_munmap, address, size);
}

static int hooked_madvise(void* address, size_t size, int advice) {
  ++madvises;
  return (int)syscall(SYS_madvise, address, size, advice);
}

static int overwrite(const char* name, uintptr_t target) {
  void* libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
  unsigned char* code = libc != NULL ? dlsym(libc, name) : NULL;
  unsigned char jump[13] = {0x49, 0xbb, 0, 0, 0, 0, 0, 0, 0, 0, 0x41, 0xff, 0xe3}; /* movabs $target,%r11; jmp *%r11 */
  uintptr_t page = (uintptr_t)code & ~(uintptr_t)4095;
  if (code == NULL || mprotect((void*)page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC) != 0) return -1;
  memcpy(jump + 2, &target, sizeof target);
  memcpy(code, jump, sizeof jump);
  return mprotect((void*)page, 8192, PROT_READ | PROT_EXEC);
}

EXPORTED int other_hooks_install(void) {
  if (overwrite("munmap", (uintptr_t)hooked_munmap) != 0) return -1;
  return overwrite("madvise", (uintptr_t)hooked_madvise);
}

EXPORTED unsigned other_hooks_seen(void) { return munmaps + madvises; }
