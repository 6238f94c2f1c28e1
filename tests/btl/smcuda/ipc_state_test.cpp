// SPDX-License-Identifier: Apache-2.0
// Every state, every event (R16).
#include "opal/btl/smcuda/ipc_state.hpp"

#include <gtest/gtest.h>

#include <array>

namespace opal::btl::smcuda {
namespace {

using enum IpcState;
using enum IpcEvent;
using Action = IpcAction;

struct Row {
  IpcState from;
  IpcEvent event;
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
    for (const IpcEvent event : kEvents) {
      for (const bool yields : {false, true}) {
        Row expected{from, event, yields, from};
        for (const Row& row : kRows) {
          if (row.from == from && row.event == event && row.yields == yields) expected = row;
        }
        Ipc ipc{from, 1};
        const Action action = ipc.on(event, yields);
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
    ASSERT_EQ(ipc.on(gpu_buffer, false), Action::send_request) << attempt;
    EXPECT_EQ(ipc.on(gpu_buffer, false), Action::none) << "one request at a time";
    (void)ipc.on(not_ready, false);
    EXPECT_EQ(ipc.state, attempt < 5 ? init : bad);
  }
  EXPECT_EQ(ipc.on(gpu_buffer, false), Action::none);
  EXPECT_EQ(ipc.attempts, 5);
}

TEST(SmcudaIpcState, WhoGaveUpIsStillFoundByThePeer) {
  Ipc ipc{bad, Ipc::kAttempts};
  EXPECT_EQ(ipc.on(request, false), Action::check);
  (void)ipc.on(answered_yes, false);
  EXPECT_TRUE(ipc.usable());
}

TEST(SmcudaIpcState, WhenBothAskAtOnceTheRequestOfOneStands) {
  Ipc stands;
  Ipc yields;
  EXPECT_EQ(stands.on(gpu_buffer, false), Action::send_request);
  EXPECT_EQ(yields.on(gpu_buffer, true), Action::send_request);
  EXPECT_EQ(stands.on(request, false), Action::none) << "waits for the answer to its own";
  EXPECT_EQ(yields.on(request, true), Action::check);
  (void)yields.on(answered_yes, true);
  (void)stands.on(yes, false);
  EXPECT_EQ(stands.state, ok);
  EXPECT_EQ(yields.state, acked);
}

}  // namespace
}  // namespace opal::btl::smcuda
