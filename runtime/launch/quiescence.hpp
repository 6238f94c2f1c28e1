// SPDX-License-Identifier: Apache-2.0
// runtime/launch/quiescence.hpp — the launcher's state machine of a checkpoint.  It sends a step to all ranks, and the
// next step when all ranks have answered (docs/design/checkpoint.md).  Threads: the loop's thread.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "runtime/event/loop.hpp"

namespace runtime::launch {

class Quiescence {
 public:
  /// Gets the result: an empty text, or why the job cannot be quiesced.
  using Answer = std::function<void(const std::string& problem)>;

  /// `ask` sends a request (checkpoint_words.hpp) to all ranks.
  Quiescence(event::Loop& loop, unsigned ranks, std::function<void(const std::string& request)> ask);

  /// Starts a checkpoint.  `answer` runs once: with an empty text when all ranks are quiescent, else with the reason,
  /// and then the ranks run on.  Reasons: another quiesce() is in progress or done; a rank is not between MPI_Init and
  /// MPI_Finalize; a rank reports a problem, ends, or does not answer within `timeout` (zero: no limit).
  void quiesce(std::chrono::milliseconds timeout, Answer answer);
  /// Cancels a quiesce() in progress: the ranks run on, and `answer` does not run.
  void give_up();
  /// Lets the ranks run on.  Returns an empty text, or a problem when they are running.
  std::string resume();

  /// Handles a checkpoint message of `rank`.
  void on_answer(unsigned rank, const std::string& text);
  /// `rank` has ended, in any way.
  void on_ended(unsigned rank);

 private:
  /// draining and confirming are two rounds of the step quiesce; emptying is the step checkpoint.
  enum class Stage : std::uint8_t { running, draining, confirming, emptying, quiescent };
  enum class Part : std::uint8_t { outside, joined, left };  // of a rank: before, between, after "join" and "leave"

  [[nodiscard]] bool changing() const noexcept { return stage_ != Stage::running && stage_ != Stage::quiescent; }
  [[nodiscard]] std::vector<std::uint32_t> ranks_that_are(Part part) const;
  void enter(Stage stage);
  void answered(unsigned rank);
  void end(const std::string& problem);
  void go_on();

  event::Loop& loop_;
  const std::function<void(const std::string&)> ask_;
  std::vector<Part> parts_;  // by rank
  Stage stage_ = Stage::running;
  std::uint64_t round_ = 0;
  std::string request_;         // the request sent last
  std::set<unsigned> awaited_;  // ranks that have not answered request_
  Answer answer_;
  event::Timer timeout_;
};

}  // namespace runtime::launch
