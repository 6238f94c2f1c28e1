// SPDX-License-Identifier: Apache-2.0
// opal/btl/rails/module.hpp — several modules of one transport, each on a device of its own, as one module.
// Rail i of one side reaches rail i of the other.  Messages take one rail, and another when that breaks
// (endpoint.hpp).  Large puts and gets are cut into pieces that take all rails; a piece whose rail breaks goes again by
// another, which does no harm: it writes the same bytes to the same place.  Atomics go as messages and are carried out
// by the owner's processor: two devices' atomics are not atomic with each other, and one whose answer was lost could
// not be repeated.  A peer is dead when no rail reaches it.
// Threads: as btl::Module.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "opal/btl/component.hpp"
#include "opal/btl/rails/endpoint.hpp"
#include "opal/btl/rails/transfers.hpp"
#include "opal/btl/shared/connected_transport.hpp"
#include "opal/btl/shared/pipelined_transfers.hpp"
#include "opal/core/export.hpp"
#include "opal/core/system/fd.hpp"

namespace opal::btl::rails {

inline constexpr std::size_t kMostRails = 4;

class OPAL_EXPORT Module final : public ConnectedTransport<Endpoint> {
 public:
  /// Opens the module of one rail with the host that it is given.
  using Opener = std::function<Result<std::unique_ptr<btl::Module>>(const Host& below, std::size_t rail)>;

  /// Opens `count` rails; those behind the first that do not open are left out, with a warning.  Errors: of the first.
  static Result<std::unique_ptr<Module>> open(const Host& host, std::size_t count, const Opener& opener);
  ~Module() override;

  [[nodiscard]] const std::vector<std::unique_ptr<btl::Module>>& rails() const noexcept { return below_.modules; }
  /// Whether the peer of a rail's endpoint may be reached by another rail.
  [[nodiscard]] bool has_other_route(const btl::Endpoint& below) const noexcept;

  [[nodiscard]] ByteSpan address() const noexcept override { return address_; }
  Result<btl::Endpoint*> connect(const PeerId& peer, ByteSpan address) override;

  Post send_inline(btl::Endpoint& to, Tag tag, ByteSpan header, ByteSpan payload) noexcept override;

  Result<MemoryHandle> register_memory(void* base, std::uint64_t size, Rights rights) override;
  Result<void> deregister_memory(const MemoryHandle& handle) override;
  void invalidate_memory(const MemoryHandle& handle) noexcept override;
  void invalidate_memory_part(const MemoryHandle& handle, memory::Range gone) noexcept override;
  Post atomic(btl::Endpoint& to, const AtomicRequest& request, Completion& completion) noexcept override;
  Post flush(btl::Endpoint* to, Completion& completion) noexcept override;
  [[nodiscard]] PipelinedTransfers* transfers() noexcept override { return &pipelined_; }

  [[nodiscard]] int wait_fd() const noexcept override { return epoll_.get(); }

  // For endpoints and transfers.
  [[nodiscard]] btl::Module& rail(std::uint32_t index) const noexcept { return *below_.modules[index]; }
  void deliver(Endpoint& from, Tag tag, ByteSpan data) noexcept;
  /// It has something to settle.
  void attend(Endpoint& endpoint) noexcept;
  /// An endpoint of a rail without a reference.
  void retire(btl::Endpoint& below) noexcept;
  /// Whether what the rail has for this peer is about to be disconnected, and no connection for `wanted`.
  [[nodiscard]] bool is_ending(const btl::Endpoint& below, const Route& wanted) const noexcept;
  /// The one below now belongs to an endpoint's route.
  void adopt(btl::Endpoint& below, Route& route) noexcept;

 private:
  std::size_t receive(std::size_t budget) noexcept override;
  bool arm_wake_up() noexcept override;
  bool leave(Endpoint& endpoint, const Error& why) noexcept override;
  [[nodiscard]] bool has_left(const Endpoint& endpoint) const noexcept override { return endpoint.left; }
  void end_operations(Endpoint& endpoint, const Error& why) noexcept override;
  void close_in_child() noexcept override;
  /// What the rails are given as their host.
  struct Below final : Observer {
    void on_accepted(btl::Endpoint& route) noexcept override { rails->on_accepted(route); }
    void on_failed(btl::Endpoint& route, const Error& why) noexcept override { rails->on_failed(route, why); }
    void on_message(Delivery& delivery) noexcept { rails->on_message(delivery); }
    Module* rails = nullptr;
    HandlerTable handlers;
    std::vector<std::unique_ptr<btl::Module>> modules;  // before the table goes
  };
  Module(const Host& host, const Attributes& attributes, std::unique_ptr<Below> below, Fd epoll);

  void on_accepted(btl::Endpoint& route) noexcept;
  void on_failed(btl::Endpoint& route, const Error& why) noexcept;
  void on_message(Delivery& delivery) noexcept;
  void on_hello(Route& route, ByteSpan bytes, std::uint32_t made) noexcept;
  void enter(Route& incoming, const wire::Hello& hello, std::uint32_t made,
             std::vector<std::vector<std::byte>> ways) noexcept;
  void forget(const Route& incoming) noexcept;
  Post transfer(RdmaOperation::Kind kind, btl::Endpoint& to, std::byte* local, const MemoryHandle* local_handle,
                std::uint64_t remote_address, const MemoryHandle& remote, std::uint64_t size,
                Completion& completion) noexcept override;
  [[nodiscard]] std::size_t settle() noexcept;
  void end(Endpoint& endpoint) noexcept;

  std::unique_ptr<Below> owned_below_;
  Below& below_;
  Fd epoll_;
  std::vector<std::byte> address_;
  Transfers striped_;
  PipelinedTransfers pipelined_;
  std::vector<std::unique_ptr<Route>> without_hello_;
  std::vector<Endpoint*> attention_;
  std::vector<btl::Endpoint*> retired_;
  bool closing_ = false;
  std::size_t events_ = 0;
};

/// Component::open of a transport that may be used over several devices: one module as it is, more as rails.
OPAL_EXPORT Result<Modules> open_rails(const Host& host, std::size_t count, const Module::Opener& opener);

}  // namespace opal::btl::rails
