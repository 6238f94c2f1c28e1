// SPDX-License-Identifier: Apache-2.0
// opal/btl/module.hpp — one open instance of a transport: the contract that every transport fulfils.
//
// Lifetime: Component::open() makes a module.  The opener sends address() to peers by any means.  Endpoints begin with
// connect() or Observer::on_accepted() and end with disconnect(), at any time; peers may belong to another job.
// Destruction completes pending operations with `canceled`.
//
// Order: active messages on one endpoint run their handlers in the order of their posts, also if they take different
// paths inside the transport.
// One-sided operations have no order against active messages or each other; flush() orders them.
//
// Threads: externally synchronised: one caller at a time, progress() included.  am::Context adds the locks.
// Exceptions: send_beside(), and invalidate_memory() and invalidate_memory_part().
//
// Cost of the data path (send*, transfer, atomic, progress): no allocation, lock, throw or formatting.  System calls
// only where the transport needs one per message (tcp) or per copy (cma).
//
// A new transport derives from ConnectedTransport (shared/connected_transport.hpp), which implements all but messages
// and connections.  CONTRIBUTING.md lists its obligations, with the tests.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "opal/btl/atomic.hpp"
#include "opal/btl/endpoint.hpp"
#include "opal/btl/fragment.hpp"
#include "opal/btl/memory_handle.hpp"
#include "opal/btl/module_parameters.hpp"
#include "opal/btl/post.hpp"
#include "opal/btl/tag.hpp"
#include "opal/core/bytes.hpp"
#include "opal/core/export.hpp"
#include "opal/core/result.hpp"
#include "opal/memory/range.hpp"
#include "opal/rcache/statistics.hpp"

struct sockaddr;

namespace opal::rcache {
class Cache;
}

namespace opal::btl {

class PipelinedTransfers;
class RdmaEmulation;

/// Limits and estimates, by which the layer above chooses a transport and a protocol.  Constant after open.
struct Attributes {
  std::string_view transport;    ///< the component's name
  std::string_view also = {};    ///< this module also reaches the peers of that transport, by the same address
  std::size_t max_send = 0;      ///< largest header + payload of one active message, bytes
  std::size_t eager = 0;         ///< largest payload for which one message costs less than a get, bytes
  bool own_handles = false;      ///< its memory handles name registrations of the device, not of the RegistrationTable
  bool gpu_memory = false;       ///< registers GPU memory, and put and get accept local GPU memory.  If one of
                                 ///< them fails with not_supported, the caller stages the data
  std::uint64_t latency_ns = 0;  ///< estimate of one short message, one way
};

/// The kinds of one-sided operations; none: no operation.
enum class OperationKind : std::uint8_t { none, put, get, atomic };

class OPAL_EXPORT Module {
 public:
  virtual ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  [[nodiscard]] const Attributes& attributes() const noexcept { return attributes_; }
  [[nodiscard]] const ModuleParameters& parameters() const noexcept { return parameters_; }

  // --- Peers (control path) ---------------------------------------------------------------------------------------

  /// The bytes that a peer passes to its connect().  The view is valid until the module ends or listen_only_at().
  [[nodiscard]] virtual ByteSpan address() const noexcept = 0;

  /// Returns the endpoint to `peer`, whose module published `address`.  Returns the existing one if there is one, also
  /// if the peer connected first.  The module owns the endpoint.
  /// May return before the connection is complete.  Until then the transport queues posts or returns `again`.  A later
  /// failure of the connection is reported by Observer::on_failed().
  /// Errors: unreachable (with the reason), protocol, version_mismatch, permission, peer_gone, os.
  virtual Result<Endpoint*> connect(const PeerId& peer, ByteSpan address) = 0;

  /// Restricts a module that listens at addresses of the host (tcp) to the IP address in `address`; its port is
  /// ignored, the module chooses one itself.  Does nothing if the user has chosen interfaces or `address` is the
  /// wildcard. Module::address() changes.  Connections to an address published before are refused.  Errors: as opening
  /// the module, and not_supported (neither IPv4 nor IPv6).
  virtual Result<void> listen_only_at(const sockaddr& /*address*/) { return {}; }

  /// Ends the endpoint.  Messages sent before are still delivered if the peer is alive.  Messages received and not yet
  /// handled are dropped.  Pending operations complete with `canceled`.  `endpoint` dangles afterwards.
  /// connect() to the same peer may follow.
  /// Requires: no fragment of the endpoint exists; the caller is not inside a handler or completion.
  virtual void disconnect(Endpoint& endpoint) noexcept = 0;

  // --- Forks --------------------------------------------------------------------------------------------------------

  /// The opener calls it in the fork handler of a child.  The parent goes on using its module.
  /// Closes the child's copies of descriptors, so that peers notice when the parent closes its own.  Sends nothing and
  /// changes nothing that the parent sees.  Afterwards only the destructor may be called; it sends nothing and calls no
  /// completion.  The module's memory may be inconsistent: a thread of the parent may have changed it at the fork.
  void leave_to_parent() noexcept {
    inherited_ = true;
    close_in_child();
  }

