// SPDX-License-Identifier: Apache-2.0
// The objects behind handles, and the records of an operation at its two ends.
// The mutex of the Interface guards all members that change after construction.
#pragma once

#include <portals4.h>

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <utility>

#include "tests/portals4/descriptor.hpp"
#include "tests/portals4/queue.hpp"
#include "tests/portals4/wire.hpp"

namespace opal::test::portals4 {

/// Address arithmetic without a null base: a region may begin at NULL and cover the whole address space.
inline std::byte* address_at(void* start, std::uint64_t offset) {
  return reinterpret_cast<std::byte*>(reinterpret_cast<std::uintptr_t>(start) + offset);
}

struct EventQueue {
  std::size_t capacity = 0;
  Queue<ptl_event_t> events;
  std::size_t reserved = 0;  ///< events that messages in progress at a flow-controlled entry will need
  bool has_gap = false;      ///< events before the first one are lost
  bool freed = false;

  bool has_room(std::size_t count) const { return events.size() + reserved + count <= capacity; }
};

struct MemoryDescriptor {
  void* start = nullptr;
  std::uint64_t length = 0;
  unsigned options = 0;
  std::shared_ptr<EventQueue> queue;  ///< null: no events
  unsigned pending = 0;               ///< operations without their last event
};

struct MatchEntry {
  ptl_me_t fields{};
  void* user_ptr = nullptr;
  ptl_handle_me_t handle = PTL_INVALID_HANDLE;
  ptl_pt_index_t pt_index = 0;
  std::uint64_t local_offset = 0;  ///< with PTL_ME_MANAGE_LOCAL: bytes taken by messages
  unsigned active = 0;             ///< messages in progress
  bool is_linked = false;
  std::list<std::shared_ptr<MatchEntry>>::iterator position;  ///< while linked

  bool has(unsigned option) const { return (fields.options & option) != 0; }
};

struct PortalEntry {
  bool is_allocated = false;
  bool is_enabled = false;
  bool announces_disabled = false;  ///< PTL_EVENT_PT_DISABLED follows when no message is active
  unsigned options = 0;
  unsigned active = 0;  ///< messages in progress
  std::shared_ptr<EventQueue> queue;
  std::list<std::shared_ptr<MatchEntry>> entries;

  bool has_flow_control() const { return (options & PTL_PT_FLOWCTRL) != 0; }
};

/// An operation at the initiator.
struct Operation {
  wire::Request request;
  ptl_process_t target{};
  void* user_ptr = nullptr;
  const std::byte* outgoing = nullptr;  ///< request's body
  std::byte* incoming = nullptr;        ///< room for the response's body: request.length bytes
  std::shared_ptr<MemoryDescriptor> source;
  std::shared_ptr<MemoryDescriptor> destination;
};

/// A message at the target, from its match to its event.
struct Delivery {
  ptl_ni_fail_t fail = PTL_NI_DROPPED;
  std::shared_ptr<MatchEntry> entry;  ///< null: rejected
  std::uint64_t offset = 0;
  std::uint64_t mlength = 0;
  bool unlinks = false;
  std::size_t reserved = 0;

  std::byte* memory() const { return address_at(entry->fields.start, offset); }
};

}  // namespace opal::test::portals4
