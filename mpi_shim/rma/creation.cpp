// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/rma/window.hpp"

#include <algorithm>

#include "mpi_shim/base/error_class.hpp"
#include "mpi_shim/coll/algorithms/exchange.hpp"
#include "mpi_shim/coll/host/shared_memory.hpp"
#include "mpi_shim/comm/communicators.hpp"
#include "mpi_shim/comm/creation/creation.hpp"
#include "mpi_shim/rma/windows.hpp"
#include "opal/core/log.hpp"

namespace mpi_shim::rma {
namespace {

constexpr std::size_t kMostKey = 600;  // bytes of a Region's key; two of the longest MemoryHandles fit
constexpr std::uint64_t kLine = 64;    // bytes of a cache line, on which the memory of a rank begins

}  // namespace

/// Creates one window.  All processes of the communicator run the same steps and meet in each exchange().
class Creation {
 public:
  Creation(comm::Communicators& communicators, comm::Communicator& comm, const Wish& wish)
      : communicators_(communicators), comm_(comm), wish_(wish), ranks_(static_cast<std::size_t>(comm.size())) {}

  /// After an error the window's destructor frees its memory and the communicator.
  int run(Window*& made);

 private:
  // The records of exchange(), one per rank.
  struct Size {
    std::uint64_t size;
    std::int64_t disp_unit;
    std::int64_t error;  // the rank's arena of handles has no memory left
  };
  struct Published {
    std::uint64_t base;
    std::int32_t error;
    std::uint32_t key_size;
  };

  /// Whether the library allocates the window memory.
  [[nodiscard]] bool has_memory_here() const {
    return wish_.flavor == Flavor::allocate || wish_.flavor == Flavor::shared;
  }
  /// Whether this process polls for short accesses of the ranks of its host, and sends such (target/attention.hpp).
  [[nodiscard]] bool counts_messages() const {
    return window_->host_memory_ && !has_memory_here() && window_->engine().polls_alone() &&
           communicators_.job().waits().spin.count() != 0;
  }
  /// Bytes of the MessageCounts of one origin.
  [[nodiscard]] std::uint64_t counts_stride() const {
    return align_up(host_ranks_.size() * sizeof(MessageCount), kLine);
  }
  int share_host_memory();
  void place_own_memory();
  void count_messages();
  int meet();

