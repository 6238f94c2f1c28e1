// SPDX-License-Identifier: Apache-2.0
#include "runtime/pmix/upcalls.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>

namespace runtime::pmix {
namespace {

// The table of C functions has no place for a pointer of ours.
Core* g_core = nullptr;

bool has_key(const pmix_info_t& info, const char* key) { return std::strncmp(info.key, key, PMIX_MAX_KEYLEN) == 0; }

/// The rank of a process of our job; -1 for anybody else.
int rank_of(const Core& core, const pmix_proc_t& proc) {
  if (core.job_id != proc.nspace || proc.rank >= core.membership.size()) return -1;
  return static_cast<int>(proc.rank);
}

void set_membership(Core& core, const pmix_proc_t& proc, Core::Membership membership) {
  if (const int rank = rank_of(core, proc); rank >= 0) core.membership[static_cast<std::size_t>(rank)] = membership;
}

pmix_status_t client_connected(const pmix_proc_t* proc, void* /*object*/, pmix_info_t* /*info*/, size_t /*ninfo*/,
                               pmix_op_cbfunc_t answer, void* cookie) {
  g_core->loop.post([=, who = *proc] {
    set_membership(*g_core, who, Core::Membership::member);
    if (answer != nullptr) answer(PMIX_SUCCESS, cookie);
  });
  return PMIX_SUCCESS;
}

pmix_status_t client_finalized(const pmix_proc_t* proc, void* /*object*/, pmix_op_cbfunc_t answer, void* cookie) {
  g_core->loop.post([=, who = *proc] {
    set_membership(*g_core, who, Core::Membership::left);
    if (answer != nullptr) answer(PMIX_SUCCESS, cookie);
  });
  return PMIX_SUCCESS;
}

pmix_status_t abort_job(const pmix_proc_t* proc, void* /*object*/, int status, const char* message,
                        pmix_proc_t* /*procs*/, size_t /*nprocs*/, pmix_op_cbfunc_t answer, void* cookie) {
  g_core->loop.post([=, who = *proc, text = std::string{message == nullptr ? "" : message}] {
    // Answered first: the client must not wait for us while we wait for its end.
    if (answer != nullptr) answer(PMIX_SUCCESS, cookie);
    if (const int rank = rank_of(*g_core, who); rank >= 0) g_core->host.on_abort(rank, status, text);
  });
  return PMIX_SUCCESS;
}

/// The worst that is known about `rank`.
Liveness liveness(const Core& core, std::size_t rank) {
  if (core.membership[rank] == Core::Membership::left) return Liveness::ended;
  return core.host.liveness(static_cast<int>(rank));
}

/// The worst that is known about any of `procs`.
Liveness liveness(const Core& core, const std::vector<pmix_proc_t>& procs) {
  Liveness worst = Liveness::alive;
  for (const pmix_proc_t& proc : procs) {
    if (core.job_id != proc.nspace) continue;
    const bool everybody = proc.rank == PMIX_RANK_WILDCARD;
    const std::size_t first = everybody ? 0 : proc.rank;
    const std::size_t end = everybody ? core.membership.size() : first + 1;
    for (std::size_t rank = first; rank < std::min(end, core.membership.size()); ++rank) {
      worst = std::max(worst, liveness(core, rank));
    }
  }
  return worst;
}

/// Calls `answer` with success or the error for a dead member.  While a member is dying the answer waits for its end
/// to be reported, so that the job knows why it fails before the others can fail of the consequences.
void settle(const std::vector<pmix_proc_t>& members, const std::function<void(pmix_status_t)>& answer) {
  switch (liveness(*g_core, members)) {
    case Liveness::alive: return answer(PMIX_SUCCESS);
    case Liveness::ended: return answer(PMIX_ERR_PROC_TERM_WO_SYNC);
    case Liveness::ending: g_core->deferred.push_back([=] { settle(members, answer); }); return;
  }
}

/// All members of a fence are ours and have arrived, so its data is complete; but libpmix counts a rank whose
/// connection broke as arrived, which it did not.
pmix_status_t fence(const pmix_proc_t* procs, size_t nprocs, const pmix_info_t* /*info*/, size_t /*ninfo*/, char* data,
                    size_t ndata, pmix_modex_cbfunc_t answer, void* cookie) {
  g_core->loop.post([=, members = std::vector<pmix_proc_t>(procs, procs + nprocs)] {
    settle(members, [=](pmix_status_t status) {
      if (status == PMIX_SUCCESS) return answer(status, data, ndata, cookie, std::free, data);
      std::free(data);
      answer(status, nullptr, 0, cookie, nullptr, nullptr);
    });
  });
  return PMIX_SUCCESS;
}

/// Who asked for the data of a rank of ours.
struct ModexRequest {
  pmix_modex_cbfunc_t answer;
  void* cookie;
  std::string data;
};

void answer_modex(pmix_status_t status, char* data, size_t size, void* request_pointer) {
  std::unique_ptr<ModexRequest> request{static_cast<ModexRequest*>(request_pointer)};
  if (status == PMIX_SUCCESS) request->data.assign(data, size);
  const auto release = [](void* pointer) { std::unique_ptr<ModexRequest>{static_cast<ModexRequest*>(pointer)}; };
  ModexRequest* const kept = request.release();  // until libpmix calls `release`
  kept->answer(status, kept->data.data(), kept->data.size(), kept->cookie, release, kept);
}

pmix_status_t direct_modex(const pmix_proc_t* proc, const pmix_info_t* /*info*/, size_t /*ninfo*/,
                           pmix_modex_cbfunc_t answer, void* cookie) {
  if (rank_of(*g_core, *proc) < 0) return PMIX_ERR_NOT_FOUND;
  g_core->loop.post([=, who = *proc] {
    auto request = std::make_unique<ModexRequest>(ModexRequest{answer, cookie, {}});
    const pmix_status_t status = PMIx_server_dmodex_request(&who, answer_modex, request.get());
    if (status == PMIX_SUCCESS) {
      (void)request.release();  // answer_modex owns it now
    } else {
      answer(status, nullptr, 0, cookie, nullptr, nullptr);
    }
  });
  return PMIX_SUCCESS;
}

pmix_status_t publish(const pmix_proc_t* proc, const pmix_info_t* infos, size_t ninfo, pmix_op_cbfunc_t answer,
                      void* cookie) {
  std::vector<Published> items;
  bool first_read_only = false;
  for (const pmix_info_t& info : std::span{infos, ninfo}) {
    if (has_key(info, PMIX_PERSISTENCE)) {
      first_read_only = info.value.data.persist == PMIX_PERSIST_FIRST_READ;
    } else if (std::strncmp(info.key, "pmix.", 5) != 0) {  // those are directives: range, timeout, euid, ...
      items.push_back({info.key, *proc, std::make_shared<OwnedValue>(info.value), false});
    }
  }
  for (Published& item : items) item.first_read_only = first_read_only;
  g_core->loop.post([=, items = std::move(items)] { answer(g_core->names.publish(items), cookie); });
  return PMIX_SUCCESS;
}

std::vector<std::string> to_strings(char** texts) {
  std::vector<std::string> result;
  for (; texts != nullptr && *texts != nullptr; ++texts) result.emplace_back(*texts);
  return result;
}

int to_int(const pmix_value_t& value) {
  pmix_status_t status = PMIX_SUCCESS;
  int number = 0;
  PMIX_VALUE_GET_NUMBER(status, &value, number, int);
  return status == PMIX_SUCCESS ? number : 0;
}

void answer_lookup(pmix_lookup_cbfunc_t answer, void* cookie, pmix_status_t status,
                   const std::vector<Published>& found) {
  std::vector<pmix_pdata_t> data(found.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    data[i].proc = found[i].owner;
    PMIX_LOAD_KEY(data[i].key, found[i].name.c_str());
    data[i].value = found[i].value->get();  // borrowed: libpmix packs the answer before it returns
  }
  answer(status, data.data(), data.size(), cookie);
}

pmix_status_t lookup(const pmix_proc_t* /*proc*/, char** keys, const pmix_info_t* infos, size_t ninfo,
                     pmix_lookup_cbfunc_t answer, void* cookie) {
  bool wait = false;
  std::chrono::seconds timeout{0};
  for (const pmix_info_t& info : std::span{infos, ninfo}) {
    if (has_key(info, PMIX_WAIT)) wait = true;
    if (has_key(info, PMIX_TIMEOUT)) timeout = std::chrono::seconds{to_int(info.value)};
  }
  g_core->loop.post([=, names = to_strings(keys)] {
    g_core->names.lookup(names, wait, timeout, [=](pmix_status_t status, const std::vector<Published>& found) {
      answer_lookup(answer, cookie, status, found);
    });
  });
  return PMIX_SUCCESS;
}

pmix_status_t unpublish(const pmix_proc_t* proc, char** keys, const pmix_info_t* /*info*/, size_t /*ninfo*/,
                        pmix_op_cbfunc_t answer, void* cookie) {
  g_core->loop.post([=, who = *proc, names = to_strings(keys)] {
    g_core->names.unpublish(who, names);
    answer(PMIX_SUCCESS, cookie);
  });
  return PMIX_SUCCESS;
}

/// libpmix has waited for all local members, and on one host there are no others.
pmix_status_t connect_ranks(const pmix_proc_t* procs, size_t nprocs, const pmix_info_t* /*info*/, size_t /*ninfo*/,
                            pmix_op_cbfunc_t answer, void* cookie) {
  g_core->loop.post([=, members = std::vector<pmix_proc_t>(procs, procs + nprocs)] {
    settle(members, [=](pmix_status_t status) { answer(status, cookie); });
  });
  return PMIX_SUCCESS;
}

/// Every event that a rank may want originates in this server, so registrations change nothing.
pmix_status_t register_events(pmix_status_t* /*codes*/, size_t /*ncodes*/, const pmix_info_t* /*info*/,
                              size_t /*ninfo*/, pmix_op_cbfunc_t /*answer*/, void* /*cookie*/) {
  return PMIX_OPERATION_SUCCEEDED;
}

pmix_status_t deregister_events(pmix_status_t* /*codes*/, size_t /*ncodes*/, pmix_op_cbfunc_t /*answer*/,
                                void* /*cookie*/) {
  return PMIX_OPERATION_SUCCEEDED;
}

/// libpmix has told the local clients; other hosts, which would be told here, do not exist.
pmix_status_t notify_event(pmix_status_t /*code*/, const pmix_proc_t* /*source*/, pmix_data_range_t /*range*/,
                           pmix_info_t* /*info*/, size_t /*ninfo*/, pmix_op_cbfunc_t /*answer*/, void* /*cookie*/) {
  return PMIX_OPERATION_SUCCEEDED;
}

}  // namespace

pmix_server_module_t* upcalls(Core& core) noexcept {
  g_core = &core;
  static pmix_server_module_t table = [] {
    pmix_server_module_t module{};  // what is null is answered PMIX_ERR_NOT_SUPPORTED by libpmix
    module.client_finalized = client_finalized;
    module.abort = abort_job;
    module.fence_nb = fence;
    module.direct_modex = direct_modex;
    module.publish = publish;
    module.lookup = lookup;
    module.unpublish = unpublish;
    module.connect = connect_ranks;
    module.disconnect = connect_ranks;
    module.register_events = register_events;
    module.deregister_events = deregister_events;
    module.notify_event = notify_event;
    module.client_connected2 = client_connected;
    return module;
  }();
  return &table;
}

}  // namespace runtime::pmix
