// SPDX-License-Identifier: Apache-2.0
// mpi_shim/rma/target/target.hpp — the state that this process has of one rank of a window: location of the memory,
// path to it, open epochs and accesses in flight.
// Owned by its Window; addresses are stable.  Threads: under the Context's lock, except for the atomics.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "mpi_shim/base/names.hpp"
#include "mpi_shim/p2p/peer.hpp"
#include "mpi_shim/p2p/stalled.hpp"
#include "mpi_shim/rma/target/control.hpp"

namespace mpi_shim::rma {

class MessageAccess;
class Window;

enum class Direction : std::uint8_t { put, get };

struct AttachedRegion {
  std::uint64_t base = 0;            ///< address in the owner's memory
  std::uint64_t size = 0;            ///< bytes
  std::uint64_t key_size = 0;        ///< bytes of `key` in use
  std::array<std::byte, 192> key{};  ///< of its registration; the longest keys are those of GPU memory

  [[nodiscard]] bool contains(std::uint64_t address, std::uint64_t length) const noexcept {
    return address >= base && address - base <= size && length <= size - (address - base);
  }
};

/// The table of the regions that one rank has attached to a dynamic window.  It is in memory shared by the ranks of a
/// host, which read it and then access the regions without help of the owner.  It has at most kMost regions and only
/// those with a key.  For an address that is not in it the origin sends access messages.  All-zero bytes are a table
/// without regions.  Threads: the owner's UpdateLock guards all but `version`.
struct AttachedTable {
  static constexpr std::uint32_t kMost = 1024;

  std::atomic<std::uint32_t> version{0};  ///< changes with the table, so that a reader can keep a copy
  std::uint32_t count = 0;                ///< a reader does not trust it to be at most kMost, nor a key_size
  std::array<AttachedRegion, kMost> regions{};
};

struct Target {
  /// How this process accesses the target's memory (docs/design/rma.md).
  enum class Path : std::uint8_t {
    unknown,    ///< no access yet
    mapped,     ///< loads and stores
    one_sided,  ///< the transport's put and get, without progress of the target; updates under the UpdateLock
    messages,   ///< the transport's put and get for few blocks, else access messages: the target has to make progress
  };
  /// How the access lock is held; unchecked: an epoch with MPI_MODE_NOCHECK, without the lock.
  enum class LockMode : std::uint8_t { nothing, shared, exclusive, unchecked };

  p2p::Peer* peer = nullptr;
  std::uint64_t base = 0;       ///< address of the window memory in the target's process
  std::uint64_t size = 0;       ///< bytes
  std::int64_t disp_unit = 1;   ///< bytes
  std::byte* mapped = nullptr;  ///< the window memory in this process; null if it is not mapped here
  Control* control = nullptr;   ///< null if not shared with this process: lock requests go to the target
  Claim* claims = nullptr;      ///< on control->access, by place among the ranks of this host
  std::vector<std::byte> key;   ///< of the target's registration; empty if there is none that is usable here
  const AttachedTable* attached = nullptr;  ///< dynamic windows: the target's table; null if it is not shared
  std::atomic<Path> path{Path::unknown};
  /// How this process holds the target's access lock: by MPI_Win_lock or MPI_Win_lock_all.
  std::atomic<LockMode> held{LockMode::nothing};
  bool started = false;  ///< in the group of MPI_Win_start

  MessageCount* sent = nullptr;            ///< counted messages of this process to it; null: none are sent
  const MessageCount* received = nullptr;  ///< counted messages of it to this process; null: none are expected
  std::uint32_t executed = 0;              ///< of `received`
  std::atomic<std::uint32_t> pending{0};   ///< accesses to it that are not complete
  std::atomic<std::uint32_t> posts{0};     ///< its MPI_Win_post to this process that no MPI_Win_start has consumed yet
  /// Its MPI_Win_complete to this process, less the exposure epochs to it that have ended.  Negative: an epoch has
  /// ended with an error before the MPI_Win_complete.
  std::atomic<std::int32_t> completions{0};
  std::atomic<bool> granted{false};         ///< it has answered the LockRequest of this process: granted
  std::atomic<bool> refused{false};         ///< it has answered the LockRequest of this process: refused
  std::atomic<std::uint32_t> unlocking{0};  ///< unlock messages to it that are not answered yet
  std::atomic<bool> failed{false};          ///< its process has failed
  bool asks = false;                        ///< its LockRequest waits in this process
  LockMode granted_to = LockMode::nothing;  ///< how this process holds its own lock on behalf of that rank
  int error = 0;                            ///< the first error class of an access to it since the last synchronisation

  /// Access messages to the target, in the order of the calls; all accesses in it have pieces left to send.
  struct Queue : p2p::Stalled {
    Window* window = nullptr;
    Target* target = nullptr;
    std::uint32_t in_flight = 0;  ///< pieces that are not answered yet
    std::deque<MessageAccess*> accesses;
  };
  /// The part of the state that only accesses need.  It is allocated at the first access, since a process accesses few
  /// targets of a large window.
  struct Accessed {
    MemoryHandle handle;                              ///< made of `key`; valid unless that is empty
    std::vector<AttachedRegion> regions;              ///< copy of the table `attached`
    std::atomic<std::uint32_t> regions_version{~0U};  ///< version of that copy
    std::uint32_t while_asleep = 0;                   ///< direct accesses while the target slept, modulo 2^32
    Queue queue;
  };
  std::unique_ptr<Accessed> accessed;  ///< null while `path` is unknown

  /// Records the error of an access, unless there is an earlier one.
  void note(int error_class) noexcept {
    if (error == 0) error = error_class;
  }
};

}  // namespace mpi_shim::rma
