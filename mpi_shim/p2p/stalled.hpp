// SPDX-License-Identifier: Apache-2.0
// mpi_shim/p2p/stalled.hpp — something the transport could not take now, to be tried again from progress.
// A base of what may stall; not polymorphic, so that objects behind handles can have it.
#pragma once

namespace mpi_shim::p2p {

struct Stalled {
  /// Tries again.  False: it still does not go, keep it.
  bool (*resume)(Stalled& self) noexcept;
};

}  // namespace mpi_shim::p2p
