// SPDX-License-Identifier: Apache-2.0
// mpi_shim/rma/window.hpp — an MPI window: memory of each rank that the others access, and the epochs of these
// accesses (docs/design/rma.md).  Functions that return int return an MPI error class.
// Owned by the application's handle, from MPI_Win_create etc. to MPI_Win_free.  Owns a communicator with the same group
// as the application's; the id of that communicator identifies the window in messages.
// Threads: several threads may make accesses at the same time.  The application orders the calls that open and close
// epochs.  Public functions take the Context's lock where they need it.  Functions of service.cpp run inside
// progress, with that lock held.
#pragma once
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "mpi_shim/attribute/attributes.hpp"
#include "mpi_shim/base/host_memory.hpp"
#include "mpi_shim/comm/communicator.hpp"
#include "mpi_shim/info/info.hpp"
#include "mpi_shim/op/op.hpp"
#include "mpi_shim/p2p/stalled.hpp"
#include "mpi_shim/rma/target/target.hpp"
#include "mpi_shim/rma/wire.hpp"
#include "opal/am/region.hpp"

namespace mpi_shim::comm {
class Communicators;
}

namespace mpi_shim::rma {

class Windows;
class MessageAccess;
using p2p::Buffer;

enum class Flavor : int {
  create = MPI_WIN_FLAVOR_CREATE,
  allocate = MPI_WIN_FLAVOR_ALLOCATE,
  dynamic = MPI_WIN_FLAVOR_DYNAMIC,
  shared = MPI_WIN_FLAVOR_SHARED,
};

/// Memory at a target as MPI calls name it.
struct Place {
  int rank;
  MPI_Aint displacement;  ///< in units of the target's disp_unit; in a dynamic window the address
  std::uint64_t count;
  const datatype::Datatype* type;
};

class Window final : public handle::Object {
 public:
  static constexpr handle::Kind kKind = handle::Kind::win;

  Window(Windows& windows, comm::Communicators& communicators, comm::Communicator& comm, Flavor flavor);
  ~Window();

  [[nodiscard]] MPI_Win mpi_handle() const noexcept { return handle::to_handle<MPI_Win>(*this); }
  [[nodiscard]] comm::Communicator& comm() const noexcept { return comm_; }
  [[nodiscard]] Windows& windows() const noexcept { return windows_; }
  [[nodiscard]] Flavor flavor() const noexcept { return flavor_; }
  [[nodiscard]] int size() const noexcept { return comm_.size(); }
  [[nodiscard]] Target& target(int rank) noexcept { return targets_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] const Target& target(int rank) const noexcept { return targets_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] int rank_of(const Target& target) const noexcept { return static_cast<int>(&target - targets_.get()); }
  [[nodiscard]] Target& own() noexcept { return target(comm_.rank()); }
  [[nodiscard]] p2p::Engine& engine() const noexcept { return comm_.engine(); }

  // --- Accesses (access.cpp).  `request`: null, or where the request of an R form (MPI_Rput etc.) is stored.  An R
  //     form needs a passive epoch.  Errors: MPI_ERR_RMA_SYNC (no epoch), _RMA_RANGE, _TRUNCATE, _COUNT, _PROC_ABORTED,
  //     _NO_MEM; of updates also _OP, _OTHER (the transport's copy has failed).

  /// MPI_Put and MPI_Get.
  int put_or_get(Direction direction, const Buffer& origin, const Place& place, MPI_Request* request);
  /// MPI_Accumulate, MPI_Get_accumulate and MPI_Fetch_and_op; `result`: null if nothing is fetched.
  int update(op::OpKind kind, const Buffer& origin, const Buffer* result, const Place& place, MPI_Request* request);
  int compare_and_swap(const void* origin, const void* compare, void* result, const Place& place);

  // --- Active target (synchronisation.cpp)

  int fence(int assertion);
  int start(const comm::Group& group, int assertion);
  int complete();
  int post(const comm::Group& group, int assertion);
  int wait();
  /// `over`: whether the exposure epoch has ended.
  int test(bool& over);

  // --- Passive target (passive.cpp)

  int lock(int rank, bool exclusive, int assertion);
  int unlock(int rank);
  int lock_all(int assertion);
  int unlock_all();
  /// Waits until all accesses of this process to `rank` are complete at origin and target.
  int flush(int rank);
  int flush_all();
  /// Whether `rank` may be flushed: a passive epoch is open towards it.
  [[nodiscard]] bool passive(int rank) noexcept { return locks_all_ || target(rank).held != Target::LockMode::nothing; }

  // --- Dynamic windows

  int attach(void* base, std::uint64_t size);
  int detach(const void* base);

