// SPDX-License-Identifier: Apache-2.0
// opal/btl/smcuda/ipc_state.hpp — the protocol by which two processes agree to map each other's GPU memory, as a pure
// state machine: a state and an event give the next state and an action.  It calls no CUDA, sends nothing, has no
// clock. docs/design/smcuda.md draws it; tests/btl/smcuda/ipc_model_test.cpp runs two of them in every order of events.
#pragma once
#include <cstdint>

namespace opal::btl::smcuda {

enum class IpcState : std::uint8_t {
  init,    ///< start, or one side was not ready: the next GPU buffer sends a request (again)
  sent,    ///< this side's request has no answer yet
  acking,  ///< the peer's request has come; this side has not sent its answer yet
  acked,   ///< this side has answered yes: GPU memory may be mapped in both directions
  ok,      ///< the peer has answered yes: as acked
  bad,     ///< GPU memory cannot be mapped, or kAttempts requests got no final answer
};

enum class IpcEvent : std::uint8_t {
  // At this side.
  gpu_buffer,          ///< a transfer from or to the peer has a GPU buffer
  answered_yes,        ///< this side has sent its answer: the devices can access each other
  answered_no,         ///< this side has sent its answer: they cannot
  answered_not_ready,  ///< this side has sent its answer: it has no CUDA context yet
  // Messages of the peer: a request, and its answers to this side's request.
  request,
  yes,
  no,
  not_ready,
};

enum class IpcAction : std::uint8_t {
  none,
  send_request,  ///< send a request with this process's device
  check,         ///< find out and send the answer; then call on() with one of answered_*
};

/// One side of one pair.
struct Ipc {
  static constexpr unsigned kAttempts = 5;  // maximum of requests

  IpcState state = IpcState::init;
  std::uint8_t attempts = 0;  ///< requests sent

  /// True when both sides may map each other's GPU memory.
  [[nodiscard]] constexpr bool usable() const noexcept { return state == IpcState::acked || state == IpcState::ok; }

  /// Handles `event`.  Returns what the caller must do.  `yields`: this side drops its request when both have sent one;
  /// true for exactly one side of a pair.
  constexpr IpcAction on(IpcEvent event, bool yields) noexcept {
    switch (event) {
      case IpcEvent::gpu_buffer:
        if (state != IpcState::init) return IpcAction::none;
        state = IpcState::sent;
        ++attempts;
        return IpcAction::send_request;
      case IpcEvent::request:
        // In `sent` both sides have sent a request.  The side that does not yield ignores the peer's and waits: the
        // peer yields, and answers.  From `bad`: a side that gave up because the peer was not ready learns by the
        // request that it is ready; a side that found access impossible answers no again.
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
  /// An answer without a request comes from a broken peer and changes nothing.
  constexpr IpcAction heard(IpcState next) noexcept {
    if (state == IpcState::sent) state = next;
    return IpcAction::none;
  }
};

}  // namespace opal::btl::smcuda
