// SPDX-License-Identifier: Apache-2.0
#include "opal/gpu/copies/copier.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "opal/core/clock.hpp"
#include "opal/core/log.hpp"
#include "opal/gpu/context.hpp"
#include "opal/gpu/driver.hpp"

namespace opal::gpu {

/// A stream and the copies in it, oldest first, in a ring that holds as many as there may be events.
struct Copier::Stream {
  struct Copy {
    CUevent event;
    std::uint64_t queue;
    Done done;  // none: it was given up
  };

  Stream(CUstream handle, std::size_t capacity) : handle(handle), ring(capacity) {}

  [[nodiscard]] Copy& oldest() noexcept { return ring[first]; }
  [[nodiscard]] Copy& at(std::size_t i) noexcept { return ring[(first + i) % ring.size()]; }
  [[nodiscard]] bool full() const noexcept { return count == ring.size(); }
  /// Whether a copy of a queue that `mine(queue)` names is in flight in it.
  template <class Mine>
  [[nodiscard]] bool holds(Mine mine) noexcept {
    for (std::size_t i = 0; i < count; ++i) {
      if (at(i).done.call != nullptr && mine(at(i).queue)) return true;
    }
    return false;
  }
  void push(const Copy& copy) noexcept { ring[(first + count++) % ring.size()] = copy; }
  Copy pop() noexcept {
    const Copy copy = ring[first];
    first = (first + 1) % ring.size();
    --count;
    return copy;
  }

  CUstream handle;
  std::vector<Copy> ring;
  std::size_t first = 0;
  std::size_t count = 0;
  bool hangs = false;  // a copy in it was given up
};

struct Copier::Context {
  ContextHandle handle;
  std::uint64_t id;   ///< context_id()
  bool dead = false;  ///< the program has destroyed it, and with it its streams and events

  std::vector<std::unique_ptr<Stream>> streams{};  // by queue; some may be missing
  std::vector<std::unique_ptr<Stream>> hanging{};  // that others have replaced
  std::vector<CUevent> idle{};

