// SPDX-License-Identifier: Apache-2.0
// opal/gpu/config.hpp — the variables of GPU memory; the only place where these defaults are written.
#pragma once
#include <cstdint>
#include <string>

#include "opal/core/bytes.hpp"
#include "opal/core/config/config.hpp"

namespace opal::gpu {

struct Config {
  std::string use = "auto";
  std::string library = "libcuda.so.1";

  // Not variables: constants, which tests make smaller.
  /// Most streams per CUDA context for asynchronous copies.
  std::uint32_t copy_streams = 4;
  /// Most asynchronous copies in flight per stream.
  std::uint32_t copy_events = 400;

  ByteSize stage_chunk = 512_KiB;
  /// No variable.  Number of staging chunks of one Context, stage_chunk bytes each, allocated at the first use.
  std::uint32_t stage_chunks = 8;
};

inline constexpr config::Var<Config> kVars[] = {
    {"use",
     &Config::use,
     config::Level::user,
     "Whether pointers may be GPU memory. auto: if there is a driver; on: the same, with a warning if there is none; "
     "off: never.",
     {.choices = "auto|on|off"}},
    {"library", &Config::library, config::Level::developer, "The CUDA driver's library, by name or path."},
    {"stage_chunk",
     &Config::stage_chunk,
     config::Level::tuner,
     "Size of the pieces in which GPU memory goes through pinned host memory, if a transport does not take it "
     "directly.",
     {.min = 4_KiB, .max = 64_MiB}},
};
inline constexpr config::Group<Config> kGroup{"gpu", "GPU memory", kVars};

}  // namespace opal::gpu
