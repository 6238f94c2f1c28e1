// SPDX-License-Identifier: Apache-2.0
// opal/btl/module.hpp — one open instance of a transport: the contract that every transport fulfils.
//
// Life: open (component.hpp) -> address() is handed to peers by any means -> connect()/on_accepted at any time, from
// any job -> posts -> disconnect at any time -> destruction (pending operations complete with `canceled`). Order:
// active messages on one endpoint arrive in the order they were posted, whichever internal path each took. One-sided
// operations are not ordered against active messages or each other; flush() orders them. Threads: externally
// synchronised: one caller at a time, including progress(), but for send_beside().  am::Context adds the locks. Data
// path (send*, put, get, atomic, progress): no allocation, no lock, no throw, no formatting; a system call only where
// the transport is one (tcp) or a copy is one (cma).
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

namespace opal::rcache {
class Cache;
}

namespace opal::btl {

class PipelinedTransfers;
class Quiescence;
class RdmaEmulation;

/// What the layer above needs to know to choose and to cut messages.  Constant after open.
struct Attributes {
  std::string_view transport;       ///< the component's name
  std::string_view also = {};       ///< a transport that this one is too: its peers are reached, under the same address
  std::uint32_t exclusivity = 0;    ///< among transports that reach a peer the highest wins
  std::size_t max_send = 0;         ///< largest header + payload of one active message, bytes
  std::size_t eager = 0;            ///< up to here one message is the cheapest way; above, a get pays off; bytes
  bool own_handles = false;         ///< register_memory makes handles of its own kind, not the Context's table's
  bool gpu_memory = false;          ///< has its own handles of GPU memory, and put and get may be given such memory of
                                    ///< this process; `failed` with not_supported asks for staging
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

  /// The blob with which any peer can connect to this module.  Valid as long as the module.
  [[nodiscard]] virtual ByteSpan address() const noexcept = 0;

  /// The endpoint to `peer`, whose module published `address`; the existing one if there is one (also if the peer came
  /// first).  May return before the connection stands: posts answer `again` until then.  Owned by the module.
  /// Errors: unreachable (with the reason), protocol, version_mismatch, permission, peer_gone, os.
  virtual Result<Endpoint*> connect(const PeerId& peer, ByteSpan address) = 0;

  /// Ends the endpoint: what was sent before is still delivered where the peer lives; what has arrived and was not
  /// handled is dropped; pending operations complete with `canceled`; the reference is dangling afterwards.  The same
  /// peer may be connected again.  Requires: no fragment of it is left.  Not from inside a handler or completion.
  virtual void disconnect(Endpoint& endpoint) noexcept = 0;

  // --- Forks --------------------------------------------------------------------------------------------------------

  /// For the opener, in the fork handler of a child: the module is the parent's.  Closes the descriptors whose last
  /// close the peers notice, tells nobody, changes nothing that the parent sees.  Afterwards only the destructor is
  /// called, and it does no more either: no goodbye, no completion.  The memory may be in the middle of a change by
  /// another thread of the parent.
  void leave_to_parent() noexcept {
    inherited_ = true;
    close_in_child();
  }

  // --- Active messages ----------------------------------------------------------------------------------------------
  // A tag is never 0 or 0xffff (is_tag()): am::Endpoint refuses those, modules need not.

  /// Sends header and payload as one message; copies both, so never `queued`.  Longer than max_send: `failed`.
  virtual Post send_inline(Endpoint& to, Tag tag, ByteSpan header, ByteSpan payload) noexcept = 0;

  /// The same for a thread that does not have the module to itself, but holds to.send_gate: beside whatever other
  /// threads do here, in order with the messages that it has sent before in either way.  Never `failed`; `again`: not
  /// in this way, now or ever (the default), so send_inline has to.
  virtual Post send_beside(Endpoint& /*to*/, Tag /*tag*/, ByteSpan /*header*/, ByteSpan /*payload*/) noexcept {
    return Post::again;
  }

  /// A buffer of `size` <= max_send bytes inside the transport, to be filled in place.  Empty: try again later, or,
  /// when the endpoint is dead or size too large, endpoint.error() says so.
  virtual Fragment alloc(Endpoint& to, std::size_t size) noexcept = 0;

  /// A fragment of `header` plus a reference to `payload`, which stays the caller's and unchanged until `completion`
  /// or until send() answers `done`.  The default copies into alloc(): right where the copy is cheaper than pinning.
  /// The payload may be GPU memory, which is always copied here; of every other post only host memory may be passed.
  virtual Fragment prepare_src(Endpoint& to, ByteSpan header, ByteSpan payload, Completion& completion) noexcept;

  /// Sends a fragment.  `done`/`queued`: the fragment is empty afterwards; `again`: it is unchanged; `failed`: given
  /// back.
  virtual Post send(Fragment& fragment, Tag tag) noexcept = 0;

  /// Gives an unsent fragment back; Fragment's destructor calls it.
  virtual void free(Fragment& fragment) noexcept = 0;

  // --- One-sided ----------------------------------------------------------------------------------------------------
  // [remote_address, +size) may be any part of what `remote` registered.  Outside, stale or without the right: that
  // operation alone fails and nothing is written.  `local` may be null for every transport that does not need it.
  // A completed put is visible at the target.  The defaults run over active messages (rdma_emulation.hpp).

