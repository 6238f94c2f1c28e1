// SPDX-License-Identifier: Apache-2.0
// opal/btl/portals4/module.hpp — a Portals 4 interface.  Messages are puts into match list entries that manage their
// offsets, with flow control; puts, gets and atomics go to the match list entry of a registration.
// Handshake and credits: rdm/transport.hpp.  Reasons: docs/design/portals4.md.  Threads: as btl::Module.
#pragma once
#include <deque>
#include <memory>
#include <type_traits>
#include <vector>

#include "opal/btl/portals4/config.hpp"
#include "opal/btl/portals4/device/interface.hpp"
#include "opal/btl/portals4/device/wake_up.hpp"
#include "opal/btl/portals4/memory/memory.hpp"
#include "opal/btl/portals4/messages/flows.hpp"
#include "opal/btl/portals4/messages/receive_buffers.hpp"
#include "opal/btl/portals4/one_sided.hpp"
#include "opal/btl/shared/rdm/transport.hpp"

namespace opal::btl::portals4 {

inline constexpr std::uint32_t kMagic = 0x34747020;  ///< of this transport's addresses

/// The address of a module in the network, which is part of its address.  Each change requires a new
/// wire::kWireVersion.
struct Name {
  std::uint32_t nid;
  std::uint32_t pid;
  std::uint32_t message_entry;  ///< index in the portal table
  std::uint32_t memory_entry;

  [[nodiscard]] ptl_process_t process() const noexcept {
    ptl_process_t process{};
    process.phys.nid = nid;
    process.phys.pid = pid;
    return process;
  }
};
static_assert(sizeof(Name) == 16 && std::has_unique_object_representations_v<Name>, "wire layout v1");

/// Requires: Module::reach() has checked the address.
inline Name name_of(const rdm::Address& address) noexcept {
  Name name{};
  (void)read_object(ByteSpan{address.name}, name);
  return name;
}

class OPAL_EXPORT Module final : public rdm::Transport {
 public:
  /// Errors: not_supported (no library), no_memory, os, and those of error_of().
  static Result<std::unique_ptr<Module>> open(const ModuleParameters& parameters, const Config& config);
  /// Waits at most kCloseTimeout for the end of posted messages.
  ~Module() override;

  [[nodiscard]] Memory& memory() noexcept override { return memory_; }
  // For OneSided.
  [[nodiscard]] const Interface& interface() const noexcept { return interface_; }
  [[nodiscard]] const Objects& objects() const noexcept { return objects_; }
  [[nodiscard]] std::uint64_t max_request() const noexcept { return max_request_; }
  /// Takes events of own operations; handles those for which OneSided waits, and keeps the others for progress().
  void collect_events() noexcept;

  [[nodiscard]] const char* log_name() const noexcept override { return "btl.portals4"; }
  [[nodiscard]] std::string describe_network() const override;
  Result<std::uint64_t> reach(const rdm::Address& address) override;
  bool transmit(rdm::Endpoint& to, rdm::SendBuffer& buffer, std::size_t size) noexcept override;

 private:
  Module(const ModuleParameters& parameters, const Config& config, Parts parts, const Interface& interface,
         Objects objects, ReceiveBuffers receive_buffers, std::unique_ptr<WakeUp> wake_up);
  bool poll_network() noexcept override;
  bool arm_network() noexcept override;
  [[nodiscard]] bool must_poll() const noexcept override { return out_of_buffers_; }
  void resume_network() noexcept override;
  [[nodiscard]] bool has_atomic(AtomicOp op, AtomicType type) const noexcept override {
    return OneSided::has(op, type);
  }
  Post post_piece(RdmaOperation& operation) noexcept override { return one_sided_.post(operation); }
  void drop_pieces(const rdm::Endpoint& endpoint) noexcept override { one_sided_.drop(endpoint); }
  void close_in_child() noexcept override;

  // progress.cpp
  bool post(SendBuffer& buffer, const Name& to, std::uint64_t number) noexcept;
  Flow& flow_of(std::uint32_t slot, std::uint32_t key);
  bool next_event(WakeUp::Event& event) noexcept;
  void on_event(const WakeUp::Event& event) noexcept;
  void on_arrival(const ptl_event_t& event) noexcept;
  void on_put(ByteSpan message, std::uint64_t number) noexcept;
  void on_sent_event(SendBuffer& buffer, const ptl_event_t& event) noexcept;
  void repeat(std::uint32_t slot) noexcept;
  /// Waits for the events of own operations, at most kCloseTimeout: the interface must not deliver one to a queue that
  /// has been freed.  If some do not come, the objects of the interface stay.
  void wait_for_ends() noexcept;

  const Interface& interface_;
  Objects objects_;
  const std::uint64_t max_request_;
  std::deque<SendBuffer> buffers_;
  ReceiveBuffers receive_buffers_;
  std::unique_ptr<WakeUp> wake_up_;
  Memory memory_;
  OneSided one_sided_;
  std::deque<Flow> flows_;           // by slot of the endpoint
  std::deque<WakeUp::Event> early_;  // events that were taken outside of progress()
  std::size_t in_flight_ = 0;        // messages without their event
  bool out_of_buffers_ = false;      // receive buffers are to be posted
  bool disabled_ = false;            // the interface refuses messages until the entry is enabled
};

}  // namespace opal::btl::portals4
