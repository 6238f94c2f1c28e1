// SPDX-License-Identifier: Apache-2.0
// mpi_shim/rma/target/target.hpp — one rank of a window as this process sees it: where its memory is, how to get there,
// which epochs are open towards it and what is in flight. Owned by its Window; addresses are stable.  Threads: under
// the Context's lock, but for the atomics.
#pragma once
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "mpi_shim/base/names.hpp"
#include "mpi_shim/p2p/peer.hpp"
#include "mpi_shim/p2p/stalled.hpp"
#include "mpi_shim/rma/target/attached.hpp"
#include "mpi_shim/rma/target/control.hpp"

namespace mpi_shim::rma {

class MessageAccess;
class Window;

enum class Direction : std::uint8_t { put, get };

struct Target {
  /// How its memory is accessed.
  enum class Path : std::uint8_t {
    unknown,    ///< not asked yet
    mapped,     ///< loads and stores
    one_sided,  ///< the transport's put and get, which need no help of the target; updates under the shared lock
    messages,   ///< put and get for blocks, access messages for everything else: the owner has to progress
  };
  enum class Held : std::uint8_t { nothing, shared, exclusive, unchecked };

  p2p::Peer* peer = nullptr;
  std::uint64_t base = 0;  ///< its address in the owner's memory
  std::uint64_t size = 0;
  std::int64_t disp_unit = 1;
  std::byte* mapped = nullptr;              ///< where its memory is here; null when it is not
  Control* control = nullptr;               ///< null for another host's: the owner is asked
  Claim* claims = nullptr;                  ///< to control->access, by place among the ranks of this host
  std::vector<std::byte> key;               ///< of the owner's registration; empty when none is needed
  const AttachedTable* attached = nullptr;  ///< dynamic windows, on this host: what its owner has attached
  std::atomic<Path> path{Path::unknown};
  std::atomic<Held> held{Held::nothing};  ///< by MPI_Win_lock, or within MPI_Win_lock_all
  bool started = false;                   ///< in the group of MPI_Win_start

  std::atomic<std::uint32_t> pending{0};    ///< accesses that are not complete
  std::atomic<std::uint32_t> posts{0};      ///< exposures to us that MPI_Win_start has not taken yet
  std::atomic<bool> granted{false};         ///< the answer to our LockRequest
  std::atomic<bool> refused{false};         ///< the other answer
  std::atomic<std::uint32_t> unlocking{0};  ///< unlocks that are not answered yet
  std::atomic<bool> failed{false};          ///< its process is gone
  bool asks = false;                        ///< waits for our own lock
  Held granted_to = Held::nothing;          ///< of our own lock, on its behalf
  int error = 0;                            ///< the first error class of an access since the last synchronisation

  /// Access messages: in the order of the calls; the first access has pieces left to send.
  struct Queue : p2p::Stalled {
    Window* window = nullptr;
    Target* target = nullptr;
    bool stalled = false;         ///< progress tries again
    std::uint32_t in_flight = 0;  ///< pieces not answered yet
    std::deque<MessageAccess*> accesses;
  };
  /// What an access needs.  Of a large window a process accesses few targets, so it is made at the first access.
  struct Accessed {
    MemoryHandle handle;                  ///< out of the key
    std::vector<AttachedRegion> regions;  ///< of the table when it had `regions_version`
    std::uint32_t regions_version = ~0U;
    Queue queue;
  };
  std::unique_ptr<Accessed> accessed;  ///< null while `path` is unknown

  void note(int error_class) noexcept {
    if (error == 0) error = error_class;
  }
};

}  // namespace mpi_shim::rma