  // --- Active messages ----------------------------------------------------------------------------------------------
  // Requires: is_tag(tag).  am::Endpoint refuses other tags (0 and 0xffff), so modules do not check.

  /// Sends header and payload as one message.  Copies both, so it never returns `queued`.
  /// `failed`: the endpoint is dead, or the message is longer than max_send: see endpoint.error().
  virtual Post send_inline(Endpoint& to, Tag tag, ByteSpan header, ByteSpan payload) noexcept = 0;

  /// Sends a short message without the module's lock.
  /// Requires: the caller holds to.send_lock.  Thread-safe against every other call on this module.
  /// Order: as send_inline(); both may be mixed.
  /// Returns `done`, or `again`: the caller must use send_inline() under the module's lock.  Default: `again`.
  virtual Post send_beside(Endpoint& /*to*/, Tag /*tag*/, ByteSpan /*header*/, ByteSpan /*payload*/) noexcept {
    return Post::again;
  }

  /// Returns a buffer of `size` <= max_send bytes inside the transport, which the caller fills in place.
  /// Returns an empty fragment when no buffer is free or there is no room for a message of `size` bytes (the caller
  /// tries again after progress()), or when the endpoint is dead or `size` is too large: see endpoint.error().
  virtual Fragment alloc(Endpoint& to, std::size_t size) noexcept = 0;

  /// Returns a fragment with a copy of `header` and `payload`; empty as alloc().  The payload may be GPU memory; every
  /// other send takes host memory only.
  virtual Fragment prepare_src(Endpoint& to, ByteSpan header, ByteSpan payload) noexcept = 0;

  /// Sends a fragment; never returns `queued`.  After `again` the fragment is unchanged.  Otherwise it is empty; after
  /// `failed` nothing was sent and endpoint.error() says why.
  virtual Post send(Fragment& fragment, Tag tag) noexcept = 0;

  /// Returns an unsent fragment to the transport.  Fragment's destructor calls it.
  virtual void free(Fragment& fragment) noexcept = 0;

  // --- One-sided ----------------------------------------------------------------------------------------------------
  // [remote_address, +size) is any part of the registration `remote`.  If the range is outside of it, or `remote` is
  // stale or lacks the right, this operation alone fails; it writes nothing.
  // `local` is the handle of the local buffer, or null: the transport then registers the buffer itself if it must.
  // A completed put is visible at the target.

  /// Makes [base, +size) addressable by peers with `rights`, until deregister_memory().
  virtual Result<MemoryHandle> register_memory(void* base, std::uint64_t size, Rights rights) = 0;
  // The registration of the whole address space has one handle, of the Context's RegistrationTable.  Every transport
  // accepts it as `remote`; a transport with own_handles uses PipelinedTransfers for it.
  /// Makes the handle stale at once.  Errors: invalid_argument (not live).
  virtual Result<void> deregister_memory(const MemoryHandle& handle) = 0;
  /// The memory of a live handle is being unmapped.  Accesses of peers are refused from now on; a device refuses them
  /// from the next progress() on.  The caller calls deregister_memory() later.
  /// Runs inside the memory event, in any thread, without the module's lock: no allocation, lock or system call.
  virtual void invalidate_memory(const MemoryHandle& handle) noexcept = 0;
  /// As invalidate_memory() for the part `gone` of the handle's memory.  The other parts stay valid.  A device may use
  /// the old pages of `gone` until deregister_memory().
  virtual void invalidate_memory_part(const MemoryHandle& handle, memory::Range gone) noexcept = 0;

  /// Sets the registration cache that the opener made over register_memory(); the opener owns it.  Its cookies are
  /// MemoryHandles, its access bits Rights.  A transport whose device needs registered local buffers takes them from
  /// the cache when `local` is null.  Exposed and local memory then share one limit.
  /// Null (the default): the transport registers the buffer for each operation.
  void use_registrations(rcache::Cache* cache) noexcept { registrations_ = cache; }
  [[nodiscard]] rcache::Cache* registrations() const noexcept { return registrations_; }

  /// The pipelined transfers of a module with own_handles; null for others.
  [[nodiscard]] virtual PipelinedTransfers* transfers() noexcept { return nullptr; }

  Post put(Endpoint& to, const void* source, const MemoryHandle* local, std::uint64_t remote_address,
           const MemoryHandle& remote, std::uint64_t size, Completion& completion) noexcept {
    auto* const bytes = static_cast<std::byte*>(const_cast<void*>(source));  // transfer() only reads it
    return transfer(OperationKind::put, to, bytes, local, remote_address, remote, size, completion);
  }
  Post get(Endpoint& to, void* destination, const MemoryHandle* local, std::uint64_t remote_address,
           const MemoryHandle& remote, std::uint64_t size, Completion& completion) noexcept {
    return transfer(OperationKind::get, to, static_cast<std::byte*>(destination), local, remote_address, remote, size,
                    completion);
  }
  /// A put or a get.  `here` is the source of a put, which is only read, or the destination of a get.
  virtual Post transfer(OperationKind kind, Endpoint& to, std::byte* here, const MemoryHandle* local,
                        std::uint64_t remote_address, const MemoryHandle& remote, std::uint64_t size,
                        Completion& completion) noexcept = 0;
  virtual Post atomic(Endpoint& to, const AtomicRequest& request, Completion& completion) noexcept = 0;

