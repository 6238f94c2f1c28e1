// SPDX-License-Identifier: Apache-2.0
// mpi_shim/request/request.hpp — an operation that was started and will end: what all kinds of requests share.
// Owned by the pool of its kind; put_back() gives it back.  Life: idle -> active -> done -> idle; a persistent request
// goes round many times, any other ends with its first done.
// Threads: under its Engine's lock, except done(), which may be read by anyone.
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

/// What an MPI_Status says, in full width.
struct Outcome {
  int source = MPI_ANY_SOURCE;
  int tag = MPI_ANY_TAG;
  int error = MPI_SUCCESS;  ///< an error class
  std::uint64_t bytes = 0;
  bool cancelled = false;
};

class Request : public handle::Object {
 protected:
  /// What the kinds of requests do differently.  A table and no virtual functions: an object behind a handle begins
  /// with its handle::Object.
  struct Actions {
    void (*start)(Request& self) noexcept;
    void (*put_back)(Request& self) noexcept;
    bool (*cancel)(Request& self) noexcept = nullptr;  ///< null: never possible
    void (*query)(Request& self) noexcept = nullptr;   ///< null: the outcome stands when the request is done
    int (*dismiss)(Request& self) noexcept = nullptr;  ///< put_back() that calls the program, which may fail
  };
  /// An action that is a member function of the kind of requests.
  template <auto member>
  static auto act(Request& self) noexcept {
    return call(self, member);
  }

 public:
  static constexpr handle::Kind kKind = handle::Kind::request;

  /// Told once when the operation is done; from inside progress or the starting call.
  struct Watcher {
    void (*fn)(void* object, Request& request) noexcept = nullptr;
    void* object = nullptr;
  };

  [[nodiscard]] bool done() const noexcept { return done_.load(std::memory_order_acquire); }
  /// False for a persistent request that is not started, and for one whose outcome was handed out.
  [[nodiscard]] bool active() const noexcept { return active_; }
  [[nodiscard]] bool persistent() const noexcept { return persistent_; }
  [[nodiscard]] const Outcome& outcome() const noexcept { return outcome_; }
  /// The outcome of a request that is done, as it is now: some ask the program for it.  Without any lock held.
  const Outcome& query() noexcept {
    if (actions_.query != nullptr) [[unlikely]]
      actions_.query(*this);
    return outcome_;
  }
  /// The Engine whose progress ends it; null: none alone.
  [[nodiscard]] p2p::Engine* engine() const noexcept { return engine_; }
  /// The communicator whose error handler gets its error.
  [[nodiscard]] MPI_Comm comm() const noexcept { return comm_; }
  /// Tells the kinds of requests apart.
  [[nodiscard]] bool has_actions(const Actions& actions) const noexcept { return &actions_ == &actions; }
  [[nodiscard]] MPI_Request mpi_handle() const noexcept { return handle::to_handle<MPI_Request>(*this); }

  /// Begins the operation, a persistent one each time anew.
  void start() noexcept { actions_.start(*this); }
  /// Tries to end the operation without its effect; it is then done, and cancelled.  False: it is too late for that.
  bool cancel() noexcept { return actions_.cancel != nullptr && actions_.cancel(*this); }
  /// Gives the object back to its pool; it must not be active, or be done.
  void put_back() noexcept { actions_.put_back(*this); }

  /// put_back() when the program hears of it.  An error code of its own callback.  Without any lock held.
  int dismiss() noexcept {
    if (actions_.dismiss != nullptr) [[unlikely]]
      return actions_.dismiss(*this);
    put_back();
    return MPI_SUCCESS;
  }

  /// The outcome has been handed to the program: a persistent request is idle again, any other goes back.  An error
  /// code of the program's own callback.  Without any lock held.
  int consume() noexcept {
    if (!persistent_) return dismiss();
    active_ = false;
    return MPI_SUCCESS;
  }

  /// The program is not interested any more: finish() will put it back.  False: nothing is in flight, the caller has to
  /// dismiss() it.
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

  /// To be called at each start.
  void begin() noexcept {
    outcome_ = {};
    active_ = true;
    done_.store(false, std::memory_order_relaxed);
  }

  /// To be called exactly once for each begin(); *this may be gone afterwards.
  void finish() noexcept {
    if (finish_and_keep()) [[unlikely]]
      put_back();
  }
  /// As finish(), but leaves it to the caller to put back a request that was abandoned: true.
  bool finish_and_keep() noexcept {
    const Watcher watcher = watcher_;  // first: its waiter may put it back as soon as it is done
    const bool abandoned = abandoned_;
    done_.store(true, std::memory_order_release);
    if (watcher.fn != nullptr) {
      watcher.fn(watcher.object, *this);
      return false;
    }
    return abandoned;
  }

  /// For the put_back action: everything as constructed.
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
