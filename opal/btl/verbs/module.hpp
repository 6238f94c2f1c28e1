// SPDX-License-Identifier: Apache-2.0
// opal/btl/verbs/module.hpp — one RDMA device through libibverbs: reliable connections made on demand by the RDMA
// connection manager, one completion queue and one shared receive queue for all peers.  Credits ensure that each
// message finds a receive buffer.  Reasons: docs/design/verbs.md. If two sides connect to each other at once, the
// connection of the side with the lower PeerId remains. The observer gets peer_gone with errno 0 for a disconnect, and
// an error with an errno for a failure, as with tcp. Threads: as btl::Module.
#pragma once
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "opal/btl/shared/device_transport.hpp"
#include "opal/btl/shared/waiting.hpp"
#include "opal/btl/verbs/connections/listener.hpp"
#include "opal/btl/verbs/device/buffers.hpp"
#include "opal/btl/verbs/device/memory.hpp"
#include "opal/btl/verbs/endpoint.hpp"
#include "opal/core/system/fd.hpp"

namespace opal::btl::verbs {

class OPAL_EXPORT Module final : public DeviceTransport<Endpoint, DeviceTransfer> {
 public:
  /// `rail`: index of the device among the usable ones, from 0.
  /// Errors: unreachable (no address belongs to a device that may be used), limit_reached, not_supported, os.
  static Result<std::unique_ptr<Module>> open(const ModuleParameters& parameters, const Config& config,
                                              std::size_t rail);
  /// Waits at most kCloseTimeout for the acknowledgement of posted messages.
  ~Module() override;

  [[nodiscard]] ByteSpan address() const noexcept override { return bytes_of(address_); }
  Result<btl::Endpoint*> connect(const PeerId& peer, ByteSpan address) override;

  void begin_batch() noexcept override { ++batches_; }
  void end_batch() noexcept override;
  Fragment alloc(btl::Endpoint& to, std::size_t size) noexcept override;
  void free(Fragment& fragment) noexcept override;

  Result<MemoryHandle> register_memory(void* base, std::uint64_t size, Rights rights) override;
  Post flush(btl::Endpoint* to, Completion& completion) noexcept override;

  [[nodiscard]] int wait_fd() const noexcept override { return waiting_.fd(); }

  /// Returns true if another rail may reach the peer of an endpoint.  Then a port that goes down ends the connection at
  /// once; else the connection waits for the port to return.
  using HasOtherRail = std::function<bool(const btl::Endpoint&)>;
  void set_other_rails(HasOtherRail has_other_rail) noexcept { has_other_rail_ = std::move(has_other_rail); }

  // For endpoints.
  [[nodiscard]] const Config& config() const noexcept { return config_; }
  [[nodiscard]] Device& device() noexcept { return device_; }
  [[nodiscard]] rdma_event_channel& events() noexcept { return *listener_.channel; }
  [[nodiscard]] const wire::Address& wire_address() const noexcept { return address_; }
  [[nodiscard]] const SocketAddress& socket() const noexcept { return listener_.socket; }
  /// The request for a connection to `peer`, with its proof.
  [[nodiscard]] wire::Request make_request(wire::Purpose purpose, std::uint32_t window, const Nonce& nonce,
                                           const Secret& key, const PeerId& peer) const noexcept;
  /// Null: none is free, and no more can be made.
  Buffer* take_send_buffer() noexcept {
    Buffer* const buffer = send_buffers_.take();
    return buffer != nullptr ? buffer : make_send_buffers();
  }
  void give_back(Buffer& buffer) noexcept { send_buffers_.give_back(buffer); }
  /// Completions of the connection's queue pair go to `user` until leave(connection).
  void enter(const Connection& connection, Connection::Owner& user);
  void leave(const Connection& connection) noexcept;
  void on_broken() noexcept { some_broken_ = true; }
  [[nodiscard]] bool in_batch() const noexcept { return batches_ != 0; }
  /// Number of the progress() that is under way, from 1; 0: none is.
  [[nodiscard]] std::uint64_t round() const noexcept { return in_progress_ ? rounds_ : 0; }
  /// The endpoint has collected requests, which the end of the batch posts; or has none any more.
  void add_holder(Endpoint& endpoint) { holders_.push_back(&endpoint); }
  void remove_holder(const Endpoint& endpoint) noexcept { std::erase(holders_, &endpoint); }
  [[nodiscard]] Memory& memory() noexcept override { return memory_; }
  [[nodiscard]] std::size_t buffer_size() const noexcept { return send_buffers_.buffer_size(); }
  [[nodiscard]] std::uint64_t largest_request() const noexcept { return largest_request_; }
  void finish(RdmaOperation& operation, const Error& why) noexcept override;
  /// Makes the next progress() call Endpoint::resume() of all endpoints: something found no room, and no completion of
  /// its queue will trigger a retry.
  void on_stalled() noexcept { some_stalled_ = true; }
  /// The same for an operation that is to be finished.  arm() refuses a sleep before, since no event reports it.
  void on_failed() noexcept { some_stalled_ = some_failed_ = true; }
  /// Adds `count` receive buffers for a peer; false: the remaining room is reserved for peers that connect later.
  bool widen_window(std::uint32_t count) noexcept;
  void release_window(std::uint32_t window) noexcept { promised_receives_ -= window + reserve_; }

