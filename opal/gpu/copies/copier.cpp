// SPDX-License-Identifier: Apache-2.0
#include "opal/gpu/copies/copier.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "opal/core/log.hpp"
#include "opal/gpu/context.hpp"
#include "opal/gpu/driver.hpp"

namespace opal::gpu {

namespace detail {
void report_hang() noexcept {
  log::once(log::Level::error, "gpu copies hang", "gpu",
            "copies of GPU memory have not ended within {} s: still waiting", kCopyHangs.count());
}
}  // namespace detail

/// A stream and the copies in it, oldest first, in a ring that holds as many as there may be events.
struct Copier::Stream {
  struct Copy {
    CUevent event;
    Done done;
  };

  [[nodiscard]] const Copy& oldest() const noexcept { return ring[first]; }
  void push(const Copy& copy) noexcept { ring[(first + count++) % ring.size()] = copy; }
  Copy pop() noexcept {
    const Copy copy = ring[first];
    first = (first + 1) % ring.size();
    --count;
    return copy;
  }

  CUstream handle = nullptr;  // null: not used yet
  std::vector<Copy> ring{};
  std::size_t first = 0;
  std::size_t count = 0;
};

struct Copier::Context {
  ContextHandle handle;
  std::uint64_t id;             ///< context_id()
  std::vector<Stream> streams;  // by queue
  std::vector<CUevent> idle{};
  bool dead = false;  ///< the program has destroyed it, and with it its streams and events

  [[nodiscard]] bool alive() noexcept {
    dead = dead || !context_alive(id);
    return !dead;
  }
  [[nodiscard]] bool empty() const noexcept {
    return std::ranges::all_of(streams, [](const Stream& stream) { return stream.count == 0; });
  }
};

Copier::Copier(const Config& config) noexcept : most_streams_(config.copy_streams), most_events_(config.copy_events) {}

Copier::~Copier() {
  ending_ = true;  // copy() fails from here on
  progress_until([this] { return pending_ == 0; });
  for (const auto& context : contexts_) {
    if (!context->alive()) continue;
    const auto current = CurrentContext::enter(context->handle);
    if (!current) continue;
    for (const Stream& stream : context->streams) {
      if (stream.handle != nullptr) driver().stream_destroy(stream.handle);
    }
    for (const CUevent event : context->idle) driver().event_destroy(event);
  }
}

Result<Copier::Context*> Copier::context_of(ContextHandle handle) noexcept try {
  OPAL_TRY_ASSIGN(const std::uint64_t id, context_id(handle));
  for (const auto& context : contexts_) {
    if (context->handle != handle || context->dead) continue;
    if (context->id == id) return context.get();
    context->dead = true;
  }
  contexts_.push_back(
      std::make_unique<Context>(Context{.handle = handle, .id = id, .streams = std::vector<Stream>(most_streams_)}));
  contexts_.back()->idle.reserve(most_events_);
  return contexts_.back().get();
} catch (const std::bad_alloc&) {
  return Error{Errc::no_memory, 0, "gpu::Copier(streams of a context)"};
}

Result<Copier::Stream*> Copier::stream_of(Context& context, std::uint64_t queue) noexcept try {
  Stream& stream = context.streams[queue % most_streams_];
  stream.ring.resize(most_events_);
  if (stream.handle == nullptr) {
    OPAL_TRY(check(driver().stream_create(&stream.handle, CU_STREAM_NON_BLOCKING), "cuStreamCreate"));
  }
  return &stream;
} catch (const std::bad_alloc&) {
  return Error{Errc::no_memory, 0, "gpu::Copier(a stream)"};
}

/// Ensures that context.idle has an event.  At the limit it destroys an idle event of another context first.
Result<void> Copier::ensure_idle_event(Context& context) noexcept {
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
  OPAL_TRY(ensure_idle_event(*context));
  OPAL_TRY(check(driver().copy_async(device_pointer(to), device_pointer(from), size, stream->handle), "cuMemcpyAsync"));
  const CUevent event = context->idle.back();
  if (const auto recorded = check(driver().event_record(event, stream->handle), "cuEventRecord"); !recorded) {
    // The copy is in flight and nothing would tell of its end: wait for it, so that the buffers are the caller's again.
    (void)wait_for(stream->handle);
    return recorded.error();
  }
  context->idle.pop_back();
  stream->push({event, done});
  ++pending_;
  return {};
}

std::size_t Copier::progress() noexcept {
  if (pending_ == 0) return 0;
  const bool outermost = !std::exchange(reporting_, true);
  std::size_t reported = 0;
  for (const auto& context : contexts_) (void)(context->empty() || context->alive());
  for (std::size_t i = 0; i < contexts_.size(); ++i) {  // by index: a callback may start copies, which may add contexts
    Context& context = *contexts_[i];
    for (Stream& stream : context.streams) reported += report_done(context, stream);
  }
  if (outermost) {
    reporting_ = false;
    drop_dead_contexts();
  }
  return reported;
}

std::size_t Copier::report_done(Context& context, Stream& stream) noexcept {
  std::size_t reported = 0;
  // No more than were there: one that starts the next one must not keep the others waiting.
  for (std::size_t most = stream.count; most > 0 && stream.count > 0; --most) {
    const CUresult result =
        context.dead ? CUDA_ERROR_CONTEXT_IS_DESTROYED : driver().event_query(stream.oldest().event);
    if (result == CUDA_ERROR_NOT_READY) break;
    const Stream::Copy copy = stream.pop();
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
  return reported;
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
