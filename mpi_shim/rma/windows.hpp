// SPDX-License-Identifier: Apache-2.0
// mpi_shim/rma/windows.hpp — all windows of this process on one VCI.  It dispatches the messages of peers to their
// windows, and holds the accesses in flight.
// Owned by its VCI; borrows the engine and the windows.  Threads: under the Context's lock, unless a function says
// that it takes the lock.
#pragma once
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "mpi_shim/attribute/attributes.hpp"
#include "mpi_shim/base/object_pool.hpp"
#include "mpi_shim/p2p/engine.hpp"
#include "mpi_shim/p2p/transfer_table.hpp"
#include "mpi_shim/rma/config.hpp"
#include "mpi_shim/rma/message_access.hpp"
#include "mpi_shim/rma/target/attention.hpp"
#include "mpi_shim/rma/transfer.hpp"
#include "mpi_shim/rma/wire.hpp"

namespace mpi_shim::rma {

class Window;

class Windows final : private p2p::PollingObserver {
 public:
  /// Sets the handlers of the tags of wire.hpp; the destructor clears them.  `helper`: want_helper() may start a
  /// thread, since the Context is open at thread level `multiple`.  Errors: limit_reached (a tag has a handler
  /// already).
  static Result<std::unique_ptr<Windows>> open(p2p::Engine& engine, const Config& config, bool helper);
  ~Windows();

  [[nodiscard]] p2p::Engine& engine() noexcept { return engine_; }

  [[nodiscard]] const Config& config() const noexcept { return config_; }

  /// Starts the helper, a thread that makes progress while the application is outside MPI, so that peers can access
  /// windows of this process.  No effect if it runs already or open() has not allowed it; if it cannot start, logs a
  /// warning.  Takes the lock.
  void want_helper();
  /// Ends the helper, in MPI_Finalize.  Requires: the lock is not held, since the thread may need it.
  void end_helper() noexcept { helper_ = {}; }

  /// Between add() and remove(), messages of peers for the window are handled.  Both take the lock.
  void add(Window& window);
  void remove(Window& window) noexcept;
  /// Until remove(), this process sets its Attention in the window (target/attention.hpp).
  void attend(Window& window);

  Transfer& new_transfer() { return transfers_.take(*this); }
  MessageAccess& new_message_access() { return message_accesses_.take(*this); }

  /// Whether a put or get of the transport that this process has started is in flight.
  [[nodiscard]] bool is_transferring() const {
    return transfers_.any([](const Transfer& transfer) { return transfer.active() && !transfer.done(); });
  }

  /// Ends all message accesses to a failed peer with MPI_ERR_PROC_ABORTED, and marks it as failed in all windows.
  void peer_failed(p2p::Peer& peer) noexcept;

 private:
  friend class Transfer;
  friend class MessageAccess;

  Windows(p2p::Engine& engine, const Config& config, bool helper) noexcept
      : engine_(engine), config_(config), may_help_(helper) {}
  Result<void> install();

  void on_polling() noexcept override { set_attention(Attention::State::polls); }
  void on_polling_end() noexcept override;
  void on_sleep() noexcept override { set_attention(Attention::State::sleeps); }
  void on_sleep_end() noexcept override { set_attention(Attention::State::computes); }
  void set_attention(Attention::State state) noexcept;

  /// The window with this number; null if there is none, or if the sender of the message is not its rank `rank`.
  Window* find(const btl::Delivery& delivery, std::uint32_t window, std::int32_t rank) noexcept;
  void on_signal(btl::Delivery& delivery) noexcept;
  void on_lock(btl::Delivery& delivery) noexcept;
  void on_access(btl::Delivery& delivery) noexcept;
  void on_access_reply(btl::Delivery& delivery) noexcept;
  /// Logs that a message is dropped.
  static void refuse(const btl::Delivery& delivery, const char* why) noexcept;

  p2p::Engine& engine_;
  const Config config_;
  const bool may_help_;
  std::jthread helper_;
  std::vector<Window*> windows_;   // by number; null if there is no such window
  std::vector<Window*> attended_;  // see attend()
  ObjectPool<Transfer, Windows> transfers_;
  ObjectPool<MessageAccess, Windows> message_accesses_;
  p2p::TransferTable<MessageAccess> under_way_;
};

}  // namespace mpi_shim::rma