 private:
  std::size_t receive(std::size_t budget) noexcept override;
  bool arm_wake_up() noexcept override;
  bool leave(Endpoint& endpoint, const Error& why) noexcept override { return endpoint.leave(why); }
  [[nodiscard]] bool has_left(const Endpoint& endpoint) const noexcept override { return endpoint.left(); }
  void close_in_child() noexcept override;
  void drain_completion_events() noexcept;
  Module(const ModuleParameters& parameters, const Config& config, Listener listener, Device device, Waiting waiting,
         const wire::Address& address);

  [[nodiscard]] Way way_to(Endpoint& endpoint) noexcept override;
  [[nodiscard]] bool has_atomic(AtomicOp op, AtomicType type) const noexcept override;
  void start(RdmaOperation& operation) noexcept override;
  void drop(Endpoint& endpoint) noexcept override { endpoint.drop_one_sided_queue(); }

  // peers.cpp
  Result<std::uint32_t> reserve_window();
  Result<void> promise_receives(std::uint32_t count);
  Result<void> grow(BufferPool& pool, std::uint32_t count);
  Buffer* make_send_buffers() noexcept;
  void on_request(const CmEvent& event) noexcept;
  void accept_messages(CmId& id, const CmEvent& event, const wire::Request& request) noexcept;
  void accept_one_sided(CmId& id, const CmEvent& event, const wire::Request& request) noexcept;

  // progress.cpp
  void post_collected() noexcept;
  bool poll_completions() noexcept;
  void on_completion(const ibv_wc& wc) noexcept;
  void collect_events() noexcept;
  void collect_manager_events() noexcept;
  void collect_device_events() noexcept;
  void on_device_event(const ibv_async_event& event) noexcept;
  void on_device_gone(const char* what) noexcept;
  void post_receive(const Buffer& buffer) noexcept;

  const Config config_;
  Listener listener_;
  Device device_;
  Waiting waiting_;
  const wire::Address address_;
  const Secret key_;
  BufferPool receive_buffers_;
  BufferPool send_buffers_;
  const std::uint64_t message_memory_;  // bytes of message buffers of the process beyond which no window grows
  std::uint32_t most_sends_;
  const std::uint32_t reserve_;  // receive buffers for a peer beside its window
  std::uint32_t promised_receives_ = 0;
  const bool device_atomics_;
  std::uint64_t largest_request_ = 0;  // bytes of a put or get in one work request
  Memory memory_;
  std::unordered_map<std::uint32_t, Connection::Owner*> queues_;  // by number of the queue pair
  HasOtherRail has_other_rail_;
  Error gone_{};  // why the device has failed; code 0: it has not
  bool some_broken_ = false;
  bool some_stalled_ = false;
  bool some_failed_ = false;
  std::vector<Endpoint*> resuming_;  // copied from living(): a completion of a failed operation may connect to a peer
  bool armed_ = false;
  bool poll_events_now_ = true;  // in the next progress()
  std::size_t batches_ = 0;      // open batches
  std::uint64_t rounds_ = 0;
  bool in_progress_ = false;
  std::vector<Endpoint*> holders_;  // endpoints with collected requests
  std::uint32_t idle_rounds_ = 0;   // consecutive rounds without a completion
  std::uint32_t busy_rounds_ = 0;
  std::vector<ibv_wc> early_;  // completions that arm_wake_up() polled; the next progress() handles them
};

}  // namespace opal::btl::verbs
