// SPDX-License-Identifier: Apache-2.0
// opal/btl/module.hpp — one open instance of a transport: the contract that every transport fulfils.
//
// Lifetime: open (component.hpp); the opener hands address() to peers by any means; connect() and on_accepted at any
// time, from any job; posts; disconnect() at any time; destruction completes pending operations with `canceled`.
//
// Order: active messages on one endpoint arrive in the order of their posts, whatever internal path each takes.
// One-sided operations have no order against active messages or each other; flush() orders them.
//
// Threads: externally synchronised.  One caller at a time, progress() included; send_beside() is the exception.
// am::Context adds the locks.
//
// Cost of the data path (send*, put, get, atomic, progress): no allocation, lock, throw or formatting.  A system call
// only where the transport is one (tcp) or the copy is one (cma).
//
// A new transport derives from ConnectedTransport (shared/connected_transport.hpp), which implements all but messages
// and connections.  CONTRIBUTING.md lists its obligations, with the tests.
#pragma once
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "opal/btl/atomic.hpp"
#include "opal/btl/endpoint.hpp"
#include "opal/btl/fragment.hpp"
#include "opal/btl/host.hpp"
#include "opal/btl/memory_handle.hpp"
#include "opal/btl/post.hpp"
#include "opal/btl/tag.hpp"
#include "opal/core/bytes.hpp"
#include "opal/core/export.hpp"
#include "opal/core/result.hpp"
#include "opal/memory/range.hpp"

namespace opal::rcache {
class Cache;
}

namespace opal::btl {

class PipelinedTransfers;
class RdmaEmulation;

/// Limits and estimates.  The layer above chooses a transport and cuts messages by them.  Constant after open.
struct Attributes {
  std::string_view transport;       ///< the component's name
  std::string_view also = {};       ///< another transport whose peers this one reaches, under the same address
  std::uint32_t exclusivity = 0;    ///< among transports that reach a peer the highest wins
  std::size_t max_send = 0;         ///< largest header + payload of one active message, bytes
  std::size_t eager = 0;            ///< largest payload for which one message costs less than a get, bytes
  bool own_handles = false;         ///< its handles are the device's, not RegistrationTable slots
  bool gpu_memory = false;          ///< has handles of GPU memory, and put and get take local GPU memory;
                                    ///< `failed` with not_supported asks for staging
  std::uint64_t latency_ns = 0;     ///< estimate, one way
  std::uint64_t bandwidth_Bps = 0;  ///< estimate
};

class OPAL_EXPORT Module {
 public:
  virtual ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  [[nodiscard]] const Attributes& attributes() const noexcept { return attributes_; }
  [[nodiscard]] const Host& host() const noexcept { return host_; }

  // --- Peers (control path) ---------------------------------------------------------------------------------------

  /// The bytes that connect() of any peer needs.  Valid as long as the module.
  [[nodiscard]] virtual ByteSpan address() const noexcept = 0;

  /// Returns the endpoint to `peer`, whose module published `address`; an existing one if there is one, also if the
  /// peer connected first.  May return before the connection is complete: posts answer `again` until then.  The module
  /// owns the endpoint.
  /// Errors: unreachable (with the reason), protocol, version_mismatch, permission, peer_gone, os.
  virtual Result<Endpoint*> connect(const PeerId& peer, ByteSpan address) = 0;

  /// Ends the endpoint.  Messages sent before are still delivered if the peer is alive; messages received and not yet
  /// handled are dropped; pending operations complete with `canceled`.  `endpoint` dangles afterwards.  The same peer
  /// may be connected again.
  /// Requires: no fragment of the endpoint exists; the caller is not inside a handler or completion.
  virtual void disconnect(Endpoint& endpoint) noexcept = 0;

  // --- Forks --------------------------------------------------------------------------------------------------------

