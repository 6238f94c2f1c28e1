// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/coll/schedule.hpp"

#include <algorithm>
#include <span>

#include "mpi_shim/base/library_thread.hpp"
#include "mpi_shim/coll/on_host.hpp"

namespace mpi_shim::coll {

Schedule& Scheduler::begin(comm::Communicator& comm) {
  const am::Lock::Guard guard{engine_.lock()};
  return begin(comm, comm.own_side(), comm.next_collective_tag());
}

Schedule& Scheduler::begin(comm::Communicator& comm, const Team& team, int tag) {
  const am::Lock::Guard guard{engine_.lock()};
  Schedule& schedule = pool_.take(*this);
  schedule.comm_ = &comm;
  schedule.team_ = team;
  schedule.message_tag_ = tag;
  ++comm.collective().users;
  return schedule;
}

Schedule::Schedule(Scheduler& scheduler) noexcept
    : Request(kActions, &scheduler.engine_),
      Stalled{[](Stalled& self) noexcept { return static_cast<Schedule&>(self).end_deferred_round(); }},
      scheduler_(scheduler) {}

const Request::Actions Schedule::kActions{act<&Schedule::begin_rounds>, act<&Schedule::put_away>};

void Schedule::send(const Buffer& buffer, int to) {
  steps_.push_back({Step::Kind::send, team_.in_channel(to), buffer, {}, nullptr, nullptr});
}

void Schedule::receive(const Buffer& buffer, int from) {
  steps_.push_back({Step::Kind::receive, team_.in_channel(from), buffer, {}, nullptr, nullptr});
}

void Schedule::copy(const Buffer& from, const Buffer& to) {
  steps_.push_back({Step::Kind::copy, 0, from, to, nullptr, nullptr});
}

void Schedule::reduce(const void* in, const Buffer& inout, const op::Op& op) {
  steps_.push_back({Step::Kind::reduce, 0, inout, {}, in, &op});
}

void Schedule::end_round() { steps_.push_back({Step::Kind::end_round, 0, {}, {}, nullptr, nullptr}); }

std::byte* Schedule::scratch(std::size_t bytes) {
  memory_.push_back(std::make_unique_for_overwrite<std::byte[]>(bytes));
  return memory_.back().get();
}

Buffer Schedule::scratch_like(const Buffer& like) {
  const Buffer::Span span = like.padded_span();
  return like.at(scratch(span.size) - span.offset);
}

void Schedule::keep() {
  for (const Step& step : steps_) {
    if (step.op != nullptr) op_ = handle::Ref<op::Op>::share(const_cast<op::Op&>(*step.op));  // counts a reference
    for (const Buffer* buffer : {&step.buffer, &step.other}) {
      if (buffer->has_derived_type()) types_.push_back(buffer->share_type());
    }
  }
}

void Schedule::begin_rounds() noexcept {
  const am::Lock::Guard guard{scheduler_.engine_.lock()};
  begin();
  position_ = 0;
  run();
}

void Schedule::run() noexcept {
  running_ = true;
  while (position_ < steps_.size()) {
    pending_ = 1;  // keeps the round open while messages complete inside start_round()
    start_round();
    if (--pending_ != 0 || defer_round()) {
      running_ = false;
      return;  // one_done() continues with the last message, or end_deferred_round()
    }
    finish_round();
  }
  running_ = false;
  finish();
}

void Schedule::start_round() noexcept {
  p2p::Engine& engine = scheduler_.engine_;
  p2p::Channel& channel = comm_->collective();
  const auto end = std::find_if(steps_.begin() + static_cast<std::ptrdiff_t>(position_), steps_.end(),
                                [](const Step& step) { return step.kind == Step::Kind::end_round; });
  const std::span<const Step> round{steps_.begin() + static_cast<std::ptrdiff_t>(position_), end};
  // Receives first, so that messages which arrive meanwhile are not unexpected.
  for (const Step& step : round) {
    if (step.kind == Step::Kind::receive) watch(engine.new_receive(channel, step.buffer, step.rank, message_tag_));
  }
  for (const Step& step : round) {
    if (step.kind != Step::Kind::send || engine.send_at_once(channel, step.buffer, step.rank, message_tag_)) continue;
    watch(engine.new_send(channel, step.buffer, step.rank, message_tag_, p2p::Mode::standard));
  }
}

void Schedule::finish_round() noexcept {
  if (outcome_.error != MPI_SUCCESS) [[unlikely]]
    return leave_rounds();
  for (; position_ < steps_.size(); ++position_) {
    const Step& step = steps_[position_];
    if (step.kind == Step::Kind::end_round) {
      ++position_;
      return;
    }
    if (step.kind == Step::Kind::copy) p2p::copy(step.buffer, step.other);
    if (step.kind == Step::Kind::reduce) {
      const OnHost in{step.buffer.at(step.in), OnHost::Use::read};
      const OnHost inout{step.buffer, OnHost::Use::update};
      step.op->apply(in.buffer().base(), inout.buffer().base(), static_cast<std::int64_t>(step.buffer.count()),
                     step.buffer.type());
    }
  }
}

bool Schedule::defer_round() noexcept {
  if (!is_library_thread) [[likely]]
    return false;
  std::size_t step = position_;
  const auto is_users = [](const Step& one) { return one.op != nullptr && one.op->is_user_defined(); };
  while (step < steps_.size() && steps_[step].kind != Step::Kind::end_round && !is_users(steps_[step])) ++step;
  if (step == steps_.size() || !is_users(steps_[step])) return false;
  scheduler_.engine_.wait_for_transport(*this);
  scheduler_.engine_.context().wake_sleepers();  // the application may sleep until this schedule is done
  return true;
}

bool Schedule::end_deferred_round() noexcept {
  if (is_library_thread) return false;
  finish_round();
  run();
  return true;
}

void Schedule::watch(Request& request) noexcept {
  ++pending_;
  request.set_watcher({[](void* self, Request& done) noexcept { static_cast<Schedule*>(self)->one_done(done); }, this});
  request.start();
}

void Schedule::one_done(Request& request) noexcept {
  if (outcome_.error == MPI_SUCCESS) outcome_.error = request.outcome().error;
  request.put_back();
  if (--pending_ != 0 || running_ || defer_round()) return;
  finish_round();
  run();
}

void Schedule::leave_rounds() noexcept {
  p2p::Engine& engine = scheduler_.engine_;
  const auto mode = outcome_.error == MPI_ERR_PROC_ABORTED ? p2p::Mode::aborted : p2p::Mode::failed;
  while (position_ < steps_.size() && steps_[position_].kind != Step::Kind::end_round) ++position_;  // skip this round
  const auto start = [](Request& request) {
    request.set_watcher({[](void* /*object*/, Request& done) noexcept { done.put_back(); }, nullptr});
    request.start();
  };
  for (; position_ < steps_.size(); ++position_) {
    const Step& step = steps_[position_];
    if (step.kind == Step::Kind::receive) start(engine.new_receive(comm_->collective(), {}, step.rank, message_tag_));
    if (step.kind == Step::Kind::send) start(engine.new_send(comm_->collective(), {}, step.rank, message_tag_, mode));
  }
}

void Schedule::put_away() noexcept {
  const am::Lock::Guard guard{scheduler_.engine_.lock()};
  reset();
  --comm_->collective().users;
  steps_.clear();
  memory_.clear();
  types_.clear();
  op_ = {};
  scheduler_.pool_.give_back(*this);
}

}  // namespace mpi_shim::coll
