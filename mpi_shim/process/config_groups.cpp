// SPDX-License-Identifier: Apache-2.0
// The variables of this library, for opal-info.
#include <cstddef>
#include <iterator>

#include "mpi_shim/coll/config.hpp"
#include "mpi_shim/p2p/config.hpp"
#include "mpi_shim/process/config.hpp"
#include "mpi_shim/rma/config.hpp"
#include "opal/core/export.hpp"

namespace {

constexpr const opal::config::GroupInfo* kGroups[] = {&mpi_shim::kGroup, &mpi_shim::coll::kGroup,
                                                      &mpi_shim::p2p::kGroup, &mpi_shim::rma::kGroup};

}  // namespace

extern "C" OPAL_EXPORT const opal::config::GroupInfo* const* opal_config_groups(std::size_t* count) noexcept {
  *count = std::size(kGroups);
  return kGroups;
}