  /// Called by the opener in the fork handler of a child: the parent keeps the module.  Closes the descriptors whose
  /// last close peers notice.  Sends nothing and changes nothing that the parent sees.  Afterwards only the destructor
  /// is called; it sends nothing and calls no completion.  Another thread of the parent may have been changing the
  /// module's memory at the fork, so its state may be inconsistent.
  void leave_to_parent() noexcept {
    inherited_ = true;
    close_in_child();
  }

  // --- Active messages ----------------------------------------------------------------------------------------------
  // A tag is never 0 or 0xffff (is_tag()): am::Endpoint refuses them, so modules need no check.

  /// Sends header and payload as one message.  Copies both, so it never answers `queued`.
  /// `failed`: longer than max_send.
  virtual Post send_inline(Endpoint& to, Tag tag, ByteSpan header, ByteSpan payload) noexcept = 0;

  /// Sends a short message without the module's lock.
  /// Requires: the caller holds to.send_lock.  Thread-safe against every other call on this module.
  /// Order: as send_inline(); both may be mixed.
  /// Answers `done`, or `again`: the caller must use send_inline() under the module's lock.  Default: `again`.
  virtual Post send_beside(Endpoint& /*to*/, Tag /*tag*/, ByteSpan /*header*/, ByteSpan /*payload*/) noexcept {
    return Post::again;
  }

  /// Returns a buffer of `size` <= max_send bytes inside the transport, which the caller fills in place.
  /// Empty: no buffer is free, try again later; or the endpoint is dead or `size` too large: see endpoint.error().
  virtual Fragment alloc(Endpoint& to, std::size_t size) noexcept = 0;

  /// Returns a fragment of `header` plus a reference to `payload`.  The caller keeps the payload unchanged until
  /// `completion` runs or send() answers `done`.  A transport may copy it, if a copy costs less than pinning.  The
  /// payload may be GPU memory, which is always copied; every other post takes host memory only.
  virtual Fragment prepare_src(Endpoint& to, ByteSpan header, ByteSpan payload, Completion& completion) noexcept = 0;

  /// Sends a fragment.  After `done` or `queued` it is empty, after `again` unchanged, after `failed` returned to the
  /// transport.
  virtual Post send(Fragment& fragment, Tag tag) noexcept = 0;

  /// Returns an unsent fragment to the transport.  Fragment's destructor calls it.
  virtual void free(Fragment& fragment) noexcept = 0;

  // --- One-sided ----------------------------------------------------------------------------------------------------
  // [remote_address, +size) may be any part of the registration `remote`.  If it is outside, stale or lacks the right,
  // that operation alone fails and writes nothing.  `local` may be null unless the transport needs it.  A completed put
  // is visible at the target.

  /// Makes [base, +size) addressable by peers.
  virtual Result<MemoryHandle> register_memory(void* base, std::uint64_t size, Rights rights) = 0;
  // The whole address space has one handle, of that table.  Every transport takes it; a transport with handles of its
  // own uses PipelinedTransfers for it.
  /// Makes the handle stale at once.  Errors: invalid_argument (not live).
  virtual Result<void> deregister_memory(const MemoryHandle& handle) = 0;
  /// The memory of a live handle is being unmapped.  Refuses peers from now on; a device refuses them from the next
  /// progress() on.  deregister_memory() follows.  Runs inside the memory event, in any thread, without the module's
  /// lock: no allocation, lock or system call.
  virtual void invalidate_memory(const MemoryHandle& handle) noexcept = 0;
  /// The same for a part of the handle's memory; the rest stays valid.  A device that holds the old pages may use them
  /// until deregister_memory().
  virtual void invalidate_memory_part(const MemoryHandle& handle, memory::Range gone) noexcept = 0;

  /// Sets the cache that the opener made over register_memory(): cookies are MemoryHandles, access bits are Rights.  A
  /// transport whose device needs registered local buffers takes them from it when `local` is null, so exposed and
  /// local memory share one cache and one limit.  Null (the default): the transport registers for each operation.
  void use_registrations(rcache::Cache* cache) noexcept { registrations_ = cache; }
  [[nodiscard]] rcache::Cache* registrations() const noexcept { return registrations_; }