  /// Makes [base, +size) addressable by peers.  The default is a slot in the Context's RegistrationTable.
  virtual Result<MemoryHandle> register_memory(void* base, std::uint64_t size, Rights rights);
  // Of the whole address space there is only that table's handle, which every transport takes; those with handles of
  // their own by PipelinedTransfers.
  /// The handle is stale at once.  Errors: invalid_argument (not live).
  virtual Result<void> deregister_memory(const MemoryHandle& handle);
  /// The memory of a live handle is being unmapped: peers are refused from now on, by a device from the next progress()
  /// on; deregister_memory() follows.  Inside the event, in any thread, unlocked: no allocation, lock or system call.
  virtual void invalidate_memory(const MemoryHandle& handle) noexcept;
  /// The same for a part of the handle's memory: peers are refused there, and the rest stays good.  A device that holds
  /// the old pages until deregister_memory() may go on using them.
  virtual void invalidate_memory_part(const MemoryHandle& handle, memory::Range gone) noexcept;

  /// The cache that the opener made over register_memory(): cookies are MemoryHandles, access bits are Rights.  A
  /// transport whose device needs local buffers registered borrows from it when `local` is null, so that exposed and
  /// local memory share one cache and one limit.  Null (the default): it registers for each operation.
  void use_registrations(rcache::Cache* cache) noexcept { registrations_ = cache; }
  [[nodiscard]] rcache::Cache* registrations() const noexcept { return registrations_; }

  /// Of a module whose device has handles of its own; null for others.
  [[nodiscard]] virtual PipelinedTransfers* transfers() noexcept { return nullptr; }

  virtual Post put(Endpoint& to, const void* source, const MemoryHandle* local, std::uint64_t remote_address,
                   const MemoryHandle& remote, std::uint64_t size, Completion& completion) noexcept;
  virtual Post get(Endpoint& to, void* destination, const MemoryHandle* local, std::uint64_t remote_address,
                   const MemoryHandle& remote, std::uint64_t size, Completion& completion) noexcept;
  virtual Post atomic(Endpoint& to, const AtomicRequest& request, Completion& completion) noexcept;

  /// Completes when every put and atomic posted before on `to` (all endpoints if null) is visible at its target.
  /// Never `again`.
  virtual Post flush(Endpoint* to, Completion& completion) noexcept;

  // --- Checkpoints (docs/design/checkpoint.md) ----------------------------------------------------------------------
  // For whoever owns the module: a Context, which does all this for its own, or a program without one.  Restart after
  // an image was restored: connections do not survive, so open the component anew with the same Host.

  /// From now until resume() the owner posts nothing on this module.  All modules that are connected take part, with
  /// the same `round`, higher than any before.
  void quiesce(std::uint64_t round) noexcept;
  /// Call progress() until this is true, and go on with both until it was true at every module: then nothing is under
  /// way between them, every message posted before quiesce() was handled, puts and atomics are visible.
  [[nodiscard]] bool quiet() noexcept;
  /// Empties the module's registrations(), which answer `busy` until resume().  Errors: busy (not quiet, or that many
  /// cached registrations are in use: to be tried again).
  Result<void> checkpoint() noexcept;
  /// Goes on, also when the checkpoint was given up.
  void resume() noexcept;

  // --- Progress and waiting
  // -------------------------------------------------------------------------------------------

  /// Receives, completes, resumes; runs at most about `budget` handlers.  Returns how much happened, 0 = idle.  A call
  /// from inside a handler or completion does nothing and returns 0.
  virtual std::size_t progress(std::size_t budget) noexcept = 0;

  /// For somebody who waits for a message of `from`: looks a moment where that comes in, which is sooner there than a
  /// round of progress(), and receives up to `budget` messages from there.  Returns how many; 0: progress() is due, and
  /// also now and then otherwise, since nothing else is looked at.  From inside a handler as progress().
  virtual std::size_t progress_from(Endpoint& /*from*/, std::size_t /*budget*/) noexcept { return 0; }

  /// A descriptor that becomes readable when progress() has something to do after arm() said true.  Owned by the
  /// module.
  [[nodiscard]] virtual int wait_fd() const noexcept = 0;
  /// Prepares for sleep on wait_fd().  False: there is work already, do not sleep.  It lasts until a progress() that
  /// returns more than 0: one thread may sleep while another polls in vain.
  virtual bool arm() noexcept = 0;

 protected:
  Module(const Host& host, const Attributes& attributes);
  /// The put/get/atomics over active messages that the defaults use; pump it from progress(), tell it of dead
  /// endpoints.
  [[nodiscard]] RdmaEmulation& emulation() noexcept { return *emulation_; }
  /// leave_to_parent() was called.
  [[nodiscard]] bool inherited() const noexcept { return inherited_; }

 private:
  virtual void close_in_child() noexcept {}

  friend class Endpoint;
  friend class Quiescence;
  friend class RdmaEmulation;
  Host host_;
  Attributes attributes_;
  std::unique_ptr<RdmaEmulation> emulation_;
  std::unique_ptr<Quiescence> quiescence_;
  Endpoint* endpoints_ = nullptr;  // all there are, dead ones too
  rcache::Cache* registrations_ = nullptr;
  bool inherited_ = false;
};

}  // namespace opal::btl
