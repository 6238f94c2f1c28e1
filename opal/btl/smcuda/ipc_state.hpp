// SPDX-License-Identifier: Apache-2.0
// opal/btl/smcuda/ipc_state.hpp — whether two processes map each other's GPU memory: the protocol as a pure table.
// No CUDA, no message and no clock in it: what a state answers to an event is the next state and what is to be done.
// docs/design/smcuda.md draws it; tests/btl/smcuda/ipc_model_test.cpp runs two of them in every order of events.
#pragma once
#include <cstdint>

namespace opal::btl::smcuda {

enum class IpcState : std::uint8_t {
  init,    ///< nothing has happened, or the peer was not ready: the next GPU buffer asks (again)
  sent,    ///< a request is in flight
  acking,  ///< a request has come, and its answer has not gone out yet
  acked,   ///< we answered yes: its GPU memory may be mapped
  ok,      ///< the peer answered yes: the same
  bad,     ///< it cannot be, or was asked for too often
};

enum class IpcEvent : std::uint8_t {
  // Here.
  gpu_buffer,          ///< a GPU buffer goes to the peer
  answered_yes,        ///< the answer to the peer's request has gone out: the devices reach each other,
  answered_no,         ///< they do not,
  answered_not_ready,  ///< or this process has no CUDA context yet
  // From the peer.
  request,  ///< its device; is there access?
  yes,
  no,
  not_ready,
};

enum class IpcAction : std::uint8_t {
  none,
  send_request,  ///< with this process's device; counts as an attempt
  check,         ///< find out what to answer, and answer: one of answered_* follows
};

/// One side of one pair.
struct Ipc {
  static constexpr unsigned kAttempts = 5;  // seed 002

  IpcState state = IpcState::init;
  std::uint8_t attempts = 0;  ///< requests sent

  /// GPU memory of the peer may be mapped here, and ours there.
  [[nodiscard]] constexpr bool usable() const noexcept { return state == IpcState::acked || state == IpcState::ok; }

  /// What `event` leads to.  `yields`: of the two sides this is the one whose request gives way when both ask at the
  /// same time; exactly one side of a pair is.  A send_request that the transport does not take is undone by assigning
  /// the Ipc from before.
  constexpr IpcAction on(IpcEvent event, bool yields) noexcept {
    switch (event) {
      case IpcEvent::gpu_buffer:
        if (state != IpcState::init) return IpcAction::none;
        state = IpcState::sent;
        ++attempts;
        return IpcAction::send_request;
      case IpcEvent::request:
        // In `sent` both have asked.  The one that does not yield goes on waiting: the peer answers its request, and
        // would never see an answer to its own.  From `bad` it may still become good: a side that gave up because the
        // peer was not ready is told that it is ready now; a side that found it impossible answers no again.
        if (state == IpcState::init || state == IpcState::bad || (state == IpcState::sent && yields)) {
          state = IpcState::acking;
          return IpcAction::check;
        }
        return IpcAction::none;
      case IpcEvent::answered_yes: return answered(IpcState::acked);
      case IpcEvent::answered_no: return answered(IpcState::bad);
      case IpcEvent::answered_not_ready: return answered(again_or_bad());
      case IpcEvent::yes: return heard(IpcState::ok);
      case IpcEvent::no: return heard(IpcState::bad);
      case IpcEvent::not_ready: return heard(again_or_bad());
    }
    return IpcAction::none;
  }

 private:
  [[nodiscard]] constexpr IpcState again_or_bad() const noexcept {
    return attempts >= kAttempts ? IpcState::bad : IpcState::init;
  }
  constexpr IpcAction answered(IpcState next) noexcept {
    if (state == IpcState::acking) state = next;
    return IpcAction::none;
  }
  /// An answer without a request is a broken peer's, and changes nothing.
  constexpr IpcAction heard(IpcState next) noexcept {
    if (state == IpcState::sent) state = next;
    return IpcAction::none;
  }
};

}  // namespace opal::btl::smcuda
