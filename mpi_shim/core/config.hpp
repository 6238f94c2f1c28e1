// SPDX-License-Identifier: Apache-2.0
// mpi_shim/core/config.hpp — the variables of an MPI process as a whole; the only place where these defaults are
// written.
#pragma once
#include <chrono>
#include <cstdint>

#include "opal/core/config.hpp"

namespace mpi_shim {

struct Config {
  bool leak_report = false;
  std::uint32_t vcis = 0;
  std::chrono::milliseconds deadlock_report{0};
};

inline constexpr opal::config::Var<Config> kVars[] = {
    {"leak_report",
     &Config::leak_report,
     {},
     "",
     opal::config::Level::user,
     "Whether MPI_Finalize says which communicators, datatypes, windows, requests and other objects were not freed."},
    {"vcis",
     &Config::vcis,
     {.min = 0, .max = 16},
     "vcis",
     opal::config::Level::user,
     "Ways for messages that a process of MPI_THREAD_MULTIPLE opens; communicators are dealt out to them, and threads "
     "on "
     "different ones do not wait for each other. A communicator uses as many as each of its processes has. 0: one for "
     "each core that a process of the host can count on, at least 2 and at most 4."},
    {"deadlock_report",
     &Config::deadlock_report,
     {.min = 0, .max = 86'400'000},
     "ms",
     opal::config::Level::user,
     "When all ranks have waited for so long, twice, and nothing is on its way, rank 0 says who waits for whom; 0: "
     "nobody looks. The job goes on, as a thread outside of MPI may still act."},
};
inline constexpr opal::config::Group<Config> kGroup{"mpi", "MPI processes", kVars};

}  // namespace mpi_shim
