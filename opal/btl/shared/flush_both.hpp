// SPDX-License-Identifier: Apache-2.0
// opal/btl/shared/flush_both.hpp — a flush for who posts operations of its own on top of somebody else's: first its own, then
// the others.
#pragma once
#include <memory>
#include <utility>

#include "opal/btl/shared/rdma_operations.hpp"

namespace opal::btl {

/// Completes when every put and atomic in `own` on `to` (null: all endpoints) is through and then `next(completion)`,
/// a flush, is too.  Allocates only while there are such operations.
template <class Next>
Post flush_both(RdmaOperations& own, const Endpoint* to, Completion& completion, Next next) noexcept {
  struct Both : Completion {
    Both(Completion& whole, Next next) : whole(whole), next(std::move(next)) {
      fn = [](Completion& self) noexcept {
        const std::unique_ptr<Both> end{&static_cast<Both&>(self)};
        if (!end->ok()) return end->whole.finish(end->error);
        const Post post = end->next(end->whole);
        if (post == Post::done) end->whole.finish();
        if (post == Post::failed) end->whole.finish(end->whole.error);
        if (post == Post::again) end->whole.finish({Errc::busy, 0, "flush: the transport is full"});
      };
    }
    Completion& whole;
    Next next;
  };
  if (own.active() == 0) return next(completion);
  auto both = std::make_unique<Both>(completion, std::move(next));
  if (own.flush(to, *both) == Post::done) return both->next(completion);
  (void)both.release();  // ends itself
  return Post::queued;
}

}  // namespace opal::btl
