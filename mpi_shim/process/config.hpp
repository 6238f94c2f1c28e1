// SPDX-License-Identifier: Apache-2.0
// mpi_shim/process/config.hpp — the variables of an MPI process as a whole; the only place where these defaults are
// written.
#pragma once
#include <chrono>
#include <cstdint>

#include "opal/core/config/config.hpp"

namespace mpi_shim {

struct Config {
  bool leak_report = false;
  std::uint32_t vcis = 0;
  std::chrono::milliseconds deadlock_report{0};
};

inline constexpr opal::config::Var<Config> kVars[] = {
    {"leak_report", &Config::leak_report, opal::config::Level::user,
     "Whether MPI_Finalize lists communicators, datatypes, windows, requests and other objects that were not freed."},
    {"vcis",
     &Config::vcis,
     opal::config::Level::user,
     "Virtual communication interfaces of a process of MPI_THREAD_MULTIPLE. Communicators are assigned to them in "
     "turn; "
     "threads on different ones take no common lock. A communicator uses as many as each of its processes has. 0: one "
     "for each core that a process of the host can count on, at least 2 and at most 4.",
     {.min = 0, .max = 16},
     "vcis"},
    {"deadlock_report",
     &Config::deadlock_report,
     opal::config::Level::user,
     "When all ranks have waited for so long, twice, and no message is in flight, rank 0 prints what each rank waits "
     "for; 0: never. The job continues, since a thread outside of MPI may still act.",
     {.min = 0, .max = 86'400'000}},
};
inline constexpr opal::config::Group<Config> kGroup{"mpi", "MPI processes", kVars};

}  // namespace mpi_shim
