// SPDX-License-Identifier: Apache-2.0
// opal/capi/internal.hpp — conversions between the C and the C++ interface: handles, statuses, completions.
// An opaque endpoint handle is the address of the C++ object.  Private to opal/capi.
#pragma once
#include <cstddef>
#include <cstdint>
#include <new>

#include "opal/am/context.hpp"
#include "opal/capi/opal.h"

namespace opal::capi {

am::Context& context_of(opal_context_t& handle) noexcept;
/// The configuration from the environment and from the settings passed to opal_context_open().
config::Store settings_of(const opal_context_t& handle);
/// Stores the text of `error` for opal_last_error() of this thread; returns its status.
opal_status_t fail(const Error& error) noexcept;
/// The same for an argument that is refused.
opal_status_t misuse(const char* where) noexcept;
/// The same for a post: `completion` (may be null) ends with that error.
inline opal_status_t misuse(opal_completion_t* completion, const char* where) noexcept {
  const opal_status_t status = misuse(where);
  if (completion == nullptr) return status;
  completion->status = status;
  completion->finished = 1;
  return status;
}

inline opal_status_t to_status(Errc code) noexcept { return -static_cast<opal_status_t>(code); }
static_assert(static_cast<int>(Errc::busy) == -OPAL_ERR_BUSY &&
                  static_cast<int>(Errc::internal) == -OPAL_ERR_INTERNAL &&
                  static_cast<int>(Errc::peer_gone) == -OPAL_ERR_PEER_GONE,
              "status numbers are Errc's, negated, and never change");

/// The code of a status that is an error.
inline Errc to_code(opal_status_t status) noexcept { return status < 0 ? static_cast<Errc>(-status) : Errc{}; }

inline ByteSpan bytes(const void* data, std::size_t size) noexcept {
  return {static_cast<const std::byte*>(data), size};
}

inline am::Endpoint& endpoint(opal_endpoint_t* handle) noexcept { return *reinterpret_cast<am::Endpoint*>(handle); }
inline const am::Endpoint& endpoint(const opal_endpoint_t* handle) noexcept {
  return *reinterpret_cast<const am::Endpoint*>(handle);
}
inline opal_endpoint_t* handle_of(am::Endpoint& object) noexcept { return reinterpret_cast<opal_endpoint_t*>(&object); }

inline opal_status_t to_status(Post post, const Error& why) noexcept {
  switch (post) {
    case Post::done: return OPAL_DONE;
    case Post::queued: return OPAL_QUEUED;
    case Post::again: return OPAL_AGAIN;
    case Post::failed:
      return fail(why.code != Errc{} ? why : Error{Errc::internal, 0, "a post failed without a reason"});
  }
  return OPAL_ERR_INTERNAL;
}

inline bool is_missing(const void* data, std::uint64_t size) noexcept { return data == nullptr && size != 0; }

/// The C++ completion of a C completion; it lies in the C one's reserved bytes.
struct Bridge : Completion {
  explicit Bridge(opal_completion_t* completion) noexcept : c(completion) {
    fn = [](Completion& self) noexcept {
      opal_completion_t* c = static_cast<Bridge&>(self).c;
      c->status = self.ok() ? OPAL_OK : to_status(self.error.code);
      c->finished = 1;
      if (c->fn != nullptr) c->fn(c);
    };
  }
  opal_completion_t* c;
};
static_assert(sizeof(Bridge) <= sizeof(opal_completion_t::reserved) && alignof(Bridge) <= alignof(std::uint64_t),
              "the C++ completion lives in the C one's reserved bytes");
static_assert(sizeof(opal_remote_key_t) == sizeof(MemoryHandle) && alignof(opal_remote_key_t) >= alignof(MemoryHandle),
              "an unpacked key is a MemoryHandle");

/// Calls `operation(Completion&)`, a post, with a Bridge to `completion`, and sets the fields of `completion` for every
/// result.  Returns the status of the post.
template <class Operation>
opal_status_t post(am::Context& context, opal_completion_t* completion, Operation operation) noexcept {
  if (completion == nullptr) return misuse("a completion is needed");
  const am::Lock::Guard guard{context.lock()};  // a thread in opal_wait_until() may read `finished`
  // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): placed in the caller's memory, trivially destroyed
  auto* bridge = new (completion->reserved) Bridge{completion};
  completion->finished = 0;
  completion->status = OPAL_OK;
  const Post answer = operation(static_cast<Completion&>(*bridge));
  // After `queued` *bridge may be gone: to_status() reads the error only after `failed`.
  const opal_status_t status = to_status(answer, bridge->error);
  if (answer == Post::failed) completion->status = status;
  if (answer == Post::done || answer == Post::failed) {
    completion->finished = 1;
    // progress() has no part in this end, so nothing else wakes that thread.
    if (context.lock().real()) context.wake_sleepers();
  }
  return status;
}

inline const MemoryHandle& unpacked(const opal_remote_key_t* key) noexcept {
  return *reinterpret_cast<const MemoryHandle*>(key->opaque);
}

}  // namespace opal::capi
