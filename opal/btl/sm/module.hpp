// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/module.hpp — messages between processes of one host through shared memory; put and get by single copy
// where the peer allows it, else by the emulation.  docs/design/sm.md describes the memory and the protocols.
// It joins four parts:
//   messages/      sends and receives active messages
//   connections/   makes and ends connections
//   single_copy/   copies between this process's memory and a peer's
//   helped/        large puts and gets that initiator and target copy together
// Owns all of them.  Threads: as btl::Module; of its members, the connection manager's thread uses only LocalSide and
// the doorbell.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "opal/btl/shared/message_transport.hpp"
#include "opal/btl/sm/config.hpp"
#include "opal/btl/sm/connections/connections.hpp"
#include "opal/btl/sm/connections/endpoint.hpp"
#include "opal/btl/sm/helped/helped_initiator.hpp"
#include "opal/btl/sm/helped/helped_target.hpp"
#include "opal/btl/sm/messages/memory/inbox.hpp"
#include "opal/btl/sm/messages/receiver.hpp"
#include "opal/btl/sm/messages/sender.hpp"
#include "opal/core/export.hpp"

namespace opal::btl::sm {

class OPAL_EXPORT Module : public MessageTransport, private ConnectionUser {
 public:
  /// `devices`: for tests, instead of the kernel's.  Errors: invalid_argument (a variable), no_memory, no_space, os.
  static Result<std::unique_ptr<Module>> open(const ModuleParameters& parameters, const Config& config,
                                              std::optional<KernelDevices> devices = {});
  ~Module() override;

  [[nodiscard]] ByteSpan address() const noexcept override { return bytes_of(connections_.address()); }
  Result<btl::Endpoint*> connect(const PeerId& peer, ByteSpan address) override;
  void disconnect(btl::Endpoint& endpoint) noexcept override;

  // Final: a transport that derives from this one (smcuda) adds nothing to the path of a message.
  Post send_inline(btl::Endpoint& to, Tag tag, ByteSpan header, ByteSpan payload) noexcept final;
  Post send_beside(btl::Endpoint& to, Tag tag, ByteSpan header, ByteSpan payload) noexcept final;
  Fragment alloc(btl::Endpoint& to, std::size_t size) noexcept final;
  Post send(Fragment& fragment, Tag tag) noexcept final;
  void free(Fragment& fragment) noexcept final;

  Post transfer(RdmaOperation::Kind kind, btl::Endpoint& to, std::byte* here, const MemoryHandle* local,
                std::uint64_t remote_address, const MemoryHandle& remote, std::uint64_t size,
                Completion& completion) noexcept override;
  Post atomic(btl::Endpoint& to, const AtomicRequest& request, Completion& completion) noexcept override;

  std::size_t progress(std::size_t budget) noexcept final;
  std::size_t progress_from(btl::Endpoint& from, std::size_t budget) noexcept final;
  [[nodiscard]] int wait_fd() const noexcept override { return doorbell_.get(); }
  bool arm() noexcept override;

 protected:
  /// The parts of a module whose construction can fail.
  struct Parts {
    Attributes attributes;
    Config config;
    MechanismOrder order;
    KernelDevices devices;
    std::optional<TransferMode> forced_mode;  ///< btl_sm_large_get; none: auto
    Inbox inbox;
    Fd doorbell;
    bool fences;  ///< this process executes the fences of its senders (core/sync/asymmetric_fence.hpp)

    /// Errors: as open().
    static Result<Parts> make(const ModuleParameters& parameters, const Config& config,
                              std::optional<KernelDevices> devices = {});
  };
  /// For transports that derive from this one.  The caller calls offer() and start() next.
  Module(const ModuleParameters& parameters, Parts parts);
  /// Sets the features beyond sm that this module reports to peers: bits of kExtension...  Call before start().
  void offer(std::uint64_t extensions) noexcept { local_.offer(extensions); }
  /// The features that the peer has reported.
  [[nodiscard]] static std::uint64_t extensions(const btl::Endpoint& peer) noexcept;
  /// Sets the handler of help requests and starts the connection manager.  Errors: limit_reached, os.
  Result<void> start();

  /// Makes each progress() call attend(), until attend() returns false.
  void want_attention() noexcept { deferred_work_ = true; }
  /// Progress of the derived transport.  Adds its events to `count`.  True: call again at the next progress().
  virtual bool attend(std::size_t& /*count*/) noexcept { return false; }
  /// Called when the endpoint has failed or is being disconnected: ends the operations in flight on it with `why`.
  virtual void abandon(btl::Endpoint& /*endpoint*/, const Error& /*why*/) noexcept {}

  /// Descriptors travel over the socket.  The side that needs one calls expect_file() and then sends a request in a
  /// message of its own.  The peer answers with give_file(); `file` stays the caller's, -1: refused.  on_file() gets
  /// the answer.  No answer comes if the peer ends or a socket is full.
  void expect_file(const btl::Endpoint& from) noexcept;
  void give_file(const btl::Endpoint& to, const SoftwareHandle& region, const FileNote& note, int file) noexcept;
  void on_file(btl::Endpoint& /*from*/, ReceivedHello& /*answer*/) noexcept override {}
  /// Checks in the peer's registration table that it allows the access.
  /// Errors: those of the endpoint if it is dead, peer_gone, protocol, invalid_argument, permission.
  static Result<void> check_remote(btl::Endpoint& to, const MemoryHandle& remote, std::uint64_t address,
                                   std::uint64_t size, Rights wanted) noexcept;

 private:
  friend struct TestAccess;

  // ConnectionUser
  void on_new(Endpoint& endpoint) noexcept override;
  void drain(Endpoint& endpoint) noexcept override;
  void end_operations(Endpoint& endpoint, const Error& why) noexcept override;

  static void on_help_request(void* unused, Delivery& delivery) noexcept;
  std::size_t do_deferred_work() noexcept;
  [[nodiscard]] bool has_work() noexcept;
  void disarm() noexcept;
  [[gnu::cold]] void lose_descriptors() noexcept;

  const Config config_;
  Fd doorbell_;
  LocalSide local_;
  Connections connections_;
  Receiver receiver_;
  Sender sender_;
  HelpedInitiator initiator_;
  HelpedTarget target_;
  std::uint32_t sleep_ = 0;     // number of the last sleep, never 0 after the first; see InboxHeader::sleeping
  bool armed_ = false;          // since arm() returned true
  bool deferred_work_ = false;  // progress() must call do_deferred_work()
  bool in_progress_ = false;    // progress() or progress_from() runs
};

}  // namespace opal::btl::sm
