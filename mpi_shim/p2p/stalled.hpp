// SPDX-License-Identifier: Apache-2.0
// mpi_shim/p2p/stalled.hpp — an operation that the transport could not take; the Engine retries it from progress
// (Engine::wait_for_transport).  A base class with a function pointer: objects behind handles must have no vtable.
// Threads: under the Context's lock.
#pragma once

namespace mpi_shim::p2p {

struct Stalled {
  /// Retries.  False: the transport is still full; retry in the next round.  True: it has left the list.
  bool (*resume)(Stalled& self) noexcept;
  bool waits = false;  ///< it is in the Engine's list; only the Engine changes it
};

}  // namespace mpi_shim::p2p
