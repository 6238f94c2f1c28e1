// SPDX-License-Identifier: Apache-2.0
// The target's part of an interface: which entry a message matches, what becomes of it, and its events.
#include <algorithm>
#include <utility>

#include "tests/portals4/atomics.hpp"
#include "tests/portals4/interface.hpp"

namespace opal::test::portals4 {
namespace {

std::uint64_t offset_in(const MatchEntry& entry, const wire::Request& request) {
  return entry.has(PTL_ME_MANAGE_LOCAL) ? entry.local_offset : request.remote_offset;
}

std::uint64_t room_in(const MatchEntry& entry, std::uint64_t offset) {
  return offset < entry.fields.length ? entry.fields.length - offset : 0;
}

bool matches(const MatchEntry& entry, const wire::Request& request, Peer initiator) {
  const ptl_me_t& fields = entry.fields;
  if (fields.match_id.phys.nid != PTL_NID_ANY && fields.match_id.phys.nid != kNid) return false;
  if (fields.match_id.phys.pid != PTL_PID_ANY && fields.match_id.phys.pid != initiator.pid) return false;
  if (((request.match_bits ^ fields.match_bits) & ~fields.ignore_bits) != 0) return false;
  return !entry.has(PTL_ME_NO_TRUNCATE) || request.length <= room_in(entry, offset_in(entry, request));
}

bool is_permitted(const MatchEntry& entry, wire::Kind kind) {
  const bool writes = kind != wire::Kind::get;
  const bool reads = kind == wire::Kind::get || wire::is_fetching(kind);
  return (!writes || entry.has(PTL_ME_OP_PUT)) && (!reads || entry.has(PTL_ME_OP_GET));
}

ptl_event_kind_t event_kind(wire::Kind kind) {
  switch (kind) {
    case wire::Kind::put: return PTL_EVENT_PUT;
    case wire::Kind::get: return PTL_EVENT_GET;
    case wire::Kind::atomic: return PTL_EVENT_ATOMIC;
    default: return PTL_EVENT_FETCH_ATOMIC;
  }
}

ptl_event_t entry_event(ptl_event_kind_t type, const MatchEntry& entry) {
  ptl_event_t event{};
  event.type = type;
  event.pt_index = entry.pt_index;
  event.user_ptr = entry.user_ptr;
  event.start = entry.fields.start;
  event.ptl_list = PTL_PRIORITY_LIST;
  return event;
}

Delivery rejection(ptl_ni_fail_t fail) {
  Delivery delivery;
  delivery.fail = fail;
  return delivery;
}

}  // namespace

Delivery Interface::begin_delivery(const wire::Request& request, Peer initiator) {
  const std::lock_guard lock{mutex};
  PortalEntry* const portal = portal_locked(request.pt_index);
  if (portal == nullptr) return rejection(PTL_NI_DROPPED);
  if (!portal->is_enabled) return rejection(PTL_NI_PT_DISABLED);
  const auto found = std::find_if(portal->entries.begin(), portal->entries.end(),
                                  [&](const auto& entry) { return matches(*entry, request, initiator); });
  if (found != portal->entries.end()) return place_locked(*portal, *found, request, initiator);
  if (!portal->has_flow_control()) return rejection(PTL_NI_DROPPED);
  disable_locked(*portal, Announce::yes);
  return rejection(PTL_NI_PT_DISABLED);
}

Delivery Interface::place_locked(PortalEntry& portal, std::shared_ptr<MatchEntry> entry, const wire::Request& request,
                                 Peer initiator) {
  if (entry->fields.uid != PTL_UID_ANY && entry->fields.uid != initiator.uid) return rejection(PTL_NI_PERM_VIOLATION);
  if (!is_permitted(*entry, request.kind)) return rejection(PTL_NI_OP_VIOLATION);

  Delivery delivery;
  delivery.fail = PTL_NI_OK;
  delivery.offset = offset_in(*entry, request);
  const std::uint64_t maximum = wire::is_atomic(request.kind) ? limits.max_atomic_size : limits.max_msg_size;
  delivery.mlength = std::min({request.length, room_in(*entry, delivery.offset), maximum});
  if (wire::is_atomic(request.kind)) {
    const std::size_t item = item_size(request.datatype);
    const auto first = reinterpret_cast<std::uintptr_t>(entry->fields.start) + delivery.offset;
    delivery.mlength -= delivery.mlength % item;
    if (first % item != 0) return rejection(PTL_NI_OP_VIOLATION);  // not atomic for the processor
  }
  const bool is_managed = entry->has(PTL_ME_MANAGE_LOCAL);
  const std::uint64_t left = is_managed ? entry->fields.length - entry->local_offset - delivery.mlength : 0;
  delivery.unlinks = entry->has(PTL_ME_USE_ONCE) || (is_managed && left < entry->fields.min_free);

  if (portal.has_flow_control()) {
    const bool has_event = !entry->has(PTL_ME_EVENT_COMM_DISABLE) && !entry->has(PTL_ME_EVENT_SUCCESS_DISABLE);
    const bool has_unlink_event = delivery.unlinks && !entry->has(PTL_ME_EVENT_UNLINK_DISABLE);
    delivery.reserved = std::size_t{has_event} + std::size_t{has_unlink_event};
    if (delivery.reserved != 0 && !portal.queue->has_room(delivery.reserved)) {
      disable_locked(portal, entry->has(PTL_ME_EVENT_FLOWCTRL_DISABLE) ? Announce::no : Announce::yes);
      return rejection(PTL_NI_PT_DISABLED);
    }
    portal.queue->reserved += delivery.reserved;
  }
  if (is_managed) entry->local_offset += delivery.mlength;
  ++entry->active;
  ++portal.active;
  if (delivery.unlinks) unlink_locked(*entry);
  delivery.entry = std::move(entry);
  return delivery;
}

void Interface::end_delivery(const Delivery& delivery, const wire::Request& request, Peer initiator) {
  const std::lock_guard lock{mutex};
  MatchEntry& entry = *delivery.entry;
  PortalEntry& portal = portals[entry.pt_index];
  EventQueue* const queue = portal.queue.get();
  if (queue != nullptr) queue->reserved -= delivery.reserved;

  const bool is_wanted = delivery.fail != PTL_NI_OK || !entry.has(PTL_ME_EVENT_SUCCESS_DISABLE);
  if (!entry.has(PTL_ME_EVENT_COMM_DISABLE) && is_wanted) {
    ptl_event_t event = entry_event(event_kind(request.kind), entry);
    event.start = delivery.memory();
    event.hdr_data = request.hdr_data;
    event.match_bits = request.match_bits;
    event.rlength = request.length;
    event.mlength = delivery.mlength;
    event.remote_offset = request.remote_offset;
    event.initiator.phys.nid = kNid;
    event.initiator.phys.pid = initiator.pid;
    event.uid = initiator.uid;
    event.ni_fail_type = delivery.fail;
    event.atomic_operation = request.operation;
    event.atomic_type = request.datatype;
    push_locked(queue, event);
  }
  if (delivery.unlinks && !entry.has(PTL_ME_EVENT_UNLINK_DISABLE)) {
    push_locked(queue, entry_event(PTL_EVENT_AUTO_UNLINK, entry));
  }
  --entry.active;
  if (!entry.is_linked && entry.active == 0) entries.erase(entry.handle);
  --portal.active;
  announce_disabled_locked(portal);
  changed.notify_all();
}

void Interface::unlink_locked(MatchEntry& entry) {
  entry.is_linked = false;
  PortalEntry& portal = portals[entry.pt_index];
  portal.entries.erase(entry.position);
  if (entry.active == 0) entries.erase(entry.handle);
}

void Interface::disable_locked(PortalEntry& portal, Announce announce) {
  portal.is_enabled = false;
  portal.announces_disabled = announce == Announce::yes;
  announce_disabled_locked(portal);
}

void Interface::announce_disabled_locked(PortalEntry& portal) {
  if (portal.active != 0 || !std::exchange(portal.announces_disabled, false)) return;
  ptl_event_t event{};
  event.type = PTL_EVENT_PT_DISABLED;
  event.ni_fail_type = PTL_NI_PT_DISABLED;
  event.pt_index = static_cast<ptl_pt_index_t>(&portal - portals.data());
  push_locked(portal.queue.get(), event);
}

}  // namespace opal::test::portals4
