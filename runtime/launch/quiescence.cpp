// SPDX-License-Identifier: Apache-2.0
#include "runtime/launch/quiescence.hpp"

#include <fmt/format.h>

#include <utility>

#include "runtime/checkpoint_words.hpp"
#include "runtime/host/messages.hpp"

namespace runtime::launch {

Quiescence::Quiescence(event::Loop& loop, unsigned ranks, std::function<void(const std::string&)> ask)
    : loop_(loop), ask_(std::move(ask)), parts_(ranks, Part::outside) {}

std::vector<std::uint32_t> Quiescence::ranks_that_are(Part part) const {
  std::vector<std::uint32_t> ranks;
  for (std::uint32_t rank = 0; rank < parts_.size(); ++rank) {
    if (parts_[rank] == part) ranks.push_back(rank);
  }
  return ranks;
}

void Quiescence::quiesce(std::chrono::milliseconds timeout, Answer answer) {
  if (changing()) return answer("the job is being quiesced for another command");
  if (stage_ == Stage::quiescent) return answer("the job is quiesced already");
  const auto outside = ranks_that_are(Part::outside);
  if (!outside.empty()) {
    return answer(
        fmt::format("{} cannot be quiesced: only between MPI_Init and MPI_Finalize", list_numbers("rank", outside)));
  }
  if (ranks_that_are(Part::joined).empty()) return answer("no rank of the job is between MPI_Init and MPI_Finalize");
  ++round_;
  answer_ = std::move(answer);
  if (timeout.count() != 0) {
    timeout_ = loop_.after(timeout, [this, timeout] {
      const std::vector<std::uint32_t> silent{awaited_.begin(), awaited_.end()};
      end(fmt::format(
          "no answer of {} within {:g} s: outside of MPI calls that make progress, or stopped; the job goes on",
          list_numbers("rank", silent), static_cast<double>(timeout.count()) / 1000));
    });
  }
  enter(Stage::draining);
}

void Quiescence::enter(Stage stage) {
  stage_ = stage;
  if (stage_ == Stage::quiescent) return end({});
  const auto ranks = ranks_that_are(Part::joined);
  awaited_ = {ranks.begin(), ranks.end()};
  if (awaited_.empty()) return end("all ranks have left MPI");
  request_ = fmt::format("{} {}", kCheckpointSteps[stage_ == Stage::emptying ? 1 : 0], round_);
  ask_(request_);
}

void Quiescence::answered(unsigned rank) {
  if (awaited_.erase(rank) != 0 && awaited_.empty()) enter(static_cast<Stage>(static_cast<int>(stage_) + 1));
}

void Quiescence::end(const std::string& problem) {
  timeout_ = {};
  if (!problem.empty()) go_on();
  if (const Answer answer = std::exchange(answer_, {})) answer(problem);
}

void Quiescence::go_on() {
  stage_ = Stage::running;
  awaited_.clear();
  ask_(fmt::format("{} {}", kCheckpointSteps[2], round_));
}

void Quiescence::give_up() {
  answer_ = {};
  if (changing()) end("given up");
}

std::string Quiescence::resume() {
  if (stage_ == Stage::running) return "the job is not quiesced";
  end("another command has resumed the job");  // for a quiesce() that is in flight
  return {};
}

void Quiescence::on_answer(unsigned rank, const std::string& text) {
  if (rank >= parts_.size()) return;
  if (text == kJoinsCheckpoints) {
    parts_[rank] = Part::joined;
  } else if (text == kLeavesCheckpoints) {
    parts_[rank] = Part::left;
    answered(rank);
  } else if (text == request_) {
    answered(rank);
  } else if (awaited_.contains(rank) && text.starts_with(request_ + ' ')) {
    end(fmt::format("rank {}: {}; the job goes on", rank, text.substr(request_.size() + 1)));
  }
}

void Quiescence::on_ended(unsigned rank) {
  const Part part = std::exchange(parts_.at(rank), Part::left);
  if (part == Part::joined && changing()) end(fmt::format("rank {} has ended", rank));
}

}  // namespace runtime::launch
