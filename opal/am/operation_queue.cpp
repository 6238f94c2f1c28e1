// SPDX-License-Identifier: Apache-2.0
// The one-sided posts of an Endpoint that never answer `again`, and put with notification.

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "opal/am/state.hpp"
#include "opal/btl/shared/registrations/claims.hpp"

namespace opal::am {

Post Endpoint::post_queued(const QueuedOperation& operation) noexcept {
  Completion& completion = *operation.completion;
  switch (operation.kind) {
    case QueuedOperation::Kind::put:
      return put(operation.here, operation.remote_address, operation.handle, operation.size, completion);
    case QueuedOperation::Kind::get:
      return get(operation.here, operation.remote_address, operation.handle, operation.size, completion);
    case QueuedOperation::Kind::atomic: {
      AtomicRequest request = operation.request;
      request.remote = &operation.handle;
      return atomic(request, completion);
    }
    case QueuedOperation::Kind::flush: return flush_route(completion);
  }
  return Post::failed;
}

Post Endpoint::post_or_queue(QueuedOperation operation) noexcept {
  const Lock::Guard guard{lock_};
  Completion& completion = *operation.completion;
  if (leaving_) return btl::refuse(completion, {Errc::canceled, 0, "am: disconnected"});
  if (operations_ == nullptr) {
    const Post post = post_queued(operation);
    if (post != Post::again) return post;
  }
  if (route_->dead()) return btl::refuse(completion, route_->error());
  Context::State& state = *context_.state_;
  if (operations_ == nullptr) {
    operations_ = std::make_unique<OperationQueue>();
    state.queueing.push_back(this);
    state.retry = true;
  }
  // Flushes do not count against the limit.
  if (operation.kind != QueuedOperation::Kind::flush &&
      (operations_->size() + 1) * sizeof operation > state.config.pending_limit.bytes) {
    return btl::refuse(
        completion,
        {Errc::limit_reached, 0, "one-sided: am_pending_limit bytes of operations wait already", operations_->size()});
  }
  operation.order = ++state.queued_operations;
  completion.error = {};
  operations_->push_back(operation);
  return Post::queued;
}

Post Endpoint::put_or_queue(const void* source, std::uint64_t remote_address, const MemoryHandle& remote,
                            std::uint64_t size, Completion& completion) noexcept {
  return post_or_queue({.kind = QueuedOperation::Kind::put,
                        .here = static_cast<std::byte*>(const_cast<void*>(source)),
                        .remote_address = remote_address,
                        .size = size,
                        .handle = remote,
                        .completion = &completion});
}

Post Endpoint::get_or_queue(void* destination, std::uint64_t remote_address, const MemoryHandle& remote,
                            std::uint64_t size, Completion& completion) noexcept {
  return post_or_queue({.kind = QueuedOperation::Kind::get,
                        .here = static_cast<std::byte*>(destination),
                        .remote_address = remote_address,
                        .size = size,
                        .handle = remote,
                        .completion = &completion});
}

Post Endpoint::atomic_or_queue(const AtomicRequest& request, Completion& completion) noexcept {
  return post_or_queue({.kind = QueuedOperation::Kind::atomic,
                        .handle = *request.remote,
                        .request = request,
                        .completion = &completion});
}

Post Endpoint::queue_flush(Completion& completion) noexcept {
  return post_or_queue({.kind = QueuedOperation::Kind::flush, .completion = &completion});
}

void Endpoint::end_operations(const Error& why) noexcept {
  const std::unique_ptr<OperationQueue> ended = std::move(operations_);
  if (ended == nullptr) return;
  std::erase(context_.state_->queueing, this);
  for (const QueuedOperation& operation : *ended) operation.completion->finish(why);
}

/// Returns the number of operations that were posted.
std::size_t Endpoint::post_operations() noexcept {
  std::size_t count = 0;
  while (operations_ != nullptr && !operations_->empty()) {
    // A post may find the peer dead, which destroys the queue.
    const QueuedOperation operation = operations_->front();
    operations_->pop_front();
    const Post post = post_queued(operation);
    if (post == Post::again) {
      if (operations_ == nullptr) {
        operation.completion->finish(route_->error());
      } else {
        operations_->push_front(operation);
      }
      return count;
    }
    ++count;
    if (post != Post::queued) operation.completion->finish(post == Post::done ? Error{} : operation.completion->error);
  }
  if (operations_ != nullptr) {
    operations_.reset();
    std::erase(context_.state_->queueing, this);
  }
  return count;
}

std::size_t Context::State::post_operations() noexcept {
  std::size_t count = 0;
  const std::vector<Endpoint*> endpoints = queueing;
  for (Endpoint* endpoint : endpoints) count += endpoint->post_operations();
  std::uint64_t oldest = UINT64_MAX;
  for (const Endpoint* endpoint : queueing) {
    if (!endpoint->operations_->empty()) oldest = std::min(oldest, endpoint->operations_->front().order);
  }
  while (!flushes.empty() && flushes.front().upto < oldest) {
    Completion& completion = *flushes.front().completion;
    flushes.pop_front();
    const Post post = flush_transports(completion);
    if (post != Post::queued) completion.finish(post == Post::done ? Error{} : completion.error);
    ++count;
  }
  return count;
}

namespace {

/// A put whose completion sends the notification.  Deletes itself.
struct NotifiedPut : Completion {
  NotifiedPut(Endpoint& to, Tag tag, ByteSpan header, Completion& whole)
      : to(to), tag(tag), header(header.begin(), header.end()), whole(whole) {
    fn = [](Completion& self) noexcept {
      const std::unique_ptr<NotifiedPut> end{&static_cast<NotifiedPut&>(self)};
      end->whole.finish(end->ok() ? end->notify() : end->error);
    };
  }
  [[nodiscard]] Error notify() noexcept {
    return to.send_or_queue(tag, header, {}) == Post::done ? Error{} : to.error();
  }
  Endpoint& to;
  const Tag tag;
  const std::vector<std::byte> header;
  Completion& whole;
};

}  // namespace

Post Endpoint::put_notify(const void* source, std::uint64_t remote_address, const MemoryHandle& remote,
                          std::uint64_t size, Tag tag, ByteSpan header, Completion& completion) noexcept {
  const Lock::Guard guard{lock_};
  if (!is_tag(tag) || header.size() > route_->module().attributes().max_send) {
    completion.error = {Errc::invalid_argument, 0, "put_notify: not a tag, or the header is longer than max_send", tag};
    return Post::failed;
  }
  auto notified = std::make_unique<NotifiedPut>(*this, tag, header, completion);
  const Post post = put_or_queue(source, remote_address, remote, size, *notified);
  if (post == Post::queued) {
    (void)notified.release();  // ends itself
    return post;
  }
  completion.error = post == Post::done ? notified->notify() : notified->error;
  return completion.ok() ? Post::done : Post::failed;
}

}  // namespace opal::am
