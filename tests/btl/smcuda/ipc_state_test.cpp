// SPDX-License-Identifier: Apache-2.0
// Every state, every event (R16).
#include "opal/btl/smcuda/ipc_state.hpp"

#include <gtest/gtest.h>

#include <array>

namespace opal::btl::smcuda {
namespace {

using enum IpcState;

enum class Event : std::uint8_t {
  gpu_buffer,
  answered_yes,
  answered_no,
  answered_not_ready,
  request,
  yes,
  no,
  not_ready,
};
using enum Event;
enum class Action : std::uint8_t { none, send_request, check };

Action happen(Ipc& ipc, Event event, bool yields) {
  switch (event) {
    case gpu_buffer: return ipc.on_gpu_buffer() ? Action::send_request : Action::none;
    case answered_yes: ipc.on_answered(Capability::yes); break;
    case answered_no: ipc.on_answered(Capability::no); break;
    case answered_not_ready: ipc.on_answered(Capability::not_ready); break;
    case request: return ipc.on_request(yields) ? Action::check : Action::none;
    case yes: ipc.on_answer(Capability::yes); break;
    case no: ipc.on_answer(Capability::no); break;
    case not_ready: ipc.on_answer(Capability::not_ready); break;
  }
  return Action::none;
}

struct Row {
  IpcState from;
  Event event;
  bool yields;
  IpcState to;
  Action action = Action::none;
};

constexpr std::array kStates{init, sent, acking, acked, ok, bad};
constexpr std::array kEvents{gpu_buffer, answered_yes, answered_no, answered_not_ready, request, yes, no, not_ready};

// Everything that changes something; all the rest leaves the state as it is and asks for nothing.
constexpr std::array kRows{
    Row{init, gpu_buffer, false, sent, Action::send_request},
    Row{init, gpu_buffer, true, sent, Action::send_request},
    Row{init, request, false, acking, Action::check},
    Row{init, request, true, acking, Action::check},
    Row{bad, request, false, acking, Action::check},
    Row{bad, request, true, acking, Action::check},
    Row{sent, request, true, acking, Action::check},
    Row{sent, yes, false, ok},
    Row{sent, yes, true, ok},
    Row{sent, no, false, bad},
    Row{sent, no, true, bad},
    Row{sent, not_ready, false, init},
    Row{sent, not_ready, true, init},
    Row{acking, answered_yes, false, acked},
    Row{acking, answered_yes, true, acked},
    Row{acking, answered_no, false, bad},
    Row{acking, answered_no, true, bad},
    Row{acking, answered_not_ready, false, init},
    Row{acking, answered_not_ready, true, init},
};

TEST(SmcudaIpcState, EveryPairOfStateAndEventLeadsWhereTheTableSays) {
  for (const IpcState from : kStates) {
    for (const Event event : kEvents) {
      for (const bool yields : {false, true}) {
        Row expected{from, event, yields, from};
        for (const Row& row : kRows) {
          if (row.from == from && row.event == event && row.yields == yields) expected = row;
        }
        Ipc ipc{from, 1};
        const Action action = happen(ipc, event, yields);
        EXPECT_EQ(ipc.state, expected.to)
            << "state " << static_cast<int>(from) << ", event " << static_cast<int>(event);
        EXPECT_EQ(action, expected.action)
            << "state " << static_cast<int>(from) << ", event " << static_cast<int>(event);
        EXPECT_EQ(ipc.attempts, action == Action::send_request ? 2 : 1);
      }
    }
  }
}

TEST(SmcudaIpcState, OnlyAckedAndOkMeanThatMemoryMayBeMapped) {
  for (const IpcState state : kStates) {
    EXPECT_EQ((Ipc{state, 0}.usable()), state == acked || state == ok) << static_cast<int>(state);
  }
}

TEST(SmcudaIpcState, AfterFiveAttemptsNobodyAsksAnyMore) {
  Ipc ipc;
  for (int attempt = 1; attempt <= 5; ++attempt) {
    ASSERT_TRUE(ipc.on_gpu_buffer()) << attempt;
    EXPECT_FALSE(ipc.on_gpu_buffer()) << "one request at a time";
    ipc.on_answer(Capability::not_ready);
    EXPECT_EQ(ipc.state, attempt < 5 ? init : bad);
  }
  EXPECT_FALSE(ipc.on_gpu_buffer());
  EXPECT_EQ(ipc.attempts, 5);
}

TEST(SmcudaIpcState, WhoGaveUpIsStillFoundByThePeer) {
  Ipc ipc{bad, Ipc::kAttempts};
  EXPECT_TRUE(ipc.on_request(false));
  ipc.on_answered(Capability::yes);
  EXPECT_TRUE(ipc.usable());
}

TEST(SmcudaIpcState, WhenBothAskAtOnceTheRequestOfOneStands) {
  Ipc stands;
  Ipc yields;
  EXPECT_TRUE(stands.on_gpu_buffer());
  EXPECT_TRUE(yields.on_gpu_buffer());
  EXPECT_FALSE(stands.on_request(false)) << "waits for the answer to its own";
  EXPECT_TRUE(yields.on_request(true));
  yields.on_answered(Capability::yes);
  stands.on_answer(Capability::yes);
  EXPECT_EQ(stands.state, ok);
  EXPECT_EQ(yields.state, acked);
}

}  // namespace
}  // namespace opal::btl::smcuda
