// SPDX-License-Identifier: Apache-2.0
// opal/btl/rails/module.hpp — several modules of one transport (rails), each on its own device, used as one module.
// Rail i of one side connects to rail i of the other side.
// * Messages use one rail at a time; when it fails, they move to another (endpoint.hpp).
// * Large puts and gets are cut into pieces over all rails.  A piece of a failed rail is posted again on another rail
//   (transfers.hpp); it writes the same bytes to the same place.
// * Atomics are emulated: the target's processor executes them.  Atomics of two devices are not atomic with each other,
//   and an atomic whose answer was lost could not be repeated.
// A peer is dead when no rail reaches it.
// Owns the rails' modules and acts as their opener: they report to it, not to the Context.  Threads: as btl::Module.
#pragma once
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "opal/btl/component.hpp"
#include "opal/btl/rails/endpoint.hpp"
#include "opal/btl/rails/transfers.hpp"
#include "opal/btl/shared/connected_transport.hpp"
#include "opal/btl/shared/waiting.hpp"
#include "opal/core/export.hpp"

namespace opal::btl::rails {

inline constexpr std::size_t kMostRails = 4;

class OPAL_EXPORT Module final : public ConnectedTransport<Endpoint>, private Observer {
 public:
  /// Opens the module of rail number `rail`, with `below` as its ModuleParameters.
  using Opener = std::function<Result<std::unique_ptr<btl::Module>>(const ModuleParameters& below, std::size_t rail)>;

  /// Opens `count` >= 1 rails, at most kMostRails.  If a rail other than the first fails to open, it and all after it
  /// are left out, with a warning.  Errors: of opening the first rail, os.
  static Result<std::unique_ptr<Module>> open(const ModuleParameters& parameters, std::size_t count,
                                              const Opener& opener);
  ~Module() override;

  [[nodiscard]] const std::vector<std::unique_ptr<btl::Module>>& rails() const noexcept { return modules_; }
  /// True when another rail than that of `below` is connected to the same peer, or has not been tried yet.
  [[nodiscard]] bool has_other_route(const btl::Endpoint& below) const noexcept;

  [[nodiscard]] ByteSpan address() const noexcept override { return address_; }
  Result<btl::Endpoint*> connect(const PeerId& peer, ByteSpan address) override;

  Post send_inline(btl::Endpoint& to, Tag tag, ByteSpan header, ByteSpan payload) noexcept override;

  Result<MemoryHandle> register_memory(void* base, std::uint64_t size, Rights rights) override;
  Result<void> deregister_memory(const MemoryHandle& handle) override;
  void invalidate_memory(const MemoryHandle& handle) noexcept override;
  void invalidate_memory_part(const MemoryHandle& handle, memory::Range gone) noexcept override;
  Post atomic(btl::Endpoint& to, const AtomicRequest& request, Completion& completion) noexcept override;

  void begin_batch() noexcept override;
  void end_batch() noexcept override;
  [[nodiscard]] int wait_fd() const noexcept override { return waiting_.fd(); }

  // For rails::Endpoint and Transfers.
  [[nodiscard]] btl::Module& rail(std::uint32_t index) const noexcept { return *modules_[index]; }
  void deliver(Endpoint& from, Tag tag, ByteSpan data) noexcept;
  /// Makes the next progress() call endpoint.settle().
  void settle_later(Endpoint& endpoint) noexcept;
  /// Makes the next settle() disconnect a rail's endpoint: disconnect() is not allowed inside a handler.  Messages that
  /// still arrive on it are dropped.
  void retire(btl::Endpoint& below) noexcept;
  /// True when `below`, which a rail's connect() returned for the route `wanted`, is of no use to it: it is retired or
  /// belongs to another endpoint of this module, and is disconnected soon.
  [[nodiscard]] bool is_ending(const btl::Endpoint& below, const Route& wanted) const noexcept;
  /// Makes `below` the rail's endpoint of `route`.
  void adopt(btl::Endpoint& below, Route& route) noexcept;

 private:
  std::size_t receive(std::size_t budget) noexcept override;
  bool arm_wake_up() noexcept override;
  bool leave(Endpoint& endpoint, const Error& why) noexcept override;
  [[nodiscard]] bool has_left(const Endpoint& endpoint) const noexcept override { return endpoint.left; }
  void end_operations(Endpoint& endpoint, const Error& why) noexcept override;
  void close_in_child() noexcept override;
  Module(const ModuleParameters& parameters, Waiting waiting)
      : ConnectedTransport(parameters, {}), waiting_(std::move(waiting)), striped_(*this, emulation(), operations()) {}
  /// Opens the rails; sets what depends on them.
  Result<void> open_below(std::size_t count, const Opener& opener);

  void on_accepted(btl::Endpoint& route) noexcept override;
  void on_failed(btl::Endpoint& route, const Error& why) noexcept override;
  void on_message(Delivery& delivery) noexcept { take(delivery.from, delivery.data); }
  void take(btl::Endpoint& below, ByteSpan message) noexcept;
  /// Keeps the message for settle(), which calls take() again.
  void hold(btl::Endpoint& below, ByteSpan message);
  void drop_held(const btl::Endpoint& below) noexcept;
  void on_hello(Route& route, ByteSpan message, std::uint32_t connection) noexcept;
  void enter(Route& incoming, const wire::Hello& hello, std::uint32_t connection,
             std::vector<std::vector<std::byte>> addresses, ByteSpan message) noexcept;
  void forget(const Route& incoming) noexcept;
  Post transfer(RdmaOperation::Kind kind, btl::Endpoint& to, std::byte* local, const MemoryHandle* local_handle,
                std::uint64_t remote_address, const MemoryHandle& remote, std::uint64_t size,
                Completion& completion) noexcept override;
  [[nodiscard]] std::size_t settle() noexcept;
  void end(Endpoint& endpoint) noexcept;

  HandlerTable handlers_;                              // of the rails
  std::vector<std::unique_ptr<btl::Module>> modules_;  // the rails
  Waiting waiting_;                                    // over wait_fd() of all rails
  std::vector<std::byte> address_;
  Transfers striped_;
  std::vector<std::unique_ptr<Route>> without_hello_;  // accepted by a rail; no hello so far
  std::vector<Endpoint*> attention_;                   // see settle_later()
  std::vector<btl::Endpoint*> retired_;                // see retire()
  // A hello that waits for the report of an older endpoint's end, and the messages after it.
  std::vector<std::pair<btl::Endpoint*, std::vector<std::byte>>> held_;
  bool closing_ = false;    // the destructor runs: no new peers
  std::size_t events_ = 0;  // of the current receive()
};

/// For Component::open: returns the module of one device as it is if `count` <= 1, else a Module over `count` rails.
OPAL_EXPORT Result<Modules> open_rails(const ModuleParameters& parameters, std::size_t count,
                                       const Module::Opener& opener);

}  // namespace opal::btl::rails