  // --- The end (window.cpp)

  /// Whether no epoch is open.  A fence epoch does not count, since no further call has to end it.
  [[nodiscard]] bool is_idle() const noexcept { return !access_open_ && !exposure_open_ && locks_ == 0 && !locks_all_; }
  /// Collective: waits until no process accesses the window; later messages of peers for it are dropped.  The caller
  /// then drops the application's handle, also after an error.
  int close();

  comm::ErrhandlerSlot errhandler;
  std::string name;
  attribute::Attributes<MPI_Win> attributes;
  info::Info::Entries hints;
  // The values of the predefined attributes; MPI_Win_get_attr returns pointers to them.
  MPI_Aint size_attribute = 0;
  int unit_attribute = 1;
  int flavor_attribute = 0;
  int model_attribute = MPI_WIN_UNIFIED;

 private:
  friend class Creation;
  friend class Windows;
  friend class Transfer;
  friend class MessageAccess;

  /// Memory attached to a dynamic window.  It is registered if ranks of this host can read attached_table_ and so can
  /// access it by the transport.
  struct Attached {
    AttachedRegion region;
    am::Region registration;
  };
  /// The path of one access.  Accesses to the same target may use different paths.
  struct ChosenPath {
    Target::Path path;
    bool counted = false;                   // path messages: as in target/attention.hpp
    const MemoryHandle* handle = nullptr;   // for the transport's put and get; null if there is none
    std::optional<MemoryHandle> of_region;  // dynamic window: `handle` points to it
  };
  /// A rank that cannot map the access lock of this process: it has sent a LockRequest and waits for the answer.
  struct Waiting {
    int rank;
    bool exclusive;
    bool announced = false;  // begin_waiting() was called for it: new readers are kept out
  };
  /// An access message that waits for the update lock, or for earlier deferred messages, since their order is kept.
  struct Deferred {
    am::Endpoint* from;
    wire::AccessHeader header;
    std::vector<std::byte> data;
  };
  // access.cpp
  int reach(Target& target);
  int choose_path(Target& target, const Buffer& there, std::uint64_t most_by_message, ChosenPath& chosen);
  int find_attached(Target& target, const Buffer& there, ChosenPath& chosen);
  void use_attention(Target& target, const Buffer& there, std::uint64_t most_by_message, ChosenPath& chosen) noexcept;
  int start_message(MessageAccess& access, const ChosenPath& chosen, MPI_Request* request);
  int begin_access(const Place& place, bool passive_only, Buffer& there);
  int enter(int rank, bool passive_only);
  /// Requires: enter() has succeeded.
  [[nodiscard]] bool in_fence_epoch(const Target& target) const noexcept {
    return !access_open_ && !locks_all_ && target.held.load(std::memory_order_relaxed) == Target::LockMode::nothing;
  }
  static Buffer here(const Target& target, const Buffer& there) noexcept;

  // direct.cpp: updates that this process does itself
  int update_directly(Target& target, const ChosenPath& chosen, op::OpKind kind, const Buffer& origin,
                      const Buffer* result, const Buffer& there);
  int swap_directly(Target& target, const ChosenPath& chosen, ByteSpan operands, void* result, const Buffer& there);
  int lock_updates(Control& control) noexcept;
  int copy_pieces(Target& target, const ChosenPath& chosen, const Buffer& memory, std::uint64_t first,
                  MutableBytes dense, bool store);

  // window.cpp
  void publish_attached();

  // synchronisation.cpp
  int drain(Target& target) noexcept;
  int drain_all() noexcept;
  int barrier();
  int find_ranks(const comm::Group& group, std::vector<int>& ranks);
  void send_signal(Target& target, Tag tag) noexcept;

  // passive.cpp
  int take_lock(Target& target, bool exclusive);
  int hold_lock(Target& target, bool exclusive);
  int lock_at_first_access(Target& target);
  void give_lock_back(Target& target) noexcept;
  template <class Condition>
  int poll_until(Target& target, Condition condition) noexcept;
  [[nodiscard]] bool has_failed(int rank) noexcept;
  [[nodiscard]] bool is_access_lock_lost(const Target& target) noexcept;
  /// The claim of this process on the target's access lock.
  [[nodiscard]] Claim& own_claim(const Target& target) const noexcept { return target.claims[host_index_]; }

