// SPDX-License-Identifier: Apache-2.0
// mpi_shim/core/config.hpp — the variables of an MPI process as a whole; the only place where these defaults are
// written.
#pragma once
#include "opal/core/config.hpp"

namespace mpi_shim {

struct Config {
  bool leak_report = false;
};

inline constexpr opal::config::Var<Config> kVars[] = {
    {"leak_report",
     &Config::leak_report,
     {},
     "",
     opal::config::Level::user,
     "Whether MPI_Finalize says which communicators, datatypes, windows, requests and other objects were not freed."},
};
inline constexpr opal::config::Group<Config> kGroup{"mpi", "MPI processes", kVars};

}  // namespace mpi_shim
