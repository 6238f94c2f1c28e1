// SPDX-License-Identifier: Apache-2.0
// opal/am/region.hpp — memory that peers may access.  A Region is registered exactly as long as the object exists; it
// is for long-lived memory.  An ExposedMemory holds a lease of the registration cache, which may keep the memory
// registered afterwards; it is for the buffers of a protocol.  Both are move-only, do not own the memory, and must be
// destroyed before their Context.  Threads: as the Context.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "opal/am/lock.hpp"
#include "opal/btl/memory_handle.hpp"
#include "opal/core/bytes.hpp"
#include "opal/core/export.hpp"
#include "opal/core/system/mapping.hpp"
#include "opal/rcache/registrations/lease.hpp"

namespace opal::am {

class Context;

class OPAL_EXPORT Region {
 public:
  Region() noexcept;
  Region(Region&&) noexcept;
  Region& operator=(Region&&) noexcept;
  ~Region();  ///< deregisters: every handle of a peer is stale afterwards

  [[nodiscard]] void* base() const noexcept;
  [[nodiscard]] std::uint64_t size() const noexcept;
  /// The bytes that a peer needs to use the memory; it passes them to Endpoint::unpack_key().
  [[nodiscard]] ByteSpan key() const noexcept;

  // Of a Region that Context::register_address_space() made.  base() is null, size() is 0.
  [[nodiscard]] bool is_address_space() const noexcept;
  /// Denies peers access to the pages of [address, +size) that are mapped now, until they are unmapped or included.
  /// Requires, as the next two functions: is_address_space().
  void exclude(const void* address, std::size_t size) noexcept;
  void include(const void* address, std::size_t size) noexcept;
  /// Maps private memory that peers can never access.  Errors: no_memory, os.
  Result<Mapping> map_unregistered(std::size_t size) noexcept;

 private:
  friend class Context;
  struct State;  // in region.cpp
  explicit Region(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

class OPAL_EXPORT ExposedMemory {
 public:
  ExposedMemory() noexcept = default;
  ExposedMemory(ExposedMemory&& other) noexcept = default;
  ExposedMemory& operator=(ExposedMemory&& other) noexcept;
  ~ExposedMemory() { reset(); }  ///< ends the lease

  /// True if it holds a lease.
  explicit operator bool() const noexcept { return static_cast<bool>(lease_); }
  /// The bytes of a MemoryHandle, for the peer of the endpoint that exposed it; valid until reset().
  [[nodiscard]] ByteSpan handle() const noexcept;
  void reset() noexcept;

 private:
  friend class Endpoint;
  ExposedMemory(Lock& lock, rcache::Lease lease) noexcept : lock_(&lock), lease_(std::move(lease)) {}
  Lock* lock_ = nullptr;
  rcache::Lease lease_;  // reset() ends it under the lock
};

}  // namespace opal::am
