// SPDX-License-Identifier: Apache-2.0
// tests/gpu/double/machine.hpp — everything the double knows in one process: devices, contexts, memory, streams.
// Handles that the program gets are numbers never given out twice, so that a stale one is seen.
// Threads: one lock, which a Call holds; everything else here wants it held.
#pragma once
#include "tests/gpu/cuda_test_api.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/gpu/double/control.hpp"
#include "tests/gpu/double/store.hpp"

namespace opal::cuda_double {

/// The handle by which a program names the default stream of the legacy kind.
inline const CUstream kLegacyStream = reinterpret_cast<CUstream>(1);

using Id = std::uint64_t;

template <class Handle>
Id id_of(Handle handle) noexcept {
  return reinterpret_cast<Id>(handle);
}
template <class Handle>
Handle handle_of(Id id) noexcept {
  return reinterpret_cast<Handle>(id);
}

/// A device that the process sees; its place in the list is its ordinal.
struct Device {
  unsigned physical = 0;  ///< of the machine, whatever CUDA_VISIBLE_DEVICES says
  CUuuid uuid{};
  Id primary = 0;  ///< its primary context while that is active
  unsigned retained = 0;
  std::uint64_t used = 0;  ///< bytes of this process
  Id default_pool = 0;
};

struct Context {
  int device = 0;
  bool primary = false;
  std::set<Id> peers;  ///< contexts to whose memory access was enabled
};

enum class Kind : std::uint8_t { legacy, mapped, pool, imported, pool_imported, managed, host, registered };

/// A range of addresses that means something to the driver.
struct Block {
  std::uintptr_t base = 0;
  std::size_t size = 0;
  Kind kind = Kind::legacy;
  Id buffer = 0;
  Id context = 0;
  int device = 0;
  std::shared_ptr<Store> store;  ///< none for registered memory
  std::size_t offset = 0;        ///< of the block in its store
  unsigned opens = 0;            ///< imported: by cuIpcOpenMemHandle
  std::uintptr_t exporter = 0;   ///< imported: address there
  pid_t owner = 0;               ///< imported: process
  Id pool = 0;
  unsigned long long handle_types = 0;
  bool foreign = false;    ///< mapped: memory that came by descriptor
  bool accessible = true;  ///< mapped: cuMemSetAccess was called
  bool sync_memops = false;

  [[nodiscard]] std::byte* bytes() const noexcept {
    return store != nullptr ? store->bytes() + offset : reinterpret_cast<std::byte*>(base);
  }
  [[nodiscard]] bool on_host() const noexcept { return kind == Kind::host || kind == Kind::registered; }
};

/// One end of a copy.
struct Place {
  std::byte* bytes = nullptr;
  std::size_t size = 0;
  std::shared_ptr<Store> store;  ///< keeps device memory mapped until the copy is done
  bool pageable = false;         ///< host memory that the driver does not know
};

/// What waits in a stream.
struct Operation {
  enum class Kind : std::uint8_t { copy, fill, record, wait, free };
  Kind kind = Kind::copy;
  Place to;
  Place from;
  std::vector<std::byte> staged;  ///< what pageable memory held at the call
  std::size_t size = 0;
  unsigned char value = 0;
  Id event = 0;
  std::uint64_t recording = 0;  ///< record: which one; wait: the one to wait for
  std::uintptr_t address = 0;   ///< free
  std::uint64_t due = 0;        ///< in queries
  std::uint64_t serial = 0;     ///< in the order of the calls
};

struct Stream {
  Id id = 0;  ///< of a context's default stream: the context's
  Id context = 0;
  bool non_blocking = false;
  std::deque<Operation> operations;
};

struct Event {
  Id context = 0;
  std::uint64_t recorded = 0;  ///< recordings asked for
  std::uint64_t done = 0;      ///< the last one that was reached
};

/// Physical memory of cuMemCreate.
struct Physical {
  std::shared_ptr<Store> store;
  CUmemAllocationProp prop{};
  unsigned references = 0;
  bool imported = false;
};

struct Pool {
  std::shared_ptr<Store> store;
  int device = 0;
  unsigned long long handle_types = 0;
  bool imported = false;
  std::size_t next = 0;  ///< pools of the double give no memory back: offsets only grow
};

class Machine final : public Control {
 public:
  static Machine& get();

