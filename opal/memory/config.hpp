// SPDX-License-Identifier: Apache-2.0
// opal/memory/config.hpp — the variables of memory monitoring; the only place where these defaults are written.
#pragma once
#include <cstdint>
#include <string>

#include "opal/core/bytes.hpp"
#include "opal/core/config.hpp"

namespace opal::memory {

struct Config {
  std::string monitor = "auto";
  ByteSize shareable_from{0};
  ByteSize shareable_size = 64_GiB;
};

inline constexpr config::Var<Config> kVars[] = {
    {"monitor",
     &Config::monitor,
     {.choices = "auto|patcher|userfaultfd|explicit|none"},
     "",
     config::Level::user,
     "Who tells that memory was unmapped: libc's patched system calls, the kernel (userfaultfd: mremap of memory that "
     "is "
     "registered in part fails), or only the program (opal_memory_released); auto: the program's own or the patcher; "
     "none: no registration is kept."},
    {"shareable_from",
     &Config::shareable_from,
     {.max = ByteSize{std::uint64_t{1} << 40}},
     "bytes",
     config::Level::user,
     "Private memory that is mapped in pieces of at least so many bytes, as malloc does with large blocks, can be "
     "mapped "
     "by local peers, as that of shared pools; a fork copies it. 0: none; else at least 64 KiB. Needs the patcher."},
    {"shareable_size",
     &Config::shareable_size,
     {.min = 1_MiB, .max = ByteSize{std::uint64_t{1} << 44}},
     "bytes",
     config::Level::tuner,
     "Address space for such memory here and in each peer; what does not fit stays private."},
};
inline constexpr config::Group<Config> kGroup{"memory", "Memory monitoring", kVars};

}  // namespace opal::memory
