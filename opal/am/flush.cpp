// SPDX-License-Identifier: Apache-2.0
// Flushes of a Context and of an endpoint: each consists of one flush per module that may hold operations, and one
// of the staged transfers.
#include <memory>

#include "opal/am/context.hpp"
#include "opal/am/state.hpp"

namespace opal::am {
namespace {

/// Joins several flushes, of which it is the completion: the caller's completion runs when the last of them has ended.
/// Then the object deletes itself.  A completed put is visible at its target, so the order of the parts does not
/// matter.
class JoinedFlush : public Completion {
 public:
  explicit JoinedFlush(Completion& whole) noexcept : whole_(whole) {
    fn = [](Completion& self) noexcept { static_cast<JoinedFlush&>(self).end_part(); };
  }

  /// Starts one part: calls flush(completion).
  template <class Flush>
  void add(Flush flush) noexcept {
    ++open_;
    const Post post = flush(*this);
    if (post == Post::queued) return;
    --open_;
    if (post == Post::failed) why_ = error;  // a flush never returns again
  }

  /// Called after the last add(); returns the result of the joined flush.
  static Post start(std::unique_ptr<JoinedFlush> join) noexcept {
    if (--join->open_ != 0) return (void)join.release(), Post::queued;
    if (join->why_.code == Errc{}) return Post::done;
    join->whole_.error = join->why_;
    return Post::failed;
  }

 private:
  void end_part() noexcept {
    if (!ok()) why_ = error;
    if (--open_ != 0) return;
    const std::unique_ptr<JoinedFlush> end{this};
    whole_.finish(why_);
  }

  Completion& whole_;
  std::size_t open_ = 1;  // parts that have not ended, plus 1 until start()
  Error why_{};           // of a part that failed
};

}  // namespace

Post Context::flush(Completion& completion) noexcept {
  const Lock::Guard guard{state_->lock};
  if (state_->inherited) return completion.error = kInherited, Post::failed;
  if (state_->queueing.empty()) [[likely]]
    return state_->flush_transports(completion);
  completion.error = {};
  state_->flushes.push_back({state_->queued_operations, &completion});
  return Post::queued;
}

Post Context::State::flush_transports(Completion& completion) noexcept {
  auto join = std::make_unique<JoinedFlush>(completion);
  for (const auto& module : transports.modules) {
    join->add([&](Completion& part) noexcept { return module->flush(nullptr, part); });
  }
  if (staged != nullptr) {
    join->add([&](Completion& part) noexcept { return staged->flush(nullptr, part); });
  }
  return JoinedFlush::start(std::move(join));
}

Post Endpoint::flush_staged(Completion& completion) noexcept {
  StagedTransfers& staged = *context_.state_->staged;
  btl::Module& module = route_->module();
  if (staged.idle()) return module.flush(route_, completion);
  auto join = std::make_unique<JoinedFlush>(completion);
  join->add([&](Completion& part) noexcept { return module.flush(route_, part); });
  join->add([&](Completion& part) noexcept { return staged.flush(route_, part); });
  return JoinedFlush::start(std::move(join));
}

}  // namespace opal::am