  comm::Communicators& communicators_;
  comm::Communicator& comm_;
  const Wish& wish_;
  const std::size_t ranks_;
  handle::Ref<Window> window_;
  std::vector<Size> sizes_;
  std::vector<int> host_ranks_;         // of this host in ascending order; only this rank if mpi_rma_share is off
  std::vector<std::uint64_t> offsets_;  // of the window memory of each of host_ranks_ in the shared memory, in bytes
  std::uint64_t claims_offset_ = 0;     // of the Claims in the shared memory, in bytes
  std::uint64_t counts_offset_ = 0;     // of the MessageCounts
  int error_ = MPI_SUCCESS;             // of this process; meet() exchanges the errors
};

int Creation::run(Window*& made) {
  auto window = handle::create<Window>(comm_.vci().windows(), communicators_, comm_, wish_.flavor);
  sizes_.resize(ranks_);
  sizes_[static_cast<std::size_t>(comm_.rank())] = {wish_.size, wish_.disp_unit, window ? MPI_SUCCESS : MPI_ERR_NO_MEM};
  int error = coll::exchange(comm_, sizes_);
  for (const Size& theirs : sizes_) error = first_error(error, static_cast<int>(theirs.error));
  if (!window) communicators_.free(comm_);
  if (!window || error != MPI_SUCCESS) return error;
  window_ = std::move(*window);
  error = share_host_memory();
  if (error != MPI_SUCCESS) return error;
  place_own_memory();
  comm_.vci().windows().add(*window_);  // peers may send messages for it as soon as meet() has sent the address
  error = meet();
  if (error != MPI_SUCCESS) {
    comm_.vci().windows().remove(*window_);
    return error;
  }
  if (counts_messages()) comm_.vci().windows().attend(*window_);
  window_->hints = wish_.hints;
  // `auto` starts no helper for a window on one host: its ranks access most memory without progress of the target.
  const bool alone = ranks_ == 1 || (host_ranks_.size() == ranks_ && comm_.vci().windows().config().helper == "auto");
  if (!alone && !wish_.never_locked) comm_.vci().windows().want_helper();
  made = window_.detach();  // the application's reference
  return MPI_SUCCESS;
}

/// The first rank of each host creates memory that all ranks of the host share.  With n ranks on the host it contains:
///   Control[n]          the locks
///   AttachedTable[n]    MPI_Win_create_dynamic only
///   Claim[n][n]         for each Control, one Claim per rank
///   MessageCount[n][n]  MPI_Win_create and _create_dynamic only: by origin, in cache lines of its own, and target
///   window memory       MPI_Win_allocate and _allocate_shared only, of each rank
/// If one rank cannot attach, no rank of the host uses the memory, since a lock excludes only ranks that take it.
/// Each rank then has a private Control, and MPI_Win_allocate_shared fails.
int Creation::share_host_memory() {
  host_ranks_ = comm_.vci().windows().config().share ? coll::ranks_here(communicators_.job(), comm_)
                                                     : std::vector<int>{comm_.rank()};
  if (wish_.flavor == Flavor::shared && host_ranks_.size() != ranks_) return MPI_ERR_RMA_SHARED;
  std::uint64_t end = host_ranks_.size() * sizeof(Control);
  if (wish_.flavor == Flavor::dynamic) end += host_ranks_.size() * sizeof(AttachedTable);
  claims_offset_ = end;
  end += host_ranks_.size() * host_ranks_.size() * sizeof(Claim);
  counts_offset_ = align_up(end, kLine);
  if (!has_memory_here()) end = counts_offset_ + host_ranks_.size() * counts_stride();
  for (const int rank : host_ranks_) {
    const bool packed = wish_.flavor == Flavor::shared && wish_.contiguous && rank != host_ranks_.front();
    if (!packed) end = align_up(end, kLine);
    offsets_.push_back(end);
    if (has_memory_here()) end += sizes_[static_cast<std::size_t>(rank)].size;
  }
  const std::uint64_t size = host_ranks_.size() > 1 ? end : 0;
  if (const int error = coll::share_memory(comm_, host_ranks_.front(), size, "a window", window_->host_memory_);
      error != MPI_SUCCESS) {
    return error;
  }
  std::vector<std::uint8_t> have(ranks_);
  have[static_cast<std::size_t>(comm_.rank())] = window_->host_memory_ ? 1 : 0;
  if (const int error = coll::exchange(comm_, have); error != MPI_SUCCESS) return error;
  const auto has_it = [&](int rank) { return have[static_cast<std::size_t>(rank)] != 0; };
  if (!std::ranges::all_of(host_ranks_, has_it)) window_->host_memory_ = {};
  if (window_->host_memory_ || wish_.flavor != Flavor::shared || ranks_ == 1) return MPI_SUCCESS;
  return MPI_ERR_RMA_SHARED;  // all ranks are on one host, so all return this error
}

/// Sets the locks and the mapped memory of the Targets on this host, then allocates and registers the window memory of
/// this process.  A failed allocation sets error_.  Without a registration, or with a key above kMostKey, peers that
/// do not map the memory use access messages.
void Creation::place_own_memory() {
  const HostMemory& shared = window_->host_memory_;
  Target& own = window_->own();
  if (shared) {
    auto* controls = reinterpret_cast<Control*>(shared.bytes().data());
    auto* claims = reinterpret_cast<Claim*>(shared.bytes().data() + claims_offset_);
    for (std::size_t i = 0; i < host_ranks_.size(); ++i) {
      Target& target = window_->target(host_ranks_[i]);
      if (&target == &own) window_->host_index_ = i;
      target.control = controls + i;  // zeroes are locks that no process holds or claims
      target.claims = claims + i * host_ranks_.size();
      if (has_memory_here()) target.mapped = shared.bytes().data() + offsets_[i];
    }
    window_->host_ranks_ = host_ranks_;
    if (counts_messages()) count_messages();
    if (wish_.flavor == Flavor::dynamic) {  // zeroes are tables without entries
      auto* tables = reinterpret_cast<AttachedTable*>(controls + host_ranks_.size());
      for (std::size_t i = 0; i < host_ranks_.size(); ++i) window_->target(host_ranks_[i]).attached = tables + i;
      window_->attached_table_ = tables + window_->host_index_;
    }
  } else {
    window_->private_control_ = std::make_unique<Control>();
    own.control = window_->private_control_.get();
    own.claims = &window_->private_claim_;
    window_->host_ranks_ = {comm_.rank()};
  }
  std::byte* base = static_cast<std::byte*>(wish_.base);
  if (has_memory_here() && shared) {
    base = own.mapped;
  } else if (has_memory_here() && wish_.size != 0) {
    const auto pool = communicators_.job().memory();
    const auto block = pool ? (*pool)->allocate(wish_.size) : Result<std::byte*>{pool.error()};
    if (block) base = window_->allocated_ = *block;
    if (!block) error_ = MPI_ERR_NO_MEM;
  }
  own.base = reinterpret_cast<std::uint64_t>(base);
  own.size = wish_.size;
  own.disp_unit = wish_.disp_unit;
  own.mapped = base;  // dynamic window: null, and own.base is 0, so that Window::here() does not change addresses
  window_->size_attribute = static_cast<MPI_Aint>(wish_.size);
  window_->unit_attribute = static_cast<int>(wish_.disp_unit);
  // Not needed if all ranks map the memory.
  const bool needed = !has_memory_here() || !shared || host_ranks_.size() != ranks_;
  if (error_ == MPI_SUCCESS && needed && wish_.size != 0 && ranks_ > 1) {
    auto region = window_->engine().context().register_memory(base, wish_.size, Rights::all);
    if (region && region->key().size() <= kMostKey) {
      window_->registration_ = std::move(*region);
    } else if (!region) {
      log::warn("mpi", "memory of a window cannot be registered: {}", to_string(region.error()));
    }
  }
}

/// Sets the MessageCounts of the Targets of this host; zeroes are counts.
void Creation::count_messages() {
  std::byte* const counts = window_->host_memory_.bytes().data() + counts_offset_;
  const auto count = [&](std::size_t origin, std::size_t target) {
    return reinterpret_cast<MessageCount*>(counts + origin * counts_stride()) + target;
  };
  for (std::size_t place = 0; place < host_ranks_.size(); ++place) {
    if (place == window_->host_index_) continue;
    Target& target = window_->target(host_ranks_[place]);
    target.sent = count(window_->host_index_, place);
    target.received = count(place, window_->host_index_);
  }
}

/// Exchanges addresses, keys and errors of all ranks.  Returns the greatest of the error classes, so that all ranks
/// return the same error.
int Creation::meet() {
  std::vector<Published> published(ranks_);
  const ByteSpan own_key = window_->registration_ ? window_->registration_->key() : ByteSpan{};
  published[static_cast<std::size_t>(comm_.rank())] = {window_->own().base, error_,
                                                       static_cast<std::uint32_t>(own_key.size())};
  if (const int error = coll::exchange(comm_, published); error != MPI_SUCCESS) return error;
  int worst = MPI_SUCCESS;
  coll::Blocks keys;
  for (std::size_t rank = 0; rank < ranks_; ++rank) {
    const Published& theirs = published[rank];
    Target& target = window_->target(static_cast<int>(rank));
    target.base = theirs.base;
    target.size = sizes_[rank].size;
    target.disp_unit = sizes_[rank].disp_unit;
    target.key.resize(std::min<std::size_t>(theirs.key_size, kMostKey));
    keys.push_back(p2p::Buffer::of_bytes(target.key.data(), target.key.size()));
    worst = std::max(worst, theirs.error);
  }
  std::ranges::copy(own_key, window_->own().key.begin());
  const auto has_key = [](const Published& each) { return each.key_size != 0; };
  if (std::any_of(published.begin(), published.end(), has_key)) {
    // Not every process needs to have a key: the sizes differ.
    const int error =
        coll::run(comm_, [&](coll::Schedule& schedule) { coll::build_allgatherv(schedule, std::nullopt, keys); });
    if (error != MPI_SUCCESS) return error;
  }
  return worst;
}

int create(comm::Communicators& communicators, comm::Communicator& parent, const Wish& wish, Window*& made) {
  made = nullptr;
  const comm::Made own = comm::create(communicators, parent, parent.group());
  if (own.error != MPI_SUCCESS) return own.error;
  own.comm->set_findable(false, comm::Communicator::kKind);  // the application must not name it
  return Creation{communicators, *own.comm, wish}.run(made);
}

}  // namespace mpi_shim::rma
