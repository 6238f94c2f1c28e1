// SPDX-License-Identifier: Apache-2.0
// opal/gpu/config.hpp — the variables of GPU memory; the only place where these defaults are written.
#pragma once
#include <cstdint>
#include <string>

#include "opal/core/bytes.hpp"
#include "opal/core/config.hpp"

namespace opal::gpu {

struct Config {
  std::string use = "auto";
  std::string library = "libcuda.so.1";
  std::uint32_t copy_streams = 4;
  std::uint32_t copy_events = 400;
  ByteSize stage_chunk = 512_KiB;
  std::uint32_t stage_chunks = 8;
};

inline constexpr config::Var<Config> kVars[] = {
    {"use",
     &Config::use,
     {.choices = "auto|on|off"},
     "",
     config::Level::user,
     "Whether pointers may be device memory: where there is a driver, always (without one it is said), or never."},
    {"library", &Config::library, {}, "", config::Level::developer, "The CUDA driver's library, by name or path."},
    {"copy_streams",
     &Config::copy_streams,
     {.min = 1, .max = 64},
     "streams",
     config::Level::tuner,
     "Streams per CUDA context in which asynchronous copies run side by side."},
    {"copy_events",
     &Config::copy_events,
     {.min = 1, .max = 65536},
     "copies",
     config::Level::tuner,
     "Asynchronous copies under way at a time; more have to wait."},
    {"stage_chunk",
     &Config::stage_chunk,
     {.min = 4_KiB, .max = 64_MiB},
     "bytes",
     config::Level::tuner,
     "Pieces in which GPU memory goes through pinned host memory where a transport cannot take it."},
    {"stage_chunks",
     &Config::stage_chunks,
     {.min = 2, .max = 1024},
     "pieces",
     config::Level::tuner,
     "Such pieces of one Context; while one is copied by the GPU others are under way. Allocated at the first use."},
};
inline constexpr config::Group<Config> kGroup{"gpu", "GPU memory", kVars};

}  // namespace opal::gpu
