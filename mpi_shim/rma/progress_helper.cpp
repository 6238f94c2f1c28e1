// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/rma/progress_helper.hpp"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <system_error>

#include "mpi_shim/base/library_thread.hpp"
#include "mpi_shim/p2p/engine.hpp"
#include "opal/core/log.hpp"

namespace mpi_shim::rma {
namespace {

using namespace std::chrono_literals;
constexpr std::chrono::microseconds kShortest = 50us;
constexpr std::chrono::microseconds kLongest = 1000us;

}  // namespace

ProgressHelper::ProgressHelper(p2p::Engine& engine) : engine_(engine) {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::jthread{[this](const std::stop_token& end) { run(end); }};
  } catch (const std::system_error& error) {
    opal::log::warn("mpi", "no thread for accesses to windows ({}): they wait until this process is in an MPI call",
                    error.what());
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void ProgressHelper::run(const std::stop_token& end) noexcept {
  is_library_thread = true;
  std::chrono::microseconds nap = kShortest;
  std::mutex mutex;  // no other thread takes it
  std::condition_variable_any napping;
  std::unique_lock lock{mutex};
  while (!end.stop_requested()) {
    bool served = false;
    // During a checkpoint progress() calls Halt::wait(), which is for the application's threads; glance() does not.
    while ((engine_.is_halted() ? engine_.glance() : engine_.progress()) != 0) served = true;
    nap = served ? kShortest : std::min(2 * nap, kLongest);
    napping.wait_for(lock, end, nap, [] { return false; });
  }
}

}  // namespace mpi_shim::rma
