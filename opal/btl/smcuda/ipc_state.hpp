// SPDX-License-Identifier: Apache-2.0
// opal/btl/smcuda/ipc_state.hpp — the protocol by which two processes agree to map each other's GPU memory, as a pure
// state machine.  It calls no CUDA, sends nothing, has no clock.  docs/design/smcuda.md draws it;
// tests/btl/smcuda/ipc_model_test.cpp runs two of them in every order of events.
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

/// Whether a process and its devices can map GPU memory of a peer; the values are sent (wire::Answer).
enum class Capability : std::uint64_t { yes = 1, no = 2, not_ready = 3 };  ///< not_ready: it has no CUDA context yet

/// One side of one pair.
struct Ipc {
  static constexpr unsigned kAttempts = 5;  // maximum of requests

  IpcState state = IpcState::init;
  std::uint8_t attempts = 0;  ///< requests sent

  /// True when both sides may map each other's GPU memory.
  [[nodiscard]] constexpr bool usable() const noexcept { return state == IpcState::acked || state == IpcState::ok; }

  /// A transfer from or to the peer has a GPU buffer.  True: the caller must send a request.
  [[nodiscard]] constexpr bool on_gpu_buffer() noexcept {
    if (state != IpcState::init) return false;
    state = IpcState::sent;
    ++attempts;
    return true;
  }
  /// The peer's request has come.  True: the caller must send the answer, then call on_answered().  `yields`: this side
  /// drops its request when both have sent one; true for exactly one side of a pair.
  [[nodiscard]] constexpr bool on_request(bool yields) noexcept {
    // In `sent` both sides have sent a request.  The side that does not yield ignores the peer's and waits: the
    // peer yields, and answers.  From `bad`: a side that gave up because the peer was not ready learns by the
    // request that it is ready; a side that found access impossible answers no again.
    if (state != IpcState::init && state != IpcState::bad && (state != IpcState::sent || !yields)) return false;
    state = IpcState::acking;
    return true;
  }
  /// This side has sent its answer.
  constexpr void on_answered(Capability ours) noexcept {
    if (state == IpcState::acking) state = after(ours, IpcState::acked);
  }
  /// The peer's answer has come.  Without a request it comes from a broken peer and changes nothing.
  constexpr void on_answer(Capability theirs) noexcept {
    if (state == IpcState::sent) state = after(theirs, IpcState::ok);
  }

 private:
  [[nodiscard]] constexpr IpcState after(Capability capability, IpcState agreed) const noexcept {
    if (capability == Capability::yes) return agreed;
    return capability == Capability::not_ready && attempts < kAttempts ? IpcState::init : IpcState::bad;
  }
};

}  // namespace opal::btl::smcuda
