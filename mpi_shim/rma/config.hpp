// SPDX-License-Identifier: Apache-2.0
// mpi_shim/rma/config.hpp — the configuration variables of one-sided communication (group mpi_rma), with their
// defaults.
#pragma once
#include <string>

#include "opal/core/config/config.hpp"

namespace mpi_shim::rma {

struct Config {
  bool share = true;
  std::string helper = "auto";
};

inline constexpr opal::config::Var<Config> kVars[] = {
    {"share", &Config::share, opal::config::Level::tuner,
     "Whether the ranks of a host share memory for the locks of windows and for MPI_Win_allocate. Otherwise "
     "MPI_Win_allocate_shared fails, and accesses go as between hosts."},
    {"helper",
     &Config::helper,
     opal::config::Level::user,
     "Whether a thread serves accesses to windows while the program is outside MPI. auto: in jobs of several hosts, "
     "once a window exists to which some rank needs the help of its owner.",
     {.choices = "auto|on|off"}},
};
inline constexpr opal::config::Group<Config> kGroup{"mpi_rma", "MPI one-sided communication", kVars};

}  // namespace mpi_shim::rma
