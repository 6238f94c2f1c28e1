// SPDX-License-Identifier: Apache-2.0
// mpi_shim/rma/windows.hpp — all windows of this process on one VCI: finds the one that a peer's message names, knows
// the accesses in flight and the datatypes that peers and this process have described to each other. Owned by its VCI.
// Threads: under the Context's lock.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "mpi_shim/attribute/attributes.hpp"
#include "mpi_shim/base/object_pool.hpp"
#include "mpi_shim/datatype/datatype.hpp"
#include "mpi_shim/p2p/engine.hpp"
#include "mpi_shim/p2p/transfer_table.hpp"
#include "mpi_shim/rma/config.hpp"
#include "mpi_shim/rma/message_access.hpp"
#include "mpi_shim/rma/progress_helper.hpp"
#include "mpi_shim/rma/transfer.hpp"
#include "mpi_shim/rma/wire.hpp"

namespace mpi_shim::rma {

class Window;

class Windows {
 public:
  /// Takes the tags of wire.hpp.  `helper`: a thread may progress, the Context is open for several.  Errors:
  /// limit_reached (another one has them).
  static Result<std::unique_ptr<Windows>> open(p2p::Engine& engine, const Config& config, bool helper);
  ~Windows();
  Windows(const Windows&) = delete;
  Windows& operator=(const Windows&) = delete;

  [[nodiscard]] p2p::Engine& engine() noexcept { return engine_; }

  [[nodiscard]] const Config& config() const noexcept { return config_; }

  /// There is a window whose accesses may need this process: starts the thread that helps, if there is to be one.
  void want_helper();
  /// Before MPI ends.
  void end_helper() noexcept { helper_.reset(); }

  /// From here on, peers' messages for the window are served.
  void add(Window& window);
  void remove(Window& window) noexcept;

  Transfer& new_transfer() { return transfers_.take(*this); }
  MessageAccess& new_message_access() { return message_accesses_.take(*this); }

  /// Whether a put or get that this process has started is in flight; under the Context's lock.
  [[nodiscard]] bool is_transferring() const {
    return transfers_.any([](const Transfer& transfer) { return transfer.active() && !transfer.done(); });
  }

  /// Ends everything in flight with a process that is gone.
  void peer_failed(p2p::Peer& peer) noexcept;

 private:
  friend class Transfer;
  friend class MessageAccess;

  /// Datatypes of one peer: those described to it and those that it has described.
  struct Types {
    struct Described {
      datatype::DatatypeRef type;
      std::uint32_t users = 0;  // accesses that still name the slot
    };
    struct Received {
      datatype::DatatypeRef type;
      std::vector<std::byte> bytes;  // of a description that is not complete
    };
    std::array<Described, wire::kTypeSlots> sent;
    std::array<Received, wire::kTypeSlots> received;
    std::uint32_t next = 0;
  };

  Windows(p2p::Engine& engine, const Config& config, bool helper) noexcept
      : engine_(engine), config_(config), may_help_(helper) {}
  Result<void> install();

  /// The slot under which the peer knows `type`, describing it first if need be; counted as used until release_type().
  /// Errors: busy (all slots are in use), limit_reached (the description is too long).
  Result<std::uint32_t> describe_type(p2p::Peer& peer, const datatype::Datatype& type);
  void release_type(p2p::Peer& peer, std::uint32_t slot) noexcept;

  /// The window and, checked, that the message's sender is its rank `rank`.
  Window* find(const btl::Delivery& delivery, std::uint32_t window, std::int32_t rank) noexcept;
  void on_signal(btl::Delivery& delivery) noexcept;
  void on_lock(btl::Delivery& delivery) noexcept;
  void on_type(btl::Delivery& delivery) noexcept;
  void on_access(btl::Delivery& delivery) noexcept;
  void on_access_reply(btl::Delivery& delivery) noexcept;
  static void refuse(const btl::Delivery& delivery, const char* why) noexcept;

  p2p::Engine& engine_;
  const Config config_;
  const bool may_help_;
  std::unique_ptr<ProgressHelper> helper_;
  std::vector<Window*> windows_;  // by number
  ObjectPool<Transfer, Windows> transfers_;
  ObjectPool<MessageAccess, Windows> message_accesses_;
  p2p::TransferTable<MessageAccess> under_way_;
  std::unordered_map<const am::Endpoint*, Types> types_;
};

}  // namespace mpi_shim::rma