  // service.cpp: messages of peers
  [[nodiscard]] bool owns(std::uint64_t address, std::uint64_t size) const noexcept;
  bool on_lock(int rank, bool exclusive) noexcept;
  bool on_unlock(int rank, bool exclusive) noexcept;
  bool grant_waiting() noexcept;
  void on_rank_failed(int rank) noexcept;
  void update_claim_for_others() noexcept;
  void on_access(am::Endpoint& from, const wire::AccessHeader& header, ByteSpan data) noexcept;
  void serve(am::Endpoint& from, const wire::AccessHeader& header, ByteSpan data) noexcept;
  void answer(am::Endpoint& from, const wire::AccessHeader& header, int error) noexcept;
  int carry_out(const wire::AccessHeader& header, ByteSpan data, std::uint64_t reply_room);
  int read_blocks(const wire::AccessHeader& header, ByteSpan& data);
  bool serve_deferred() noexcept;
  [[nodiscard]] bool has_counted_messages() noexcept;
  // synchronisation.cpp: whether all ranks of the exposure epoch have called MPI_Win_complete; whether one has failed.
  [[nodiscard]] bool all_completed() const noexcept;
  [[nodiscard]] bool lost_an_origin() const noexcept;

  Windows& windows_;
  comm::Communicators& communicators_;
  comm::Communicator& comm_;  // of this window; the destructor frees it
  const Flavor flavor_;
  std::unique_ptr<Target[]> targets_;

  // The memory of this process and its locks
  HostMemory host_memory_;                    // of all ranks of this host: Controls, Claims, tables, window memory
  std::unique_ptr<Control> private_control_;  // of this process, if no memory is shared
  Claim private_claim_{0};                    // on private_control_->access
  std::vector<int> host_ranks_;               // ranks that share host_memory_: all of this host, or only this process
  std::size_t host_index_ = 0;                // index of this process in host_ranks_
  std::byte* allocated_ = nullptr;            // window memory from the process's pool; the destructor frees it
  std::optional<am::Region> registration_;    // of the window memory, if peers need one
  std::vector<Attached> attached_;            // dynamic windows
  AttachedTable* attached_table_ = nullptr;   // publishes attached_ to the ranks of this host; null if not shared

  // Epochs of this process
  std::atomic<bool> fence_open_{false};    // from a fence to the next fence, or to another epoch if no access uses it
  std::atomic<bool> fence_used_{false};    // an access since the last fence has used the fence epoch
  std::atomic<bool> access_open_{false};   // between MPI_Win_start and MPI_Win_complete
  std::atomic<int> locks_{0};              // number of ranks locked by MPI_Win_lock
  std::atomic<std::uint32_t> flushes_{0};  // calls of flush(), of which every 16th polls; a lost count is harmless
  bool exposure_open_ = false;             // between MPI_Win_post and MPI_Win_wait or a successful MPI_Win_test
  bool locks_all_ = false;                 // between MPI_Win_lock_all and MPI_Win_unlock_all
  std::mutex first_access_;                // held by lock_at_first_access() while it locks a target
  std::vector<int> start_group_;           // ranks of MPI_Win_start
  std::vector<int> exposed_to_;            // ranks of MPI_Win_post

  // Service
  struct Retry : p2p::Stalled {
    Window* window = nullptr;
  };
  Retry grant_again_;               // calls grant_waiting()
  std::deque<Waiting> waiting_;     // in the order of the requests
  int granted_ = 0;                 // number of ranks for which this process holds its own access lock
  Retry serve_again_;               // calls serve_deferred()
  std::deque<Deferred> deferred_;   // in the order of arrival
  std::vector<std::byte> fetched_;  // the data of the next answer; keeps its capacity, as scratch_ and blocks_
  std::vector<std::byte> scratch_;  // of op::accumulate()
  datatype::Layout blocks_;         // of the message that carry_out() executes, at absolute addresses
};

// --- Creation (creation.cpp).  Threads: as collectives: one thread per communicator at a time.

/// The parameters of a new window.
struct Wish {
  Flavor flavor;
  void* base = nullptr;        ///< Flavor::create only: the application's memory
  std::uint64_t size = 0;      ///< bytes of this rank's memory; 0 for dynamic
  std::int64_t disp_unit = 1;  ///< bytes
  bool contiguous = true;     ///< Flavor::shared only: the memory of each rank directly follows that of the rank before
  bool never_locked = false;  ///< hint no_locks: no passive-target epochs, so no helper thread is needed for the window
  info::Info::Entries hints;
};

/// MPI_Win_create, _allocate, _allocate_shared and _create_dynamic.  Collective over `parent`.  `made`: the new window
/// with the application's reference, or null after an error.  Returns an MPI error class, the same in all processes
/// unless communication fails: MPI_ERR_NO_MEM, MPI_ERR_RMA_SHARED (the ranks share no memory), those of communication.
int create(comm::Communicators& communicators, comm::Communicator& parent, const Wish& wish, Window*& made);

}  // namespace mpi_shim::rma
