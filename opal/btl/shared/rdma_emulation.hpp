// SPDX-License-Identifier: Apache-2.0
// opal/btl/shared/rdma_emulation.hpp — put, get and atomics over active messages, for every transport or peer that
// cannot do them itself, so that every transport offers all of it.
//
// How: the initiator cuts a put into messages that carry the handle, the whole operation's range and this piece's
// place; the target checks the whole range against its registration table before it writes the first byte, checks again
// at each piece (the registration may go away in between), and acknowledges the last.  A get asks; the target sends
// pieces back. An atomic asks and is answered.  An operation is completed by the target's answer, so `complete` means
// visible there.  Its operations are in the module's table, whose flush waits for them.
// Owned by its Module; not thread safe beyond it.  Peer bytes are checked before any use.
#pragma once
#include <cstdint>
#include <memory>

#include "opal/btl/atomic.hpp"
#include "opal/btl/handlers.hpp"
#include "opal/btl/memory_handle.hpp"
#include "opal/btl/post.hpp"
#include "opal/core/export.hpp"

namespace opal::btl {

class Endpoint;
class Module;
class RdmaOperations;
class RdmaReplies;

class OPAL_EXPORT RdmaEmulation {
 public:
  RdmaEmulation(Module& module, RdmaOperations& operations);
  ~RdmaEmulation();
  RdmaEmulation(const RdmaEmulation&) = delete;
  RdmaEmulation& operator=(const RdmaEmulation&) = delete;

  /// Puts the handlers of the emulation and of PipelinedTransfers into a Context's table; once per table, before the
  /// first module is opened.
  static Result<void> install(HandlerTable& handlers);

  Post put(Endpoint& to, const void* source, std::uint64_t remote_address, const MemoryHandle& remote,
           std::uint64_t size, Completion& completion) noexcept;
  Post get(Endpoint& to, void* destination, std::uint64_t remote_address, const MemoryHandle& remote,
           std::uint64_t size, Completion& completion) noexcept;
  Post atomic(Endpoint& to, const AtomicRequest& request, Completion& completion) noexcept;

  /// Sends what back-pressure held up.  Call from the module's progress(); returns how many messages went out.
  std::size_t progress() noexcept { return busy_ ? send_waiting() : 0; }
  /// True when nothing waits to be sent, or for a GPU.  A module that does not hear of new room in the transport must
  /// not sleep otherwise.
  [[nodiscard]] bool idle() const noexcept;
  /// For a module that hears of it: sends what it can; false when it must not sleep, because something went out, or a
  /// GPU copies, whose completion causes no wake-up.
  [[nodiscard]] bool arm() noexcept;
  /// For the messages of PipelinedTransfers; they go out by progress() too.
  [[nodiscard]] RdmaReplies& replies() noexcept;
  /// Operations in flight.  Looks at the whole table.
  [[nodiscard]] std::size_t active() const noexcept;
  /// Completes every operation of the emulation on `endpoint` with `why` and forgets its peer's requests.  Not from
  /// inside a send: modules note a death there and act on it in progress() or disconnect().
  void endpoint_gone(Endpoint& endpoint, const Error& why) noexcept;

 private:
  std::size_t send_waiting() noexcept;
  struct State;
  bool busy_ = false;  // something may wait to be sent; a branch is all that a round costs the others
  std::unique_ptr<State> state_;
};

}  // namespace opal::btl
