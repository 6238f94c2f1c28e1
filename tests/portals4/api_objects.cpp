// SPDX-License-Identifier: Apache-2.0
// Entry points: portal table entries, memory descriptors, match list entries.
#include <iterator>

#include "tests/portals4/library.hpp"

using namespace opal::test::portals4;

namespace {

constexpr unsigned kDescriptorOptions = PTL_MD_EVENT_SUCCESS_DISABLE | PTL_MD_EVENT_SEND_DISABLE;
constexpr unsigned kEntryOptions =
    PTL_ME_OP_PUT | PTL_ME_OP_GET | PTL_ME_USE_ONCE | PTL_ME_IS_ACCESSIBLE | PTL_ME_EVENT_LINK_DISABLE |
    PTL_ME_EVENT_COMM_DISABLE | PTL_ME_EVENT_FLOWCTRL_DISABLE | PTL_ME_EVENT_SUCCESS_DISABLE |
    PTL_ME_EVENT_UNLINK_DISABLE | PTL_ME_MANAGE_LOCAL | PTL_ME_NO_TRUNCATE | PTL_ME_MAY_ALIGN;

bool is_beyond(std::size_t count, int limit) { return count >= static_cast<std::size_t>(limit); }

}  // namespace

int PtlPTAlloc(ptl_handle_ni_t ni_handle, unsigned int options, ptl_handle_eq_t eq_handle, ptl_pt_index_t pt_index_req,
               ptl_pt_index_t* pt_index) {
  Call call{ni_handle};
  if (call.result() != PTL_OK) return call.result();
  if ((options & ~unsigned{PTL_PT_FLOWCTRL}) != 0 || pt_index == nullptr) return PTL_ARG_INVALID;
  const auto queue = find(call->queues, eq_handle);
  if (queue == nullptr && eq_handle != PTL_EQ_NONE) return PTL_ARG_INVALID;
  if (queue == nullptr && (options & PTL_PT_FLOWCTRL) != 0) return PTL_PT_EQ_NEEDED;

  ptl_pt_index_t index = pt_index_req;
  if (index == PTL_PT_ANY) {
    for (index = 0; index < call->portals.size() && call->portals[index].is_allocated; ++index) {
    }
    if (index == call->portals.size()) return PTL_PT_FULL;
  }
  if (index >= call->portals.size()) return PTL_ARG_INVALID;
  PortalEntry& portal = call->portals[index];
  if (portal.is_allocated) return PTL_PT_IN_USE;
  portal = {};
  portal.is_allocated = true;
  portal.is_enabled = true;
  portal.options = options;
  portal.queue = queue;
  *pt_index = index;
  return PTL_OK;
}

int PtlPTFree(ptl_handle_ni_t ni_handle, ptl_pt_index_t pt_index) {
  Call call{ni_handle};
  if (call.result() != PTL_OK) return call.result();
  PortalEntry* const portal = call->portal_locked(pt_index);
  if (portal == nullptr) return PTL_ARG_INVALID;
  if (!portal->entries.empty() || portal->active != 0) return PTL_PT_IN_USE;
  *portal = {};
  return PTL_OK;
}

int PtlPTDisable(ptl_handle_ni_t ni_handle, ptl_pt_index_t pt_index) {
  Call call{ni_handle};
  if (call.result() != PTL_OK) return call.result();
  PortalEntry* const portal = call->portal_locked(pt_index);
  if (portal == nullptr) return PTL_ARG_INVALID;
  call->disable_locked(*portal, Interface::Announce::no);
  call->changed.wait(call.lock(), [&] { return portal->active == 0; });
  return PTL_OK;
}

int PtlPTEnable(ptl_handle_ni_t ni_handle, ptl_pt_index_t pt_index) {
  Call call{ni_handle};
  if (call.result() != PTL_OK) return call.result();
  PortalEntry* const portal = call->portal_locked(pt_index);
  if (portal == nullptr) return PTL_ARG_INVALID;
  portal->is_enabled = true;
  portal->announces_disabled = false;
  return PTL_OK;
}

int PtlMDBind(ptl_handle_ni_t ni_handle, const ptl_md_t* md, ptl_handle_md_t* md_handle) {
  Call call{ni_handle};
  if (call.result() != PTL_OK) return call.result();
  if (md == nullptr || md_handle == nullptr) return PTL_ARG_INVALID;
  if ((md->options & ~kDescriptorOptions) != 0 || md->ct_handle != PTL_CT_NONE) return PTL_ARG_INVALID;
  const auto queue = find(call->queues, md->eq_handle);
  if (queue == nullptr && md->eq_handle != PTL_EQ_NONE) return PTL_ARG_INVALID;
  if (is_beyond(call->descriptors.size(), call->limits.max_mds)) return PTL_NO_SPACE;
  const auto descriptor = std::make_shared<MemoryDescriptor>();
  descriptor->start = md->start;
  descriptor->length = md->length;
  descriptor->options = md->options;
  descriptor->queue = queue;
  *md_handle = call->new_handle_locked(6);
  call->descriptors.emplace(*md_handle, descriptor);
  return PTL_OK;
}

int PtlMDRelease(ptl_handle_md_t md_handle) {
  Call call;
  if (call.result() != PTL_OK) return call.result();
  const auto descriptor = find(call->descriptors, md_handle);
  if (descriptor == nullptr) return PTL_ARG_INVALID;
  if (descriptor->pending != 0) return PTL_IN_USE;
  call->descriptors.erase(md_handle);
  return PTL_OK;
}

int PtlMEAppend(ptl_handle_ni_t ni_handle, ptl_pt_index_t pt_index, const ptl_me_t* me, ptl_list_t ptl_list,
                void* user_ptr, ptl_handle_me_t* me_handle) {
  Call call{ni_handle};
  if (call.result() != PTL_OK) return call.result();
  PortalEntry* const portal = call->portal_locked(pt_index);
  if (portal == nullptr || me == nullptr || me_handle == nullptr || ptl_list != PTL_PRIORITY_LIST) {
    return PTL_ARG_INVALID;
  }
  if ((me->options & ~kEntryOptions) != 0 || me->ct_handle != PTL_CT_NONE) return PTL_ARG_INVALID;
  if (is_beyond(portal->entries.size(), call->limits.max_list_size)) return PTL_LIST_TOO_LONG;
  if (is_beyond(call->entries.size(), call->limits.max_entries)) return PTL_NO_SPACE;

  const auto entry = std::make_shared<MatchEntry>();
  entry->fields = *me;
  entry->user_ptr = user_ptr;
  entry->pt_index = pt_index;
  entry->handle = *me_handle = call->new_handle_locked(7);
  entry->position = portal->entries.insert(portal->entries.end(), entry);
  entry->is_linked = true;
  call->entries.emplace(entry->handle, entry);
  if (!entry->has(PTL_ME_EVENT_LINK_DISABLE)) {
    ptl_event_t event{};
    event.type = PTL_EVENT_LINK;
    event.pt_index = pt_index;
    event.user_ptr = user_ptr;
    event.start = me->start;
    call->push_locked(portal->queue.get(), event);
  }
  return PTL_OK;
}

int PtlMEUnlink(ptl_handle_me_t me_handle) {
  Call call;
  if (call.result() != PTL_OK) return call.result();
  const auto entry = find(call->entries, me_handle);
  if (entry == nullptr) return PTL_ARG_INVALID;
  if (entry->active != 0) return PTL_IN_USE;
  call->unlink_locked(*entry);
  return PTL_OK;
}
