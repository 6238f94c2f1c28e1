// SPDX-License-Identifier: Apache-2.0
// Two locks.  A mapping call holds `gate` shared from its first table update to its last one, or exclusively if it may
// take memory away while a table excludes some; refresh() holds it exclusively, so that the kernel's list does not
// change while it is read.  `changing` protects the tables during one update.  Neither lock allocates: this runs inside
// malloc.
// A signal handler that maps memory and interrupts a thread in this code takes no lock and updates no table; the
// interrupted call refreshes the tables when it ends.
// All state is on a page that the kernel clears in a forked child (MADV_WIPEONFORK): with all bytes zero the locks are
// free (not if a signal handler forks that has interrupted such a call).
#include "opal/memory/address_space/address_space.hpp"

#include <sys/mman.h>
#include <sys/syscall.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string_view>

#include "opal/core/clock.hpp"
#include "opal/core/sync/spin_lock.hpp"
#include "opal/core/system/raw_syscall.hpp"
#include "opal/memory/events/events.hpp"
#include "opal/memory/events/monitor.hpp"
#include "opal/memory/process_maps.hpp"

namespace opal::memory::address_space {
namespace {

constexpr std::size_t kMostTables = 64;

struct State {
  std::shared_mutex gate;
  SpinLock changing;                 // the lock of `tables` and `count`
  std::atomic<bool> missed;          // a signal handler or a failed refresh did not update the tables: refresh them
  std::atomic<std::uint32_t> count;  // entries of `tables` in use
  std::array<MappingTable*, kMostTables> tables;
};

std::atomic<State*> state_page{nullptr};

State* state() noexcept { return state_page.load(std::memory_order_acquire); }

/// True while this thread holds a lock of this file.  Initial-exec: the first use of a dynamic TLS variable calls
/// malloc.
__attribute__((tls_model("initial-exec"))) thread_local bool inside = false;

class Inside {
 public:
  Inside() noexcept {
    inside = true;
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  ~Inside() {
    std::atomic_signal_fence(std::memory_order_seq_cst);
    inside = false;
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
};

/// Applies `change` to every table.
template <class Change>
void change_tables(State& state, Change change) noexcept {
  const std::lock_guard lock{state.changing};
  for (std::uint32_t i = 0; i < state.count.load(std::memory_order_relaxed); ++i) change(*state.tables[i]);
}

/// Replaces the content of every table by the kernel's list, which it reads once.  False: the list ended with an error,
/// and the tables keep what they have beyond the last entry.
/// Requires: the gate is held exclusively.  `changing` is not held while the list is read, since other threads spin for
/// it.
bool replace_all(State& state) noexcept {
  constexpr std::uintptr_t kUserEnd = std::uintptr_t{1} << 63;  // beyond it is [vsyscall], which is not memory
  ProcessMaps maps;
  MapsEntry entry;
  if (!maps.next(entry)) return false;
  change_tables(state, [](MappingTable& table) { table.begin_replacing(); });
  do {
    if (entry.range.end >= kUserEnd) continue;
    change_tables(state, [&](MappingTable& table) { table.replace({entry.range, access_of(entry.protection)}); });
  } while (maps.next(entry));
  // Of an incomplete list end_replacing() would clear the rest, and what is excluded there would be open from the next
  // refresh on.
  if (!maps.complete()) return false;
  change_tables(state, [](MappingTable& table) { table.end_replacing(); });
  return true;
}

/// Makes every table equal to the kernel's list.  If that cannot be read, `missed` stays set: the next mapping call
/// tries again.
void refresh_all(State& state) noexcept {
  bool complete = true;
  do {
    const Inside guard;
    const std::lock_guard lock{state.gate};
    state.missed.store(false, std::memory_order_relaxed);
    complete = replace_all(state);
    if (!complete) state.missed.store(true, std::memory_order_relaxed);
  } while (complete && state.missed.load(std::memory_order_relaxed));
}

/// Applies what signal handlers or a failed refresh could not update.  Requires: no Inside exists any more, since a
/// handler that interrupts one sets `missed` up to its end.
void refresh_if_missed(State& state) noexcept {
  if (state.missed.load(std::memory_order_relaxed)) refresh_all(state);
}

/// The updates of all tables that one call makes.
class TableUpdates {
 public:
  /// `alone`: the gate is held exclusively.
  TableUpdates(State& state, bool alone) noexcept : state_(state), alone_(alone) {}

  /// Before a call that takes `range` away.  Another thread may map it anew before the call returns, so the tables lose
  /// it now.  If this call is alone, they keep its exclusions, which stay if the kernel refuses.
  void leave(Range range) noexcept { alone_ ? change(range, kMapped | kExcluded, 0) : assign(range, 0); }
  /// After the call: the kernel has taken `range` away.
  void gone(Range range) noexcept {
    if (alone_) assign(range, 0);
  }
  void assign(Range range, std::uint32_t access) noexcept {
    change_tables(state_, [&](MappingTable& table) { table.assign(range, access); });
  }
  void change(Range range, std::uint32_t keep, std::uint32_t add) noexcept {
    change_tables(state_, [&](MappingTable& table) { table.change(range, keep, add); });
  }
  /// MappingTable::access_throughout(), which is the same in all tables.
  [[nodiscard]] std::uint32_t access_throughout(Range range) const noexcept {
    std::uint32_t access = 0;
    change_tables(state_, [&](const MappingTable& table) { access = table.access_throughout(range); });
    return access;
  }
  /// mremap() has moved `from` to `to`, with its exclusions.
  void moved(Range from, Range to, std::uint32_t access) noexcept {
    if (!alone_) return assign(to, access);
    change_tables(state_, [&](MappingTable& table) { table.assign_moved(from, to, access); });
  }
  /// The effect of the call is unknown: the tables must be refreshed after it.
  void require_refresh() noexcept { needs_refresh_ = true; }
  [[nodiscard]] bool needs_refresh() const noexcept { return needs_refresh_; }

 private:
  State& state_;
  const bool alone_;
  bool needs_refresh_ = false;
};

bool failed(long result) noexcept { return result < 0 && result > -4096; }

long follow_mmap(const SystemCall& call, TableUpdates& tables) noexcept {
  const long flags = call.arguments[3];
  const bool replaces = (flags & MAP_FIXED) != 0;
  if (replaces) tables.leave(range_of(call.arguments[0], call.arguments[1]));
  const long result = call_kernel(call);
  if (failed(result)) {
    if (replaces) tables.require_refresh();
    return result;
  }
  if ((flags & (MAP_HUGETLB | MAP_GROWSDOWN)) != 0) tables.require_refresh();  // may be larger than requested
  tables.assign(range_of(result, call.arguments[1]), access_of(static_cast<int>(call.arguments[2])));
  return result;
}

/// A call that only unmaps `range`.
long follow_unmapping(const SystemCall& call, Range range, TableUpdates& tables) noexcept {
  tables.leave(range);
  const long result = call_kernel(call);
  if (failed(result)) {
    tables.require_refresh();
  } else {
    tables.gone(range);
  }
  return result;
}

long follow_mprotect(const SystemCall& call, TableUpdates& tables) noexcept {
  const Range range = range_of(call.arguments[0], call.arguments[1]);
  const std::uint32_t access = access_of(static_cast<int>(call.arguments[2]));
  tables.change(range, access | kExcluded, 0);  // removes rights before the call; adds rights after it
  const long result = call_kernel(call);
  if (failed(result) || (call.arguments[2] & (PROT_GROWSDOWN | PROT_GROWSUP)) != 0) {
    tables.require_refresh();
  } else {
    tables.change(range, kExcluded, access);
  }
  return result;
}

long follow_brk(const SystemCall& call, TableUpdates& tables) noexcept {
  const auto page_end = [](long address) { return Range::pages(0, static_cast<std::uintptr_t>(address)).end; };
  const std::uintptr_t before = page_end(raw_syscall(SYS_brk, 0));
  const Range freed{call.arguments[0] != 0 ? page_end(call.arguments[0]) : before, before};
  tables.leave(freed);
  const long result = call_kernel(call);
  const std::uintptr_t after = page_end(result);
  if (after > before) tables.assign({before, after}, access_of(PROT_READ | PROT_WRITE));
  if (after == freed.begin) {
    tables.gone(freed);
  } else if (!freed.empty()) {
    tables.require_refresh();  // the kernel has refused
  }
  return result;
}

long follow_mremap(const SystemCall& call, TableUpdates& tables) noexcept {
  const auto& a = call.arguments;
  const bool second = a[1] == 0;  // it maps a shared mapping a second time
  const Range before = range_of(a[0], second ? a[2] : a[1]);
  const Range after = range_of(a[0], a[2]);
  const bool fixed = (a[3] & MREMAP_FIXED) != 0;
  const bool known_flags = (a[3] & ~(MREMAP_MAYMOVE | MREMAP_FIXED)) == 0;
  if (known_flags && !fixed && !second && a[2] != 0 && after.end <= before.end) {  // may span several mappings
    return follow_unmapping(call, {after.end, before.end}, tables);
  }
  const std::uint32_t access = tables.access_throughout(before);
  if (fixed) tables.leave(range_of(a[4], a[2]));
  if (!second) tables.leave(before);
  const long result = call_kernel(call);
  if (!failed(result)) {
    tables.moved(before, range_of(result, a[2]), access != 0 ? access : kMapped);
    if (!second && known_flags && result != a[0]) tables.gone(before);
  }
  if (failed(result) || !known_flags || second || access == 0) tables.require_refresh();
  return result;
}

/// Performs a watched call and updates the tables.
long follow_call(const SystemCall& call, TableUpdates& tables) noexcept {
  switch (call.number) {
    case SYS_mmap: return follow_mmap(call, tables);
    case SYS_munmap: return follow_unmapping(call, range_of(call.arguments[0], call.arguments[1]), tables);
    case SYS_mprotect:
    case SYS_pkey_mprotect: return follow_mprotect(call, tables);
    case SYS_brk: return follow_brk(call, tables);
    case SYS_mremap: return follow_mremap(call, tables);
    case SYS_shmat:
    case SYS_shmdt:
    case SYS_remap_file_pages: tables.require_refresh(); return call_kernel(call);
    default: return call_kernel(call);  // madvise changes no mapping
  }
}

/// True if a table excludes memory.
bool excludes_some(State& state) noexcept {
  const Inside guard;
  bool some = false;
  change_tables(state, [&](const MappingTable& table) { some = some || table.excludes_some(); });
  return some;
}

/// True for a call that may take away memory, which may be excluded.
bool takes_away(const SystemCall& call) noexcept {
  return call.number == SYS_munmap || call.number == SYS_mremap || call.number == SYS_brk ||
         (call.number == SYS_mmap && (call.arguments[3] & MAP_FIXED) != 0);
}

/// Called until it succeeds.
Result<void> make_state() noexcept {
  void* const page = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return Error{Errc::no_memory, errno, "mmap(address space state)", 4096};
  if (::madvise(page, 4096, MADV_WIPEONFORK) != 0) {
    const int refused = errno;
    ::munmap(page, 4096);
    return Error{Errc::not_supported, refused, "madvise(MADV_WIPEONFORK)"};
  }
  static_assert(sizeof(State) <= 4096);
  State* const made = std::construct_at(static_cast<State*>(page));
  // The dynamic loader resolves these functions here, not inside malloc.
  made->gate.lock_shared();
  made->gate.unlock_shared();
  state_page.store(made, std::memory_order_release);
  return {};
}

}  // namespace

bool followed() noexcept {
  const State* const shared = state();
  return shared != nullptr && shared->count.load(std::memory_order_acquire) != 0;
}

long perform_followed(const SystemCall& call) noexcept {
  State& shared = *state();
  if (inside) {  // this is a signal handler that interrupted code of this file
    const long result = call_kernel(call);
    shared.missed.store(true, std::memory_order_relaxed);
    return result;
  }
  // Memory that is excluded may be moved: only a call that is alone can tell afterwards what was excluded before.
  const bool alone = takes_away(call) && excludes_some(shared);
  TableUpdates tables{shared, alone};
  long result = 0;
  {
    const Inside guard;
    alone ? shared.gate.lock() : shared.gate.lock_shared();
    result = follow_call(call, tables);
    alone ? shared.gate.unlock() : shared.gate.unlock_shared();
  }
  if (tables.needs_refresh()) {
    refresh_all(shared);
  } else {
    refresh_if_missed(shared);
  }
  return result;
}

Result<void> follow(MappingTable& table) noexcept {
  const Choice* const choice = chosen_monitor();
  if (choice == nullptr || choice->monitor == nullptr || std::string_view{choice->monitor} != "patcher") {
    return Error{Errc::not_supported, 0,
                 "address space: mappings can be followed only with the patcher (memory_monitor)"};
  }
  static constinit std::mutex making;
  {
    const std::lock_guard lock{making};
    if (state() == nullptr) OPAL_TRY(make_state());
  }
  State& shared = *state();
  bool full = false;
  {
    const Inside guard;
    const std::lock_guard lock{shared.changing};
    const std::uint32_t count = shared.count.load(std::memory_order_relaxed);
    full = count == kMostTables;
    if (!full) {
      shared.tables[count] = &table;
      shared.count.store(count + 1, std::memory_order_release);
    }
  }
  if (full) return Error{Errc::limit_reached, 0, "address space: tables that follow in one process", kMostTables};
  detail::interested.fetch_add(1, std::memory_order_seq_cst);
  refresh_all(shared);
  return {};
}

void unfollow(MappingTable& table) noexcept {
  State* const shared = state();
  if (shared == nullptr) return;
  bool found = false;
  {
    const Inside guard;
    const std::lock_guard lock{shared->changing};
    const std::uint32_t count = shared->count.load(std::memory_order_relaxed);
    auto* const end = shared->tables.begin() + count;
    auto* const place = std::find(shared->tables.begin(), end, &table);
    found = place != end;
    if (found) {
      *place = end[-1];
      shared->count.store(count - 1, std::memory_order_release);
    }
  }
  if (found) detail::interested.fetch_sub(1, std::memory_order_seq_cst);
  refresh_if_missed(*shared);
}

void while_unchanged(const std::function<void()>& work) noexcept {
  State* const shared = state();
  if (shared == nullptr) return work();
  {
    const Inside guard;
    const std::lock_guard lock{shared->gate};
    work();
  }
  refresh_if_missed(*shared);
}

void refresh() noexcept {
  if (followed()) refresh_all(*state());
}

bool refresh_after_miss() noexcept {
  static constinit std::atomic<std::uint64_t> last{0};
  const std::uint64_t now = now_ns();
  std::uint64_t before = last.load(std::memory_order_relaxed);
  const auto interval = static_cast<std::uint64_t>(std::chrono::nanoseconds{kMissInterval}.count());
  if (before != 0 && now - before < interval) return false;
  if (!last.compare_exchange_strong(before, now, std::memory_order_relaxed)) return false;  // another thread refreshes
  refresh();
  return true;
}

void exclude(MappingTable& table, Range range, bool excluded) noexcept {
  State* const shared = state();
  if (shared == nullptr) return;
  {
    const Inside guard;
    const std::shared_lock lock{shared->gate};
    change_tables(*shared, [&](MappingTable& each) {
      if (&each == &table) each.change(range, excluded ? ~0U : ~kExcluded, excluded ? kExcluded : 0U);
    });
  }
  refresh_if_missed(*shared);
}

long map_excluded(MappingTable& table, std::size_t size, int protection, int flags, int fd, long offset) noexcept {
  State* const shared = state();
  if (shared == nullptr) return -ENOSYS;
  long result = 0;
  {
    const Inside guard;
    const std::shared_lock lock{shared->gate};
    result = raw_syscall(SYS_mmap, 0, static_cast<long>(size), protection, flags & ~MAP_FIXED, fd, offset);
    if (!failed(result)) {
      change_tables(*shared, [&](MappingTable& each) {
        each.assign(range_of(result, static_cast<long>(size)),
                    access_of(protection) | (&each == &table ? kExcluded : 0U));
      });
    }
  }
  refresh_if_missed(*shared);
  return result;
}

}  // namespace opal::memory::address_space