  /// The pipelined transfers of a module whose device has handles of its own; null for others.
  [[nodiscard]] virtual PipelinedTransfers* transfers() noexcept { return nullptr; }

  virtual Post put(Endpoint& to, const void* source, const MemoryHandle* local, std::uint64_t remote_address,
                   const MemoryHandle& remote, std::uint64_t size, Completion& completion) noexcept = 0;
  virtual Post get(Endpoint& to, void* destination, const MemoryHandle* local, std::uint64_t remote_address,
                   const MemoryHandle& remote, std::uint64_t size, Completion& completion) noexcept = 0;
  virtual Post atomic(Endpoint& to, const AtomicRequest& request, Completion& completion) noexcept = 0;

  /// Completes when every put and atomic posted before on `to` (all endpoints if null) is visible at its target.
  /// Never `again`.
  virtual Post flush(Endpoint* to, Completion& completion) noexcept = 0;

  // --- Checkpoints (docs/design/checkpoint.md) ----------------------------------------------------------------------
  // Called by the module's owner: a Context, or a program without one.  Connections do not survive the restore of an
  // image: the owner then opens the component anew with the same Host.

  /// Begins a checkpoint.  The owner posts nothing on this module until resume().  All connected modules take part,
  /// with the same `round`, which is higher than any before.
  virtual void quiesce(std::uint64_t round) noexcept = 0;
  /// True when this module's share is drained.  The owner calls progress() and quiet() until it was true at every
  /// module.  Then nothing is in flight, every message posted before quiesce() was handled, puts and atomics are
  /// visible.
  [[nodiscard]] virtual bool quiet() noexcept = 0;
  /// Empties registrations(), which answer `busy` until resume().
  /// Errors: busy (not quiet, or the number of cached registrations in use: try again).
  virtual Result<void> checkpoint() noexcept = 0;
  /// Ends the checkpoint, complete or not.
  virtual void resume() noexcept = 0;

  // --- Progress and waiting -----------------------------------------------------------------------------------------

  /// Receives messages, completes operations and retries queued ones.  Runs at most about `budget` handlers.  Returns
  /// the number of events; 0: idle.  Inside a handler or completion it does nothing and returns 0.
  virtual std::size_t progress(std::size_t budget) noexcept = 0;

  /// Polls `from` alone for a short time and receives up to `budget` of its messages.  A message of `from` is seen
  /// sooner than by progress().  Returns their number.  The caller calls progress() after 0, and sometimes otherwise,
  /// since no other source is polled here.  Inside a handler: as progress().
  virtual std::size_t progress_from(Endpoint& /*from*/, std::size_t /*budget*/) noexcept { return 0; }

  /// The descriptor that becomes readable when progress() has work, after arm() returned true.  The module owns it.
  [[nodiscard]] virtual int wait_fd() const noexcept = 0;
  /// Prepares for a sleep on wait_fd().  False: there is work, do not sleep.  The module stays armed until a progress()
  /// that returns more than 0, so one thread may sleep while another one polls without result.
  virtual bool arm() noexcept = 0;

 protected:
  Module(const Host& host, const Attributes& attributes) noexcept : host_(host), attributes_(attributes) {}
  /// True after leave_to_parent().
  [[nodiscard]] bool inherited() const noexcept { return inherited_; }
  /// Of the list of all, dead ones included.
  [[nodiscard]] Endpoint* first_endpoint() const noexcept { return endpoints_; }

 private:
  virtual void close_in_child() noexcept {}
  /// The receiver of the emulation's messages; null: the module has no emulation, and they are ignored.
  virtual RdmaEmulation* own_emulation() noexcept { return nullptr; }

  friend class Endpoint;
  friend class RdmaEmulation;
  Host host_;
  Attributes attributes_;
  Endpoint* endpoints_ = nullptr;
  rcache::Cache* registrations_ = nullptr;
  bool inherited_ = false;
};

}  // namespace opal::btl
