// SPDX-License-Identifier: Apache-2.0
// mpi_shim/rma/progress_helper.hpp — a thread that progresses now and then, so that accesses to windows of this process
// go on while the program computes.  It polls more often while there is something to do, and sleeps in between, at most
// a millisecond: how long an access may have to wait.  Blocks all signals: the program's handlers run in its threads.
// Owns the thread; the Context must be open at thread level `multiple`.
#pragma once
#include <condition_variable>
#include <mutex>
#include <thread>

namespace mpi_shim::p2p {
class Engine;
}

namespace mpi_shim::rma {

class ProgressHelper {
 public:
  explicit ProgressHelper(p2p::Engine& engine);
  ~ProgressHelper();
  ProgressHelper(const ProgressHelper&) = delete;
  ProgressHelper& operator=(const ProgressHelper&) = delete;

 private:
  void run() noexcept;

  p2p::Engine& engine_;
  std::mutex mutex_;
  std::condition_variable end_;
  bool ending_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace mpi_shim::rma