  [[nodiscard]] bool alive() noexcept {
    dead = dead || !context_alive(id);
    return !dead;
  }
  [[nodiscard]] bool empty() const noexcept {
    const auto is_empty = [](const auto& stream) { return stream == nullptr || stream->count == 0; };
    return std::all_of(streams.begin(), streams.end(), is_empty) &&
           std::all_of(hanging.begin(), hanging.end(), is_empty);
  }
};

Copier::Copier(const Config& config, std::chrono::milliseconds timeout) noexcept
    : most_streams_(config.copy_streams), most_events_(config.copy_events), timeout_(timeout) {}

Copier::~Copier() {
  ending_ = true;  // copy() fails from here on
  wait_for([this] { return pending_ != 0; });
  for_each_stream([this](Context&, Stream& stream) { give_up(stream, [](std::uint64_t) { return true; }); });
  for_each_stream([](Context& context, Stream& stream) {
    if (stream.count != 0 || stream.handle == nullptr) return;  // to destroy what hangs may hang as well
    if (!context.alive()) return;
    if (const auto current = CurrentContext::enter(context.handle)) driver().stream_destroy(stream.handle);
  });
  for (const auto& context : contexts_) {
    if (!context->alive()) continue;
    const auto current = CurrentContext::enter(context->handle);
    for (const CUevent event : context->idle) {
      if (current) driver().event_destroy(event);
    }
  }
}

Result<Copier::Context*> Copier::context_of(ContextHandle handle) noexcept try {
  OPAL_TRY_ASSIGN(const std::uint64_t id, context_id(handle));
  for (const auto& context : contexts_) {
    if (context->handle != handle || context->dead) continue;
    if (context->id == id) return context.get();
    context->dead = true;
  }
  contexts_.push_back(std::make_unique<Context>(Context{.handle = handle, .id = id}));
  contexts_.back()->streams.resize(most_streams_);
  contexts_.back()->idle.reserve(most_events_);
  return contexts_.back().get();
} catch (const std::bad_alloc&) {
  return Error{Errc::no_memory, 0, "gpu::Copier(streams of a context)"};
}

Result<Copier::Stream*> Copier::stream_of(Context& context, std::uint64_t queue) noexcept try {
  const auto same = [queue](std::uint64_t its) { return its == queue; };
  for (const auto& hung : context.hanging) {  // those of the queue stay one behind the other
    if (hung->holds(same)) return hung.get();
  }
  std::unique_ptr<Stream>& stream = context.streams[queue % most_streams_];
  if (stream != nullptr && stream->hangs && !stream->holds(same)) {
    context.hanging.push_back(nullptr);
    context.hanging.back() = std::exchange(stream, nullptr);
  }
  if (stream == nullptr) stream = std::make_unique<Stream>(nullptr, most_events_);
  if (stream->handle == nullptr) {
    OPAL_TRY(check(driver().stream_create(&stream->handle, CU_STREAM_NON_BLOCKING), "cuStreamCreate"));
  }
  return stream.get();
} catch (const std::bad_alloc&) {
  return Error{Errc::no_memory, 0, "gpu::Copier(a stream)"};
}

/// Puts an event into context.idle if none is there: a new one, in place of another context's idle one if need be.
Result<void> Copier::take_event(Context& context) noexcept {
  if (!context.idle.empty()) return {};
  if (events_ >= most_events_) {
    const auto other = std::find_if(contexts_.begin(), contexts_.end(), [](const auto& c) { return !c->idle.empty(); });
    if (other == contexts_.end())
      return Error{Errc::busy, 0, "gpu::Copier(as many copies as it may have events are in flight)", events_};
    if ((*other)->alive()) driver().event_destroy((*other)->idle.back());
    (*other)->idle.pop_back();
    --events_;
  }
  CUevent event = nullptr;
  OPAL_TRY(check(driver().event_create(&event, CU_EVENT_DISABLE_TIMING), "cuEventCreate"));
  ++events_;
  context.idle.push_back(event);
  return {};
}

Result<void> Copier::copy(ContextHandle handle, std::uint64_t queue, void* to, const void* from, std::size_t size,
                          Done done) noexcept {
  if (ending_) return Error{Errc::canceled, 0, "gpu::Copier(at its end)"};
  OPAL_TRY_ASSIGN(const CurrentContext current, CurrentContext::enter(handle));
  OPAL_TRY_ASSIGN(Context * context, context_of(handle));
  OPAL_TRY_ASSIGN(Stream * stream, stream_of(*context, queue));
  OPAL_TRY(take_event(*context));
  if (stream->full()) return Error{Errc::busy, 0, "gpu::Copier(behind copies that do not end)", stream->count};
  OPAL_TRY(check(driver().copy_async(device_pointer(to), device_pointer(from), size, stream->handle), "cuMemcpyAsync"));
  const CUevent event = context->idle.back();
  if (const auto recorded = check(driver().event_record(event, stream->handle), "cuEventRecord"); !recorded) {
    // The copy is in flight and nothing would tell of its end: wait for it, so that the buffers are the caller's again.
    const auto ended = gpu::wait_for(stream->handle, timeout_);
    return !ended && ended.error().code == Errc::timed_out ? ended.error() : recorded.error();
  }
  context->idle.pop_back();
  stream->push({event, queue, done});
  ++pending_;
  return {};
}

std::size_t Copier::progress() noexcept {
  if (pending_ == 0) return 0;
  const bool outermost = !std::exchange(reporting_, true);
  std::size_t reported = 0;
  for (const auto& context : contexts_) (void)(context->empty() || context->alive());
  for_each_stream([&](Context& context, Stream& stream) { reported += report_done(context, stream); });
  if (outermost) {
    reporting_ = false;
    drop_drained_streams();
    drop_dead_contexts();
  }
  return reported;
}

/// Iterates by index: a callback may start copies, which may add contexts and streams.
template <class Function>
void Copier::for_each_stream(Function function) noexcept {
  for (std::size_t i = 0; i < contexts_.size(); ++i) {
    Context& context = *contexts_[i];
    for (std::size_t j = 0; j < context.hanging.size(); ++j) function(context, *context.hanging[j]);
    for (const auto& stream : context.streams) {
      if (stream != nullptr) function(context, *stream);
    }
  }
}

std::size_t Copier::report_done(Context& context, Stream& stream) noexcept {
  std::size_t reported = 0;
  // No more than were there: one that starts the next one must not keep the others waiting.
  for (std::size_t most = stream.count; most > 0; --most) {
    const CUresult result =
        context.dead ? CUDA_ERROR_CONTEXT_IS_DESTROYED : driver().event_query(stream.oldest().event);
    if (result == CUDA_ERROR_NOT_READY) break;
    const Stream::Copy copy = stream.pop();
    if (copy.done.call == nullptr) {  // given up, and not counted any more
      if (!context.dead) driver().event_destroy(copy.event);
      continue;
    }
    --pending_;
    ++reported;
    if (result == CUDA_SUCCESS) {
      context.idle.push_back(copy.event);  // room was reserved for all there can be
    } else {
      if (!context.dead) driver().event_destroy(copy.event);
      --events_;
    }
    copy.done.call(copy.done.user, check(result, "cuEventQuery(asynchronous copy)"));
  }
  stream.hangs = stream.hangs && stream.count != 0;
  return reported;
}

template <class Pending>
void Copier::wait_for(Pending pending) noexcept {
  if (!pending()) return;
  const Deadline deadline = Deadline::after(timeout_);
  do {
    progress();
  } while (pending() && !deadline.expired());
}

/// The events of timed-out copies stay in the ring, since later copies of the stream end after them.
template <class Mine>
void Copier::give_up(Stream& stream, Mine mine) noexcept {
  std::size_t given_up = 0;
  for (std::size_t i = 0, there = stream.count; i < there; ++i) {  // what is called may start others
    Stream::Copy& copy = stream.at(i);
    if (copy.done.call == nullptr || !mine(copy.queue)) continue;
    const Done done = std::exchange(copy.done, {});
    stream.hangs = true;
    --pending_;
    --events_;
    ++given_up;
    done.call(done.user, Error{Errc::timed_out, 0, "gpu: the copy does not end"});
  }
  if (given_up == 0) return;
  log::error("gpu", "{} copies of GPU memory have not ended within {} s: given up, their buffers may still change",
             given_up, std::chrono::duration<double>(timeout_).count());
}

void Copier::finish(std::span<const std::uint64_t> queues) noexcept {
  const auto mine = [&](std::uint64_t queue) { return std::find(queues.begin(), queues.end(), queue) != queues.end(); };
  wait_for([&] {
    bool some = false;
    for_each_stream([&](Context&, Stream& stream) { some = some || stream.holds(mine); });
    return some;
  });
  for_each_stream([&](Context&, Stream& stream) { give_up(stream, mine); });
}

/// Destroys replaced streams whose copies have all ended, since the device works again.
void Copier::drop_drained_streams() noexcept {
  for (const auto& context : contexts_) {
    std::erase_if(context->hanging, [&](const auto& stream) {
      if (stream->count != 0) return false;
      if (!context->alive()) return true;
      if (const auto current = CurrentContext::enter(context->handle)) driver().stream_destroy(stream->handle);
      return true;
    });
  }
}

/// Drops contexts that the program destroyed, which has destroyed their streams and events.
void Copier::drop_dead_contexts() noexcept {
  std::erase_if(contexts_, [this](const auto& context) {
    if (!context->dead || !context->empty()) return false;
    events_ -= context->idle.size();
    return true;
  });
}

}  // namespace opal::gpu
