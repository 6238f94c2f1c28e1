// SPDX-License-Identifier: Apache-2.0
// opal/btl/portals4/device/interface.hpp — the network interface and what a module has of it: two event queues, a
// memory descriptor over the whole address space, and two entries of the portal table.
//   messages  with flow control; receive_buffers.hpp appends to it.  Its events are in the queue `arrivals`.
//   memory    registrations; memory.hpp appends to it.  No events.
// Events of own operations are in the queue `ends`: its size covers all that the module has in flight, since an event
// that is lost there would be an operation without an end.
// Owned by the module.  Threads: as the module.
#pragma once
#include <cstdint>
#include <string>
#include <utility>

#include "opal/btl/portals4/device/library.hpp"
#include "opal/core/export.hpp"
#include "opal/core/result.hpp"

namespace opal::btl::portals4 {

/// The default interface of a library: matching, with physical addresses.
class OPAL_EXPORT Interface {
 public:
  /// Returns the interface of `library` of this process, which it opens once and never closes: the reference
  /// implementation refuses PtlInit() after PtlFini(), and crashes after PtlNIFini().  A forked child opens its own.
  /// Errors: not_supported (no library), and those of error_of().  Threads: safe from any thread.
  static Result<const Interface*> open(const std::string& library);

  [[nodiscard]] const Library& library() const noexcept { return library_; }
  [[nodiscard]] ptl_handle_ni_t handle() const noexcept { return handle_; }
  [[nodiscard]] const ptl_ni_limits_t& limits() const noexcept { return limits_; }
  [[nodiscard]] const ptl_process_t& process() const noexcept { return process_; }
  /// Unlinks a match list entry.  While an operation of a peer runs in it, tries again for at most 2 s.  Returns a
  /// result of Portals; PTL_IN_USE: the operation still runs, and may access the entry's memory.
  [[nodiscard]] int unlink(ptl_handle_me_t entry) const noexcept;

 private:
  explicit Interface(const Library& library) noexcept : library_(library) {}
  Result<void> start() noexcept;
  Library library_;
  ptl_handle_ni_t handle_ = PTL_INVALID_HANDLE;
  ptl_ni_limits_t limits_{};
  ptl_process_t process_{};
};

/// What one module has of an interface.
class OPAL_EXPORT Objects {
 public:
  /// `arrivals`, `ends`: events that the queues hold.  Errors: those of error_of().
  static Result<Objects> create(const Interface& interface, std::size_t arrivals, std::size_t ends);
  Objects(Objects&& other) noexcept : interface_(std::exchange(other.interface_, nullptr)) {
    arrivals_ = other.arrivals_;
    ends_ = other.ends_;
    memory_ = other.memory_;
    message_entry_ = other.message_entry_;
    memory_entry_ = other.memory_entry_;
  }
  Objects& operator=(Objects&&) = delete;
  ~Objects();

  [[nodiscard]] ptl_handle_eq_t arrivals() const noexcept { return arrivals_; }
  [[nodiscard]] ptl_handle_eq_t ends() const noexcept { return ends_; }
  [[nodiscard]] ptl_handle_md_t memory() const noexcept { return memory_; }
  [[nodiscard]] ptl_pt_index_t message_entry() const noexcept { return message_entry_; }
  [[nodiscard]] ptl_pt_index_t memory_entry() const noexcept { return memory_entry_; }
  void abandon() noexcept { interface_ = nullptr; }

 private:
  explicit Objects(const Interface& interface) noexcept : interface_(&interface) {}
  const Interface* interface_;  // null: nothing to close
  ptl_handle_eq_t arrivals_ = PTL_EQ_NONE;
  ptl_handle_eq_t ends_ = PTL_EQ_NONE;
  ptl_handle_md_t memory_ = PTL_INVALID_HANDLE;
  ptl_pt_index_t message_entry_ = PTL_PT_ANY;
  ptl_pt_index_t memory_entry_ = PTL_PT_ANY;
};

/// What operations of the interface have in common.  Its address is the user_ptr of the operation's event.
struct Operation {
  enum class Kind : std::uint8_t { message, one_sided };
  explicit Operation(Kind of) noexcept : kind(of) {}
  Kind kind;
};

/// The offset in Objects::memory() of a local address.
inline ptl_size_t offset_of(const void* address) noexcept { return reinterpret_cast<ptl_size_t>(address); }

}  // namespace opal::btl::portals4
