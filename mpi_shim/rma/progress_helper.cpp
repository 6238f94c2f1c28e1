// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/rma/progress_helper.hpp"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <csignal>
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
    thread_ = std::thread{[this] { run(); }};
  } catch (const std::system_error& error) {
    opal::log::warn("mpi", "no thread for accesses to windows ({}): they wait until this process is in an MPI call",
                    error.what());
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

ProgressHelper::~ProgressHelper() {
  {
    const std::lock_guard guard{mutex_};
    ending_ = true;
  }
  end_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void ProgressHelper::run() noexcept {
  is_library_thread = true;
  std::chrono::microseconds nap = kShortest;
  std::unique_lock lock{mutex_};
  while (!ending_) {
    lock.unlock();
    bool served = false;
    // During a checkpoint progress() calls Halt::wait(), which is for the application's threads; glance() does not.
    while ((engine_.is_halted() ? engine_.glance() : engine_.progress()) != 0) served = true;
    lock.lock();
    nap = served ? kShortest : std::min(2 * nap, kLongest);
    end_.wait_for(lock, nap, [&] { return ending_; });
  }
}

}  // namespace mpi_shim::rma
