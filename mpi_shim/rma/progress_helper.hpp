// SPDX-License-Identifier: Apache-2.0
// mpi_shim/rma/progress_helper.hpp — a thread that makes progress while the application is outside MPI, so that peers
// can access windows of this process.  Between its rounds it sleeps for 50 microseconds after it found work, and then
// for up to 1 millisecond, which bounds the delay of an access.  It blocks all signals, so that the application's
// signal handlers run in the application's threads.  Owns the thread, which the destructor ends.  If the thread cannot
// start, the constructor logs a warning.
// Requires: the Context is open at thread level `multiple`, and the engine outlives the object.
#pragma once
#include <stop_token>
#include <thread>

namespace mpi_shim::p2p {
class Engine;
}

namespace mpi_shim::rma {

class ProgressHelper {
 public:
  explicit ProgressHelper(p2p::Engine& engine);
  ProgressHelper(const ProgressHelper&) = delete;
  ProgressHelper& operator=(const ProgressHelper&) = delete;

 private:
  void run(const std::stop_token& end) noexcept;

  p2p::Engine& engine_;
  std::jthread thread_;
};

}  // namespace mpi_shim::rma