  // Control
  void set(Setting setting, std::uint64_t value) override;
  [[nodiscard]] std::uint64_t count(Count what) const override;
  [[nodiscard]] std::uint64_t calls(const char* function) const override;
  void fail(const char* function, CUresult result, unsigned times) override;
  void release(unsigned operations) override;
  void reset() override;

  // machine.cpp
  [[nodiscard]] std::uint64_t setting(Setting which) const { return settings_[static_cast<std::size_t>(which)]; }
  Id new_id() { return next_id_++; }
  void make_devices();
  [[nodiscard]] bool peer_access(int from, int to) const;
  void forget_context(Id id);

  // address_space.cpp
  std::uintptr_t take_addresses(std::size_t size, std::size_t alignment);  ///< 0: none left
  void give_addresses(std::uintptr_t base);
  [[nodiscard]] bool is_device_address(std::uintptr_t address) const;
  Block* block_at(std::uintptr_t address);
  Block& add_block(Block block);
  void remove_block(std::uintptr_t base);
  /// The first part of [address, +size): all of it, or up to the end of one of several mappings side by side.
  std::optional<Place> place(std::uintptr_t address, std::size_t size);

  // streams.cpp
  Stream* stream_of(CUstream handle, Id context);  ///< the default one's handle is null; null: there is no such stream
  void submit(Stream& stream, Operation operation);
  void query();  ///< time goes on: what is due now completes
  void run_due();
  void finish(Stream& stream);  ///< completes all of it, and what it waits for
  void finish_all();

  mutable std::mutex mutex;
  pid_t pid = 0;  ///< that called cuInit
  std::vector<Device> devices;
  std::map<Id, Context> contexts;
  std::map<std::uintptr_t, Block> blocks;
  std::map<Id, Stream> streams;
  std::map<Id, Event> events;
  std::map<Id, Physical> physicals;
  std::map<Id, Pool> pools;
  std::uint64_t queries = 0;

 private:
  friend class Call;
  Machine();
  void load_settings();
  /// When a first operation completes: when it is due; now if what it waits for is done; now, after what it waits for.
  enum class When : std::uint8_t { due, released, waited_for };
  bool run_one(Stream& stream, When when);
  bool ready(Stream& stream, When when);
  void finish_until(Stream& stream, std::uint64_t serial);
  void execute(Operation& operation);

  struct Failure {
    CUresult result;
    unsigned times;
  };
  static constexpr std::size_t kSettings = static_cast<std::size_t>(Setting::api_version) + 1;
  std::array<std::uint64_t, kSettings> settings_{};
  std::map<std::string, Failure> failures_;
  std::map<std::string, std::uint64_t> calls_;
  Id next_id_ = 0x10000;
  std::uint64_t operations_ = 0;
  std::uintptr_t arena_ = 0;  // addresses at which nothing is mapped
  std::uintptr_t fresh_ = 0;  // no address from here on was given out
  std::map<std::uintptr_t, std::size_t> taken_;
};

/// One call of the driver: holds the lock, counts, and refuses where the function may not do anything.
class Call {
 public:
  /// `function` may carry its version; it is a literal.  `needs_init`: without cuInit in this process it is refused.
  explicit Call(const char* function, bool needs_init = true);

  [[nodiscard]] CUresult refused() const noexcept { return refused_; }  ///< CUDA_SUCCESS: go on
  Machine& machine() const noexcept { return machine_; }
  Machine* operator->() const noexcept { return &machine_; }
  /// Ends the process with a message: the program uses an object that it has destroyed, or that never was.
  [[noreturn]] void misuse(const char* what) const;
  /// The calling thread's current context; null: none, or it was destroyed.
  [[nodiscard]] Context* context() const;
  [[nodiscard]] Id context_id() const;

 private:
  const char* function_;
  Machine& machine_;
  std::lock_guard<std::mutex> lock_;
  CUresult refused_ = CUDA_SUCCESS;
};

/// The calling thread's stack of current contexts.
std::vector<Id>& context_stack();

}  // namespace opal::cuda_double
