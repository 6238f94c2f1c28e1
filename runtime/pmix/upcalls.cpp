// SPDX-License-Identifier: Apache-2.0
// The upcalls for connections, fences, modex, published names, events and job control.
// `members` are the processes that take part in a collective operation of PMIx.  The Membership of a rank says whether
// it has called PMIx_Init and PMIx_Finalize.
#include "runtime/pmix/upcalls.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <optional>
#include <set>
#include <span>

#include "opal/core/log.hpp"
#include "runtime/packing.hpp"
#include "runtime/pmix/status.hpp"

namespace runtime::pmix {
namespace {

// libpmix passes no user pointer to the functions of pmix_server_module_t.
Core* g_core = nullptr;

/// Runs `call`, which answers a client, in libpmix's thread.  Reason: most answer functions of libpmix 4.2 (op_cbfunc,
/// lookup_cbfunc, query_cbfunc of its pmix_server.c) change the queue of the client's connection without a lock, and so
/// does libpmix's thread.  Implementation: PMIx_server_deregister_resources() without resources only runs its callback
/// in that thread.
void in_libpmix_thread(std::function<void()> call) {
  using Call = std::function<void()>;
  auto kept = std::make_unique<Call>(std::move(call));
  const auto run = [](pmix_status_t, void* pointer) { (*std::unique_ptr<Call>{static_cast<Call*>(pointer)})(); };
  // Without resources it only calls `run` in libpmix's thread.
  const pmix_status_t status = PMIx_server_deregister_resources(nullptr, 0, run, kept.get());
  if (status == PMIX_SUCCESS) return void(kept.release());  // `run` owns it now
  opal::log::error("runtime", "a client gets no answer: {}", opal::to_string(to_error(status, "libpmix's thread")));
}

/// Answers a client's request.
void reply(pmix_op_cbfunc_t answer, void* cookie, pmix_status_t status) {
  if (answer != nullptr) in_libpmix_thread([=] { answer(status, cookie); });
}
void reply(pmix_info_cbfunc_t answer, void* cookie, pmix_status_t status) {
  in_libpmix_thread([=] { answer(status, nullptr, 0, cookie, nullptr, nullptr); });
}

/// The rank of a process of our job.  Empty for a process of another job and for PMIX_RANK_WILDCARD.
std::optional<unsigned> rank_of(const Core& core, const pmix_proc_t& proc) {
  if (core.job.job_id != proc.nspace || proc.rank >= core.membership.size()) return {};
  return proc.rank;
}

void set_membership(Core& core, const pmix_proc_t& proc, Core::Membership membership) {
  if (const auto rank = rank_of(core, proc)) core.membership[*rank] = membership;
}

pmix_status_t client_connected(const pmix_proc_t* proc, void* /*object*/, pmix_info_t* /*info*/, size_t /*ninfo*/,
                               pmix_op_cbfunc_t answer, void* cookie) {
  // Set here and not in the posted work: the loop may hear of the client's end before it runs that work.
  set_membership(*g_core, *proc, Core::Membership::member);
  g_core->loop.post([=] {
    reply(answer, cookie, PMIX_SUCCESS);
    g_core->user.on_joined();
  });
  return PMIX_SUCCESS;
}

/// The handler of PMIX_ERR_LOST_CONNECTION.  libpmix may report several clients at once: the first as the source, all
/// as affected.
void connection_lost(std::size_t, pmix_status_t, const pmix_proc_t* source, pmix_info_t* infos, std::size_t count,
                     pmix_info_t*, std::size_t, pmix_event_notification_cbfunc_fn_t done, void* cookie) {
  std::vector<pmix_proc_t> lost{*source};
  for (const pmix_info_t& info : std::span{infos, count}) {
    if (PMIX_CHECK_KEY(&info, PMIX_EVENT_AFFECTED_PROC) && info.value.type == PMIX_PROC)
      lost.push_back(*info.value.data.proc);
  }
  g_core->loop.post([lost = std::move(lost)] {
    for (const pmix_proc_t& client : lost) {
      const auto rank = rank_of(*g_core, client);
      if (rank && g_core->membership[*rank] == Core::Membership::member) g_core->user.on_disconnected(*rank);
    }
  });
  if (done != nullptr) done(PMIX_SUCCESS, nullptr, 0, nullptr, nullptr, cookie);
}

pmix_status_t client_finalized(const pmix_proc_t* proc, void* /*object*/, pmix_op_cbfunc_t answer, void* cookie) {
  g_core->loop.post([=, process = *proc] {
    set_membership(*g_core, process, Core::Membership::left);
    reply(answer, cookie, PMIX_SUCCESS);
  });
  return PMIX_SUCCESS;
}

pmix_status_t abort_job(const pmix_proc_t* proc, void* /*object*/, int status, const char* message,
                        pmix_proc_t* /*procs*/, size_t /*nprocs*/, pmix_op_cbfunc_t answer, void* cookie) {
  g_core->loop.post([=, process = *proc, text = std::string{message == nullptr ? "" : message}] {
    // Answer first: the client exits after the answer, and after on_abort() the launcher waits for that exit.
    reply(answer, cookie, PMIX_SUCCESS);
    if (const auto rank = rank_of(*g_core, process)) g_core->user.on_abort(*rank, status, text);
  });
  return PMIX_SUCCESS;
}

/// The state of `rank`.  A rank that has called PMIx_Finalize counts as ended: it takes part in no further operation.
Liveness liveness(const Core& core, unsigned rank) {
  if (core.membership[rank] == Core::Membership::left) return Liveness::ended;
  return core.user.liveness(rank);
}

/// The worst state among `procs`.
Liveness liveness(const Core& core, const std::vector<pmix_proc_t>& procs) {
  Liveness worst = Liveness::alive;
  for (const pmix_proc_t& proc : procs) {
    if (core.job.job_id != proc.nspace) continue;
    const bool all_ranks = proc.rank == PMIX_RANK_WILDCARD;
    const std::size_t first = all_ranks ? 0 : proc.rank;
    const std::size_t end = all_ranks ? core.membership.size() : first + 1;
    for (std::size_t rank = first; rank < std::min(end, core.membership.size()); ++rank) {
      worst = std::max(worst, liveness(core, static_cast<unsigned>(rank)));
    }
  }
  return worst;
}

/// Calls `answer` with PMIX_ERR_PROC_TERM_WO_SYNC if a member on this host has ended, else with PMIX_SUCCESS.
/// If a member is still ending, the call is deferred until its end is reported.  The launcher then knows the cause
/// before other ranks fail because of it.
void settle(const std::vector<pmix_proc_t>& members, const std::function<void(pmix_status_t)>& answer) {
  switch (liveness(*g_core, members)) {
    case Liveness::alive: return answer(PMIX_SUCCESS);
    case Liveness::ended: return answer(PMIX_ERR_PROC_TERM_WO_SYNC);
    case Liveness::ending: g_core->deferred.push_back([=] { settle(members, answer); }); return;
  }
}

/// True when `members` has a rank of this host whose end has not been reported.
bool has_living_member(const std::vector<pmix_proc_t>& members) {
  const auto lives = [](unsigned rank) {
    return g_core->host_of[rank] == g_core->job.own_host && g_core->user.liveness(rank) != Liveness::ended;
  };
  return std::any_of(members.begin(), members.end(), [&](const pmix_proc_t& member) {
    if (const auto rank = rank_of(*g_core, member)) return lives(*rank);
    if (member.rank != PMIX_RANK_WILDCARD || g_core->job.job_id != member.nspace) return false;
    const std::vector<std::uint32_t>& ours = g_core->job.hosts[g_core->job.own_host].ranks;
    return std::any_of(ours.begin(), ours.end(), lives);
  });
}

/// This host and the hosts of `members`, ascending.
std::vector<std::uint32_t> hosts_of(const std::vector<pmix_proc_t>& members) {
  std::set<std::uint32_t> hosts{g_core->job.own_host};
  for (const pmix_proc_t& member : members) {
    if (member.rank == PMIX_RANK_WILDCARD) hosts.insert(g_core->host_of.begin(), g_core->host_of.end());
    if (const auto rank = rank_of(*g_core, member)) hosts.insert(g_core->host_of[*rank]);
  }
  return {hosts.begin(), hosts.end()};
}

/// Answers with a copy of `data`, which libpmix releases after use.  Called in the loop: a pmix_modex_cbfunc_t of
/// libpmix may be called in any thread, unlike most answer functions (see in_libpmix_thread()).
void give(pmix_modex_cbfunc_t answer, void* cookie, pmix_status_t status, const std::string& data) {
  if (status != PMIX_SUCCESS) return answer(status, nullptr, 0, cookie, nullptr, nullptr);
  auto kept = std::make_unique<std::string>(data);
  const auto release = [](void* pointer) { std::unique_ptr<std::string>{static_cast<std::string*>(pointer)}; };
  std::string* const raw = kept.release();  // until libpmix calls `release`
  answer(status, raw->data(), raw->size(), cookie, release, raw);
}

/// Answers when all `members`, on any host, have arrived at the operation `what`, with the data of their hosts one
/// after the other.  Requires: libpmix reports that the members of this host have arrived.  libpmix also counts a rank
/// whose connection broke as arrived; the answer for a dead member is PMIX_ERR_PROC_TERM_WO_SYNC.
void join_fence(const std::string& what, const std::vector<pmix_proc_t>& members, std::string data,
                Cluster::Data answer) {
  settle(members, [=, data = std::move(data), answer = std::move(answer)](pmix_status_t status) {
    const std::vector<std::uint32_t> hosts = hosts_of(members);
    if (g_core->cluster == nullptr || hosts.size() == 1) return answer(status, data);
    // The other hosts do not wait for this host: all its members have ended (ProcessMap::absent()).
    if (!has_living_member(members)) return answer(status, data);
    std::set<std::uint32_t> ranks;
    for (const pmix_proc_t& member : members) ranks.insert(member.rank);
    g_core->cluster->fence(pack(FenceName{{ranks.begin(), ranks.end()}, what}), hosts, status, data, answer);
  });
}

pmix_status_t fence(const pmix_proc_t* procs, size_t nprocs, const pmix_info_t* /*info*/, size_t /*ninfo*/, char* data,
                    size_t ndata, pmix_modex_cbfunc_t answer, void* cookie) {
  std::string copy{data == nullptr ? "" : data, data == nullptr ? 0 : ndata};
  std::free(data);  // libpmix has passed its ownership
  g_core->loop.post([=, copy = std::move(copy), members = std::vector<pmix_proc_t>(procs, procs + nprocs)] {
    join_fence("fence", members, copy, [=](int status, const std::string& all) { give(answer, cookie, status, all); });
  });
  return PMIX_SUCCESS;
}

/// Answers request `number`, unless it has been answered.
void end_modex(std::uintptr_t number, pmix_status_t status, const std::string& data) {
  if (const auto modex = g_core->modexes.extract(number)) modex.mapped().answer(status, data);
}

/// The callback of local_modex().  Runs in libpmix's thread.
void answer_modex(pmix_status_t status, char* data, size_t size, void* number) {
  std::string copy{data == nullptr ? "" : data, data == nullptr ? 0 : size};
  g_core->loop.post([=, copy = std::move(copy)] { end_modex(reinterpret_cast<std::uintptr_t>(number), status, copy); });
}

/// Requests from libpmix the data that `rank` of this host has committed.
void local_modex(unsigned rank, Cluster::Data answer) {
  const pmix_proc_t proc = g_core->proc(rank);
  const std::uintptr_t number = ++g_core->last_modex;
  g_core->modexes[number] = {rank, std::move(answer)};
  const pmix_status_t status = PMIx_server_dmodex_request(&proc, answer_modex, reinterpret_cast<void*>(number));
  if (status != PMIX_SUCCESS) return end_modex(number, status, {});
  end_modexes_of_ended_ranks();
}

pmix_status_t direct_modex(const pmix_proc_t* proc, const pmix_info_t* /*info*/, size_t /*ninfo*/,
                           pmix_modex_cbfunc_t answer, void* cookie) {
  const auto rank = rank_of(*g_core, *proc);
  if (!rank) return PMIX_ERR_NOT_FOUND;
  g_core->loop.post([=] {
    const Cluster::Data reply = [=](int status, const std::string& data) { give(answer, cookie, status, data); };
    if (g_core->cluster == nullptr || g_core->host_of[*rank] == g_core->job.own_host) {
      return local_modex(*rank, reply);
    }
    g_core->cluster->modex(*rank, reply);
  });
  return PMIX_SUCCESS;
}

/// A libpmix buffer.  Its destructor frees the content too.
class Buffer {
 public:
  Buffer() { PMIX_DATA_BUFFER_CONSTRUCT(&buffer_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { PMIX_DATA_BUFFER_DESTRUCT(&buffer_); }
  pmix_data_buffer_t* get() noexcept { return &buffer_; }

 private:
  pmix_data_buffer_t buffer_;
};

/// Packs one value as libpmix does.  Empty: libpmix cannot pack it.
std::string pack_value(const pmix_value_t& value) {
  Buffer buffer;
  auto* const raw = const_cast<pmix_value_t*>(&value);  // only read
  if (PMIx_Data_pack(nullptr, buffer.get(), raw, 1, PMIX_VALUE) != PMIX_SUCCESS) return {};
  return {buffer.get()->base_ptr, buffer.get()->bytes_used};
}

/// Unpacks what pack_value() returned.  `value`: constructed by the caller, which destructs it also after a failure.
/// False: the bytes are no packed value, or there is no memory.
bool unpack_value(const std::string& packed, pmix_value_t& value) {
  if (packed.empty()) return false;
  Buffer buffer;
  pmix_byte_object_t bytes;
  bytes.size = packed.size();
  bytes.bytes = static_cast<char*>(std::malloc(bytes.size));
  if (bytes.bytes == nullptr) return false;
  std::memcpy(bytes.bytes, packed.data(), bytes.size);
  if (PMIx_Data_load(buffer.get(), &bytes) != PMIX_SUCCESS) {  // after success the buffer owns the bytes
    std::free(bytes.bytes);
    return false;
  }
  std::int32_t count = 1;
  return PMIx_Data_unpack(nullptr, buffer.get(), &value, &count, PMIX_VALUE) == PMIX_SUCCESS;
}

/// Packs an event for the other hosts.  `source`: a rank, or PMIX_RANK_UNDEF.
PackedEvent pack_event(pmix_status_t event, std::uint32_t source, pmix_data_range_t range,
                       std::span<const pmix_info_t> about) {
  PackedEvent packed{event, source, range, {}};
  for (const pmix_info_t& info : about) packed.infos.emplace_back(info.key, pack_value(info.value));
  return packed;
}

/// True when the directives have no PMIX_RANGE, or one that the name service of the job serves.
/// PMIX_RANGE_SESSION and PMIX_RANGE_GLOBAL are accepted, and mean the job.
bool is_for_the_job(std::span<const pmix_info_t> directives) {
  return std::none_of(directives.begin(), directives.end(), [](const pmix_info_t& info) {
    if (!PMIX_CHECK_KEY(&info, PMIX_RANGE)) return false;
    const pmix_data_range_t range = info.value.type == PMIX_DATA_RANGE ? info.value.data.range : PMIX_RANGE_INVALID;
    return range != PMIX_RANGE_UNDEF && range != PMIX_RANGE_NAMESPACE && range != PMIX_RANGE_SESSION &&
           range != PMIX_RANGE_GLOBAL;
  });
}

/// Passes a client's request to the name service of the job.
pmix_status_t serve_names(const pmix_proc_t& proc, NameRequest request, Cluster::Items answer) {
  if (!rank_of(*g_core, proc)) return PMIX_ERR_NOT_SUPPORTED;
  request.owner = proc.rank;
  g_core->loop.post([request = std::move(request), answer = std::move(answer)] {
    if (g_core->cluster != nullptr) return g_core->cluster->names(request, answer);
    g_core->names.serve(request, answer);
  });
  return PMIX_SUCCESS;
}

pmix_status_t publish(const pmix_proc_t* proc, const pmix_info_t* infos, size_t ninfo, pmix_op_cbfunc_t answer,
                      void* cookie) {
  if (!is_for_the_job({infos, ninfo})) return PMIX_ERR_NOT_SUPPORTED;
  NameRequest request{.kind = NameRequest::Kind::publish};
  pmix_persistence_t persistence = PMIX_PERSIST_SESSION;
  for (const pmix_info_t& info : std::span{infos, ninfo}) {
    if (PMIX_CHECK_KEY(&info, PMIX_PERSISTENCE)) {
      if (info.value.type != PMIX_PERSIST || info.value.data.persist > PMIX_PERSIST_SESSION) return PMIX_ERR_BAD_PARAM;
      persistence = info.value.data.persist;
    } else if (std::strncmp(info.key, "pmix.", 5) != 0) {  // keys with "pmix." are directives: range, timeout, euid ...
      request.items.push_back({info.key, proc->rank, pack_value(info.value)});
    }
  }
  for (PackedItem& item : request.items) item.persistence = persistence;
  return serve_names(*proc, std::move(request), [=](int status, const auto&) { reply(answer, cookie, status); });
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
                   const std::vector<PackedItem>& found) {
  in_libpmix_thread([=] {
    std::vector<pmix_pdata_t> data(found.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      PMIX_PDATA_CONSTRUCT(&data[i]);
      data[i].proc = g_core->proc(found[i].owner);
      PMIX_LOAD_KEY(data[i].key, found[i].name.c_str());
      (void)unpack_value(found[i].value, data[i].value);
    }
    answer(status, data.data(), data.size(), cookie);  // libpmix packs them before it returns
    for (pmix_pdata_t& each : data) PMIX_PDATA_DESTRUCT(&each);
  });
}

pmix_status_t lookup(const pmix_proc_t* proc, char** keys, const pmix_info_t* infos, size_t ninfo,
                     pmix_lookup_cbfunc_t answer, void* cookie) {
  if (!is_for_the_job({infos, ninfo})) return PMIX_ERR_NOT_SUPPORTED;
  NameRequest request{.kind = NameRequest::Kind::lookup, .names = to_strings(keys)};
  for (const pmix_info_t& info : std::span{infos, ninfo}) {
    if (PMIX_CHECK_KEY(&info, PMIX_WAIT)) request.wait = true;
    if (PMIX_CHECK_KEY(&info, PMIX_TIMEOUT))
      request.timeout_s = static_cast<std::uint64_t>(std::max(to_int(info.value), 0));
  }
  return serve_names(*proc, std::move(request), [=](int status, const std::vector<PackedItem>& items) {
    answer_lookup(answer, cookie, status, items);
  });
}

pmix_status_t unpublish(const pmix_proc_t* proc, char** keys, const pmix_info_t* infos, size_t ninfo,
                        pmix_op_cbfunc_t answer, void* cookie) {
  if (!is_for_the_job({infos, ninfo})) return PMIX_ERR_NOT_SUPPORTED;
  return serve_names(*proc, {.kind = NameRequest::Kind::unpublish, .names = to_strings(keys)},
                     [=](int status, const auto&) { reply(answer, cookie, status); });
}

/// The upcalls for PMIx_Connect and PMIx_Disconnect.
template <bool Connects>
pmix_status_t meet(const pmix_proc_t* procs, size_t nprocs, const pmix_info_t* /*info*/, size_t /*ninfo*/,
                   pmix_op_cbfunc_t answer, void* cookie) {
  g_core->loop.post([=, members = std::vector<pmix_proc_t>(procs, procs + nprocs)] {
    join_fence(Connects ? "connect" : "disconnect", members, {},
               [=](int status, const std::string&) { reply(answer, cookie, status); });
  });
  return PMIX_SUCCESS;
}

/// The upcall for PMIx_Job_control.  It accepts only checkpoint messages: one directive, PMIX_JOB_CTRL_ID.
pmix_status_t control_job(const pmix_proc_t* asker, const pmix_proc_t* /*targets*/, size_t /*ntargets*/,
                          const pmix_info_t* directives, size_t ndirectives, pmix_info_cbfunc_t answer, void* cookie) {
  const auto rank = rank_of(*g_core, *asker);
  if (!rank || ndirectives != 1 || !PMIX_CHECK_KEY(&directives[0], PMIX_JOB_CTRL_ID)) return PMIX_ERR_NOT_SUPPORTED;
  const pmix_value_t& id = directives[0].value;
  if (id.type != PMIX_STRING || id.data.string == nullptr) return PMIX_ERR_BAD_PARAM;
  g_core->loop.post([=, text = std::string{id.data.string}] {
    reply(answer, cookie, PMIX_SUCCESS);
    g_core->user.on_checkpoint(*rank, text);
  });
  return PMIX_SUCCESS;
}

/// The upcall for events.  libpmix itself sends an event to the clients of this host; this function sends it to the
/// other hosts.  It reports success at once, so libpmix does not wait for `answer`.
pmix_status_t notify_event(pmix_status_t code, const pmix_proc_t* source, pmix_data_range_t range, pmix_info_t* infos,
                           size_t ninfo, pmix_op_cbfunc_t /*answer*/, void* /*cookie*/) {
  const bool stays = range == PMIX_RANGE_LOCAL || range == PMIX_RANGE_PROC_LOCAL || range == PMIX_RANGE_RM;
  if (g_core->cluster == nullptr || stays || !rank_of(*g_core, *source)) return PMIX_OPERATION_SUCCEEDED;
  g_core->loop.post([event = pack_event(code, source->rank, range, {infos, ninfo})] {
    if (const auto sent = g_core->cluster->notify(event); !sent) {
      opal::log::warn("runtime", "an event of rank {} stays on its host: {}", event.source,
                      opal::to_string(sent.error()));
    }
  });
  return PMIX_OPERATION_SUCCEEDED;
}

}  // namespace

void end_modexes_of_ended_ranks() {
  if (g_core->modexes.empty()) return;
  // By way of libpmix's thread: it first answers those of the requests so far whose rank has committed.
  in_libpmix_thread([last = g_core->last_modex] {
    g_core->loop.post([last] {
      std::vector<std::uintptr_t> unanswered;
      for (const auto& [number, modex] : g_core->modexes) {
        if (number <= last && liveness(*g_core, modex.rank) == Liveness::ended) unanswered.push_back(number);
      }
      for (const std::uintptr_t number : unanswered) end_modex(number, PMIX_ERR_PROC_TERM_WO_SYNC, {});
    });
  });
}

void notify_clients(pmix_status_t event, const pmix_proc_t& source, pmix_data_range_t range, InfoList about) {
  auto infos = std::make_unique<InfoList>(std::move(about));
  const auto release = [](pmix_status_t, void* pointer) { std::unique_ptr<InfoList>{static_cast<InfoList*>(pointer)}; };
  const pmix_status_t status =
      PMIx_Notify_event(event, &source, range, infos->data(), infos->size(), release, infos.get());
  if (status == PMIX_SUCCESS) (void)infos.release();  // `release` owns it now
}

void Server::ask_for_checkpoint(const std::string& request) {
  InfoList infos;
  infos.add(PMIX_JOB_CTRL_ID, request);
  infos.add(PMIX_EVENT_NON_DEFAULT, true);
  infos.add(PMIX_EVENT_DO_NOT_CACHE, true);
  if (core_->cluster != nullptr) {
    const auto sent = core_->cluster->notify(
        pack_event(PMIX_JCTRL_CHECKPOINT, PMIX_RANK_UNDEF, PMIX_RANGE_NAMESPACE, {infos.data(), infos.size()}));
    if (!sent)
      opal::log::warn("runtime", "a checkpoint request does not reach the other hosts: {}",
                      opal::to_string(sent.error()));
  }
  notify_clients(PMIX_JCTRL_CHECKPOINT, core_->proc(PMIX_RANK_UNDEF), PMIX_RANGE_NAMESPACE, std::move(infos));
}

void Server::notify(const PackedEvent& event) {
  InfoList infos;
  for (const auto& [key, packed] : event.infos) {
    pmix_value_t value;
    PMIX_VALUE_CONSTRUCT(&value);
    if (unpack_value(packed, value)) infos.add_value(key.c_str(), value);
    PMIX_VALUE_DESTRUCT(&value);
  }
  notify_clients(event.status, core_->proc(event.source), event.range, std::move(infos));
}

void Server::modex(unsigned rank, Cluster::Data answer) { local_modex(rank, std::move(answer)); }

void hear_of_lost_connections() {
  static pmix_status_t codes[] = {PMIX_ERR_LOST_CONNECTION};
  // With a callback for the result of the registration, the call does not block.
  PMIx_Register_event_handler(
      codes, 1, nullptr, 0, connection_lost, [](pmix_status_t, std::size_t, void*) {}, nullptr);
}

pmix_server_module_t* upcalls(Core& core) noexcept {
  g_core = &core;
  static pmix_server_module_t table = [] {
    pmix_server_module_t module{};  // for a null function, libpmix answers PMIX_ERR_NOT_SUPPORTED
    module.client_finalized = client_finalized;
    module.abort = abort_job;
    module.fence_nb = fence;
    module.direct_modex = direct_modex;
    module.publish = publish;
    module.lookup = lookup;
    module.unpublish = unpublish;
    module.connect = meet<true>;
    module.disconnect = meet<false>;
    // This server gives every event of the job to libpmix, so it needs no registrations.
    module.register_events = [](auto...) { return PMIX_OPERATION_SUCCEEDED; };
    module.deregister_events = [](auto...) { return PMIX_OPERATION_SUCCEEDED; };
    module.notify_event = notify_event;
    module.job_control = control_job;
    module.client_connected2 = client_connected;
    return module;
  }();
  return &table;
}

}  // namespace runtime::pmix