  /// Completes when every put and atomic posted before on `to` (null: on any endpoint) is visible at its target.  Never
  /// returns `again`.
  virtual Post flush(Endpoint* to, Completion& completion) noexcept = 0;

  // --- Checkpoints (docs/design/checkpoint.md) ----------------------------------------------------------------------
  // Called by the module's owner: a Context, or a program without one.  Connections do not survive the restore of an
  // image: the owner then opens new modules with the same ModuleParameters.

  /// Begins a checkpoint.  The owner posts nothing on this module until resume().
  /// Requires: the owners of all connected modules call it with the same `round`, which is higher than any before.
  virtual void quiesce(std::uint64_t round) noexcept = 0;
  /// True when this module has received and completed all that it waits for.  Owners call progress() and quiet() until
  /// it has been true at every module of the job.  Then nothing is in flight: every message posted before quiesce() was
  /// handled, and puts and atomics are visible.
  [[nodiscard]] virtual bool quiet() noexcept = 0;
  /// Empties registrations() and unmaps memory of peers.  registrations() refuses requests with `busy` until resume().
  /// Errors: busy (not quiet(); or registrations or mappings are in use, detail: how many): progress() and try again.
  virtual Result<void> checkpoint() noexcept = 0;
  /// Ends the checkpoint, whether checkpoint() succeeded or not.
  virtual void resume() noexcept = 0;

  // --- Memory of peers that a module keeps mapped, as smcuda does with GPU memory ------------------------------------

  /// Unmaps all memory of peers; a later operation maps it again.  checkpoint() calls it: an image cannot hold such
  /// mappings.  Errors: busy (copies from or to it are in flight; detail: their number).  Default: there is none.
  virtual Result<void> release_remote_memory() noexcept { return {}; }
  /// The statistics of the caches of mappings, summed over all peers.
  [[nodiscard]] virtual rcache::Statistics remote_memory_statistics() const noexcept { return {}; }

  // --- Batches ------------------------------------------------------------------------------------------------------

  /// Until the matching end_batch() the module may hold back what is posted, to give several requests to the network
  /// with one call.  end_batch() and progress() send them.  Order and back-pressure stay.  Calls nest.  Default: no
  /// effect.
  virtual void begin_batch() noexcept {}
  virtual void end_batch() noexcept {}

  // --- Progress and waiting -----------------------------------------------------------------------------------------

  /// Receives messages, completes operations and retries queued ones.  Runs at most about `budget` handlers.  Returns
  /// the number of events; 0: idle.  Inside a handler or completion it does nothing and returns 0.
  virtual std::size_t progress(std::size_t budget) noexcept = 0;

  /// Polls messages of `from` alone for a short time and runs up to `budget` handlers.  Returns the number of messages.
  /// It finds a message of `from` sooner than progress().  It polls no other source, so the caller calls progress()
  /// after a 0 and from time to time.  Inside a handler or completion: as progress().  Default: does nothing.
  virtual std::size_t progress_from(Endpoint& /*from*/, std::size_t /*budget*/) noexcept { return 0; }

  /// The descriptor that becomes readable when progress() has work, once arm() has returned true.  The module owns it.
  [[nodiscard]] virtual int wait_fd() const noexcept = 0;
  /// Prepares for a sleep on wait_fd().  False: there is work, so the caller must not sleep.  The module stays armed
  /// until a progress() that returns more than 0, so one thread may sleep while another one polls without result.
  virtual bool arm() noexcept = 0;

 protected:
  Module(const ModuleParameters& parameters, const Attributes& attributes) noexcept
      : parameters_(parameters), attributes_(attributes) {}
  /// For a module that learns its limits while it is being opened.
  void set_attributes(const Attributes& attributes) noexcept { attributes_ = attributes; }
  /// True after leave_to_parent().
  [[nodiscard]] bool inherited() const noexcept { return inherited_; }
  /// The first of the list of all endpoints of this module, dead ones included; null: there is none.
  [[nodiscard]] Endpoint* first_endpoint() const noexcept { return endpoints_; }

 private:
  /// The transport's part of leave_to_parent().
  virtual void close_in_child() noexcept {}
  /// Receives the messages of the emulation; null: the module has no emulation, and such messages are dropped.
  virtual RdmaEmulation* own_emulation() noexcept { return nullptr; }

  friend class Endpoint;
  friend class RdmaEmulation;
  ModuleParameters parameters_;
  Attributes attributes_;
  Endpoint* endpoints_ = nullptr;
  rcache::Cache* registrations_ = nullptr;
  bool inherited_ = false;
};

}  // namespace opal::btl
