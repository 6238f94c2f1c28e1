// SPDX-License-Identifier: Apache-2.0
// mpi_shim/request/request.hpp — the base class of all kinds of MPI requests.
// Life: idle -> start() -> active -> done -> consume().  A persistent request is then idle again; any other one is put
// back and must not be used.
// Owned by the pool of its kind, or by itself; put_back() returns or destroys it.
// Threads: under its Engine's lock, which the actions take; done() from any thread.
#pragma once
#include <atomic>
#include <cstdint>

#include "mpi_shim/handle/object.hpp"
#include "mpi_shim/handle/table.hpp"
#include "mpi_shim/include/mpi.h"

namespace mpi_shim {

namespace p2p {
class Engine;
}

/// The content of an MPI_Status, before conversion to the ABI's layout.
struct Outcome {
  int source = MPI_ANY_SOURCE;
  int tag = MPI_ANY_TAG;
  int error = MPI_SUCCESS;  ///< an error class
  std::uint64_t bytes = 0;
  bool cancelled = false;
};

class Request : public handle::Object {
 protected:
  /// The functions of one kind of requests; see the member functions of the same names.  A table instead of virtual
  /// functions: the memory of an object with a handle must begin with its handle::Object, not with a vtable pointer.
  struct Actions {
    void (*start)(Request& self) noexcept;
    void (*put_back)(Request& self) noexcept;
    bool (*cancel)(Request& self) noexcept = nullptr;  ///< null: cannot be cancelled
    void (*query)(Request& self) noexcept = nullptr;   ///< null: outcome_ is final when the request is done
    int (*dismiss)(Request& self) noexcept = nullptr;  ///< null: as put_back
  };
  /// Makes an action of a member function of a kind of requests.
  template <auto member>
  static auto act(Request& self) noexcept {
    return call(self, member);
  }

 public:
  static constexpr handle::Kind kKind = handle::Kind::request;

  /// Called once when the operation is done, from inside progress or start(), under the Engine's lock.  A watched
  /// request is put back by its watcher.
  struct Watcher {
    void (*fn)(void* object, Request& request) noexcept = nullptr;
    void* object = nullptr;
  };

  [[nodiscard]] bool done() const noexcept { return done_.load(std::memory_order_acquire); }
  /// False: a persistent request that is not started, or whose outcome was consumed.
  [[nodiscard]] bool active() const noexcept { return active_; }
  [[nodiscard]] bool persistent() const noexcept { return persistent_; }
  [[nodiscard]] const Outcome& outcome() const noexcept { return outcome_; }
  /// The outcome of a request that is done.  A generalized request calls the program's query callback each time.
  /// Requires: no lock is held.
  const Outcome& query() noexcept {
    if (actions_.query != nullptr) [[unlikely]]
      actions_.query(*this);
    return outcome_;
  }
  /// The Engine whose progress ends the request; null: progress of any Engine, or the program.
  [[nodiscard]] p2p::Engine* engine() const noexcept { return engine_; }
  /// The communicator whose error handler gets an error of the request.
  [[nodiscard]] MPI_Comm comm() const noexcept { return comm_; }
  /// Whether the request is of the kind with these actions.
  [[nodiscard]] bool has_actions(const Actions& actions) const noexcept { return &actions_ == &actions; }
  [[nodiscard]] MPI_Request mpi_handle() const noexcept { return handle::to_handle<MPI_Request>(*this); }

  /// Starts the operation.  Requires: not active.
  void start() noexcept { actions_.start(*this); }
  /// Tries to cancel the operation.  True: it is cancelled and done.  False: it cannot be cancelled, or the peer still
  /// decides; it ends later, and outcome().cancelled tells.
  bool cancel() noexcept { return actions_.cancel != nullptr && actions_.cancel(*this); }
  /// Returns the object to its pool.  Requires: not active, or done.
  void put_back() noexcept { actions_.put_back(*this); }

  /// put_back(); a generalized request first calls the program's free callback.  Returns MPI_SUCCESS or the error code
  /// of the callback.  Requires: no lock is held.
  int dismiss() noexcept {
    if (actions_.dismiss != nullptr) [[unlikely]]
      return actions_.dismiss(*this);
    put_back();
    return MPI_SUCCESS;
  }

  /// Ends the request after its outcome was returned to the program: a persistent one is idle again, for any other
  /// dismiss().  Returns as dismiss().  Requires: no lock is held.
  int consume() noexcept {
    if (!persistent_) return dismiss();
    active_ = false;
    return MPI_SUCCESS;
  }

  /// MPI_Request_free of a request in flight: finish() will put it back.  False: it is not in flight, and the caller
  /// calls dismiss().
  bool abandon() noexcept {
    if (!active_ || done()) return false;
    abandoned_ = true;
    return true;
  }

  void set_persistent(MPI_Comm comm) noexcept {
    persistent_ = true;
    comm_ = comm;
  }
  void set_comm(MPI_Comm comm) noexcept { comm_ = comm; }
  void set_watcher(Watcher watcher) noexcept { watcher_ = watcher; }

 protected:
  Request(const Actions& actions, p2p::Engine* engine) noexcept : Object(kKind), actions_(actions), engine_(engine) {}
  ~Request() = default;

  /// A kind calls it at each start.
  void begin() noexcept {
    outcome_ = {};
    active_ = true;
    done_.store(false, std::memory_order_relaxed);
  }

  /// A kind calls it exactly once for each begin().  *this may be put back or destroyed when it returns.
  void finish() noexcept {
    if (finish_and_keep()) [[unlikely]]
      put_back();
  }
  /// As finish(), but does not put back an abandoned request.  True: it was abandoned, and the caller puts it back.
  bool finish_and_keep() noexcept {
    const Watcher watcher = watcher_;  // before done_ is set: then another thread may put the request back
    const bool abandoned = abandoned_;
    done_.store(true, std::memory_order_release);
    if (watcher.fn != nullptr) {
      watcher.fn(watcher.object, *this);
      return false;
    }
    return abandoned;
  }

  /// The put_back action calls it: restores the state after construction.
  void reset() noexcept {
    done_.store(false, std::memory_order_relaxed);
    active_ = persistent_ = abandoned_ = false;
    watcher_ = {};
    comm_ = MPI_COMM_NULL;
  }

  Outcome outcome_;

 private:
  template <class Kind, class Result>
  static Result call(Request& self, Result (Kind::*member)() noexcept) noexcept {
    return (static_cast<Kind&>(self).*member)();
  }

  const Actions& actions_;
  p2p::Engine* const engine_;
  std::atomic<bool> done_{false};
  bool active_ = false;
  bool persistent_ = false;
  bool abandoned_ = false;
  Watcher watcher_;
  MPI_Comm comm_ = MPI_COMM_NULL;
};

}  // namespace mpi_shim
