// SPDX-License-Identifier: Apache-2.0
#include "tests/model/explorer.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace opal::test::model {
namespace {

constexpr std::size_t kStack = std::size_t{256} << 10;
Explorer* the_explorer = nullptr;

constexpr std::uint64_t mix(std::uint64_t a, std::uint64_t b) noexcept {
  std::uint64_t x = a * 0x9e3779b97f4a7c15U ^ (b + 0x7f4a7c15U + (a >> 29));
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

bool acquires(std::memory_order order) noexcept {
  return order == std::memory_order_acquire || order == std::memory_order_acq_rel || order == std::memory_order_seq_cst;
}
bool releases(std::memory_order order) noexcept {
  return order == std::memory_order_release || order == std::memory_order_acq_rel || order == std::memory_order_seq_cst;
}

}  // namespace

void View::join(const View& other) noexcept {
  for (std::size_t i = 0; i < kLocations; ++i) seen[i] = std::max(seen[i], other.seen[i]);
  for (std::size_t i = 0; i < kThreads; ++i) clock[i] = std::max(clock[i], other.clock[i]);
}

std::uint64_t View::hash() const noexcept {
  std::uint64_t result = 1;
  for (const std::uint8_t index : seen) result = result * 0x100000001b3U + index;
  for (const std::uint16_t time : clock) result = mix(result, time);
  return result;
}

Explorer& Explorer::current() noexcept { return *the_explorer; }

Explorer::Outcome Explorer::explore(const std::function<std::unique_ptr<Program>()>& make) { return explore(make, {}); }

Explorer::Outcome Explorer::explore(const std::function<std::unique_ptr<Program>()>& make, const Options& options) {
  Explorer explorer{options};
  the_explorer = &explorer;
  do {
    explorer.run(make);
    if (++explorer.outcome_.runs == options.most_runs) break;
  } while (explorer.outcome_.failure.empty() && explorer.next_path());
  explorer.outcome_.exhausted = explorer.path_.empty();
  if (!explorer.outcome_.failure.empty()) {
    explorer.tracing_ = true;
    explorer.run(make);
    explorer.outcome_.failure += explorer.trace_;
  }
  explorer.outcome_.states = explorer.seen_.size();
  the_explorer = nullptr;
  return explorer.outcome_;
}

bool Explorer::next_path() {
  while (!path_.empty() && path_.back().taken + 1 == path_.back().count) path_.pop_back();
  if (path_.empty()) return false;
  ++path_.back().taken;
  return true;
}

void Explorer::run(const std::function<std::unique_ptr<Program>()>& make) {
  depth_ = 0;
  stopped_ = false;
  killed_ = false;
  locations_.clear();
  threads_.resize(1);
  threads_[0] = Thread{};
  running_ = 0;
  setting_up_ = true;
  const std::unique_ptr<Program> program = make();
  setting_up_ = false;
  for (std::size_t i = 1; i < threads_.size(); ++i) {
    threads_[i].view = threads_[0].view;
    threads_[i].over = false;
    getcontext(&threads_[i].context);
    threads_[i].context.uc_stack.ss_sp = threads_[i].stack.get();
    threads_[i].context.uc_stack.ss_size = kStack;
    threads_[i].context.uc_link = nullptr;
    makecontext(&threads_[i].context, &Explorer::enter, 0);
  }
  schedule();  // comes back when all have ended, or this run is stopped
  if (stopped_) return;
  for (const Thread& thread : threads_) threads_[0].view.join(thread.view);  // joined, or their end seen by the kernel
  setting_up_ = true;                                                        // no other thread runs: nothing to choose
  program->finish();
}

void Explorer::enter() noexcept {
  Explorer& self = current();
  Thread& thread = self.threads_[self.running_];
  self.remember(1);  // that it has begun: a new state
  thread.body();
  thread.over = true;
  self.schedule();
  std::abort();  // never reached
}

std::uint32_t Explorer::pick(std::uint32_t count) {
  if (count == 1) return 0;
  if (depth_ == path_.size()) path_.push_back({0, count});
  return path_[depth_++].taken;
}

std::uint32_t Explorer::choose(std::uint32_t count) {
  const std::uint32_t taken = pick(count);
  remember(taken);
  return taken;
}

/// Gives the turn to a thread of choice; returns when it is this thread's turn again.
void Explorer::schedule() {
  if (depth_ == path_.size() && !tracing_ && !seen_.insert(state()).second) stop_run();
  std::array<std::uint32_t, 2 * kThreads> options{};
  std::uint32_t count = 0;
  for (std::uint32_t i = 1; i < threads_.size(); ++i) {
    if (!threads_[i].over) options[count++] = i;
  }
  const std::uint32_t alive = count;
  for (std::uint32_t i = 0; i < alive && !killed_; ++i) {
    if (threads_[options[i]].mortal) options[count++] = options[i];
  }
  if (alive == 0) return go_on(0);
  const std::uint32_t which = pick(count);
  if (which < alive) return go_on(options[which]);
  killed_ = true;
  trace("dies: thread", 0, options[which]);
  threads_[options[which]].over = true;
  const bool self = options[which] == running_;
  schedule();
  if (self) std::abort();  // a dead thread never runs again
}

void Explorer::go_on(std::uint32_t thread) {
  const std::uint32_t from = running_;
  if (thread == from) return;
  running_ = thread;
  swapcontext(&threads_[from].context, &threads_[thread].context);
}

void Explorer::stop_run() {
  stopped_ = true;
  if (running_ == 0) return;
  const std::uint32_t from = running_;
  running_ = 0;
  swapcontext(&threads_[from].context, &threads_[0].context);
}

void Explorer::add_thread(std::function<void()> body, bool mortal) {
  if (threads_.size() == kThreads) std::abort();
  Thread& thread = threads_.emplace_back();
  thread.stack = std::make_unique<std::byte[]>(kStack);
  thread.body = std::move(body);
  thread.mortal = mortal;
}

void Explorer::check(bool holds, const char* what) {
  if (holds) return;
  if (tracing_) return stop_run();
  outcome_.failure = what;
  stop_run();
}

void Explorer::fence_everybody() {
  if (!setting_up_) schedule();
  remember(3);
  trace("fence", 0, 0);
  if (options_.no_fences) return;
  View all;
  for (const Thread& thread : threads_) all.join(thread.view);
  for (Thread& thread : threads_) {
    // Others learn which writes they cannot miss any more; that orders none of their plain accesses.
    for (std::size_t i = 0; i < kLocations; ++i) thread.view.seen[i] = std::max(thread.view.seen[i], all.seen[i]);
    thread.history = mix(thread.history, thread.view.hash());
  }
}

std::uint64_t Explorer::state() const noexcept {
  std::uint64_t result = killed_ ? 7 : 3;
  for (std::size_t i = 0; i < threads_.size(); ++i) {
    result = mix(result, threads_[i].history + (threads_[i].over ? 1 : 0));
  }
  for (const Location& location : locations_) result = mix(result, location.hash);
  return result;
}

void Explorer::remember(std::uint64_t what) noexcept {
  threads_[running_].history = mix(threads_[running_].history, what);
}

void Explorer::trace(const char* what, std::uint32_t location, std::uint64_t value) {
  if (!tracing_) return;
  trace_ += "\n  thread " + std::to_string(running_) + " " + what + " @" + std::to_string(location) + " " +
            std::to_string(value);
}

std::uint32_t Explorer::new_location(std::uint64_t value) {
  if (locations_.size() == kLocations) std::abort();
  Location& location = locations_.emplace_back();
  location.writes.push_back({value, threads_[running_].view, true});
  location.hash = mix(locations_.size(), value);
  return static_cast<std::uint32_t>(locations_.size() - 1);
}

/// Before every access: the turn of another thread, for plain ones too where they can be seen (never: races are
/// errors), and the check for races.
void Explorer::begin(std::uint32_t location, bool plain_write) {
  Thread& thread = threads_[running_];
  Location& place = locations_[location];
  ++thread.view.clock[running_];
  if (place.plain_written_at != 0 && thread.view.clock[place.plain_writer] < place.plain_written_at) {
    check(false, "a race: an access that does not come after a plain write");
  }
  if (plain_write) {
    for (std::size_t i = 0; i < threads_.size(); ++i) {
      if (i != running_ && thread.view.clock[i] < place.accessed[i]) {
        check(false, "a race: a plain write over an access that does not come before it");
      }
    }
  }
  place.accessed[running_] = thread.view.clock[running_];
}

std::uint64_t Explorer::read(std::uint32_t location, std::size_t which, std::memory_order order) {
  Thread& thread = threads_[running_];
  const Written& written = locations_[location].writes[which];
  thread.view.seen[location] = static_cast<std::uint8_t>(which);
  if (acquires(order) && written.releases) thread.view.join(written.knowledge);
  remember(mix(location, which * 4 + 1));
  trace(which + 1 == locations_[location].writes.size() ? "reads" : "reads old", location, written.value);
  return written.value;
}

void Explorer::append(std::uint32_t location, std::uint64_t value, std::memory_order order, bool continues_release) {
  Thread& thread = threads_[running_];
  Location& place = locations_[location];
  const bool release = releases(order) && !options_.weak_releases;
  const Written before = place.writes.back();
  thread.view.seen[location] = static_cast<std::uint8_t>(place.writes.size());
  Written written{value, {}, release};
  if (release) written.knowledge = thread.view;
  if (continues_release && before.releases) {  // a read-modify-write continues the release of what it replaces
    written.knowledge.join(before.knowledge);
    written.releases = true;
  }
  place.writes.push_back(written);
  if (place.writes.size() > 250) std::abort();
  place.hash = mix(place.hash, mix(value, written.releases ? written.knowledge.hash() : running_));
  remember(mix(location, value * 4 + 2));
  trace("writes", location, value);
}

std::uint64_t Explorer::load(std::uint32_t location, std::memory_order order) {
  if (!setting_up_) schedule();
  begin(location, false);
  const std::size_t oldest = threads_[running_].view.seen[location];
  const std::size_t count = locations_[location].writes.size() - oldest;
  const std::size_t back = setting_up_ ? 0 : pick(static_cast<std::uint32_t>(count));  // the newest first
  return read(location, oldest + count - 1 - back, order);
}

void Explorer::store(std::uint32_t location, std::uint64_t value, std::memory_order order) {
  if (!setting_up_) schedule();
  begin(location, false);
  append(location, value, order, false);
}

bool Explorer::compare_exchange(std::uint32_t location, std::uint64_t& expected, std::uint64_t desired,
                                std::memory_order success, std::memory_order failure) {
  if (!setting_up_) schedule();
  begin(location, false);
  const std::vector<Written>& writes = locations_[location].writes;
  if (writes.back().value == expected) {
    (void)read(location, writes.size() - 1, success);
    append(location, desired, success, true);
    return true;
  }
  expected = read(location, writes.size() - 1, failure);
  return false;
}

std::uint64_t Explorer::modify(std::uint32_t location, std::uint64_t value, std::memory_order order) {
  const std::uint64_t old = read(location, locations_[location].writes.size() - 1, order);
  append(location, value, order, true);
  return old;
}

std::uint64_t Explorer::fetch_or(std::uint32_t location, std::uint64_t bits, std::memory_order order) {
  if (!setting_up_) schedule();
  begin(location, false);
  return modify(location, locations_[location].writes.back().value | bits, order);
}

std::uint64_t Explorer::exchange(std::uint32_t location, std::uint64_t value, std::memory_order order) {
  if (!setting_up_) schedule();
  begin(location, false);
  return modify(location, value, order);
}

std::uint64_t Explorer::plain_read(std::uint32_t location) {
  begin(location, false);
  return locations_[location].writes.back().value;
}

void Explorer::plain_write(std::uint32_t location, std::uint64_t value) {
  begin(location, true);
  Location& place = locations_[location];
  place.plain_written_at = threads_[running_].view.clock[running_];
  place.plain_writer = static_cast<std::uint8_t>(running_);
  append(location, value, std::memory_order_relaxed, false);
}

}  // namespace opal::test::model
