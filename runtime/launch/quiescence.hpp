// SPDX-License-Identifier: Apache-2.0
// runtime/launch/quiescence.hpp — takes all ranks of the job through the steps of a checkpoint, each when all ranks
// have answered the last (docs/design/checkpoint.md).  Threads: the loop's thread.
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
  /// Empty: done; else why not.
  using Answer = std::function<void(const std::string& problem)>;

  /// `ask` sends a request (checkpoint_words.hpp) to all ranks.
  Quiescence(event::Loop& loop, unsigned ranks, std::function<void(const std::string& request)> ask);

  /// Answers when all ranks are quiescent, or that they go on, and why: a rank is outside of MPI, has failed, or has
  /// not answered within `timeout` (zero: there is none).
  void quiesce(std::chrono::milliseconds timeout, Answer answer);
  /// The caller of quiesce() does not wait any more: the ranks go on, no answer follows.
  void give_up();
  /// The ranks go on.  Empty, or that they do already.
  std::string resume();

  /// What a rank has said.
  void on_answer(unsigned rank, const std::string& text);
  void on_ended(unsigned rank);

 private:
  enum class Stage : std::uint8_t { running, draining, confirming, emptying, quiescent };
  enum class Part : std::uint8_t { outside, joined, left };

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
  std::string request_;         // that ranks are to answer
  std::set<unsigned> awaited_;  // that have not
  Answer answer_;
  event::Timer timeout_;
};

}  // namespace runtime::launch
