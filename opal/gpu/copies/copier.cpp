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

/// A stream and the copies in it, oldest first, in a ring.
struct Copier::Stream {
  struct Copy {
    CUevent event = nullptr;  // of this place of the ring, for all its copies; null: not made yet
    Done done{};
  };

  CUstream handle = nullptr;  // null: not used yet
  std::vector<Copy> ring{};
  std::size_t first = 0;
  std::size_t count = 0;
};

struct Copier::Context {
  ContextHandle handle;
  std::uint64_t id;             ///< context_id()
  std::vector<Stream> streams;  // by queue
  bool dead = false;            ///< the program has destroyed it, and with it its streams and events

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
      for (const Stream::Copy& place : stream.ring) {
        if (place.event != nullptr) driver().event_destroy(place.event);
      }
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
  contexts_.push_back(
      std::make_unique<Context>(Context{.handle = handle, .id = id, .streams = std::vector<Stream>(most_streams_)}));
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

Result<void> Copier::copy(ContextHandle handle, std::uint64_t queue, void* to, const void* from, std::size_t size,
                          Done done) noexcept {
  if (ending_) return Error{Errc::canceled, 0, "gpu::Copier(at its end)"};
  OPAL_TRY_ASSIGN(const CurrentContext current, CurrentContext::enter(handle));
  OPAL_TRY_ASSIGN(Context * context, context_of(handle));
  OPAL_TRY_ASSIGN(Stream * stream, stream_of(*context, queue));
  if (stream->count == stream->ring.size()) {
    return Error{Errc::busy, 0, "gpu::Copier(as many copies as its stream may have are in flight)", stream->count};
  }
  Stream::Copy& place = stream->ring[(stream->first + stream->count) % stream->ring.size()];
  if (place.event == nullptr) {
    OPAL_TRY(check(driver().event_create(&place.event, CU_EVENT_DISABLE_TIMING), "cuEventCreate"));
  }
  OPAL_TRY(check(driver().copy_async(device_pointer(to), device_pointer(from), size, stream->handle), "cuMemcpyAsync"));
  if (const auto recorded = check(driver().event_record(place.event, stream->handle), "cuEventRecord"); !recorded) {
    // The copy is in flight and nothing would tell of its end: wait for it, so that the buffers are the caller's again.
    (void)wait_for(stream->handle);
    return recorded.error();
  }
  place.done = done;
  ++stream->count;
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
    Stream::Copy& oldest = stream.ring[stream.first];
    const CUresult result = context.dead ? CUDA_ERROR_CONTEXT_IS_DESTROYED : driver().event_query(oldest.event);
    if (result == CUDA_ERROR_NOT_READY) break;
    if (result != CUDA_SUCCESS && !context.dead) driver().event_destroy(std::exchange(oldest.event, nullptr));
    const Done done = oldest.done;  // the callback may start a copy in this place
    // An empty ring begins again at its first place, so that few events are made.
    stream.first = --stream.count == 0 ? 0 : (stream.first + 1) % stream.ring.size();
    --pending_;
    ++reported;
    done.call(done.user, check(result, "cuEventQuery(asynchronous copy)"));
  }
  return reported;
}

/// Drops contexts that the program destroyed, which has destroyed their streams and events.
void Copier::drop_dead_contexts() noexcept {
  std::erase_if(contexts_, [](const auto& context) { return context->dead && context->empty(); });
}

}  // namespace opal::gpu
