// SPDX-License-Identifier: Apache-2.0
// PMIx_Query_info: answers questions about the job from what this host's server knows, without asking other hosts:
// where each rank runs it knows of all of them, process ids and ends of its own ones, groups with members here.
#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "opal/core/build_info.hpp"
#include "runtime/pmix/info_list.hpp"
#include "runtime/pmix/upcalls.hpp"

namespace runtime::pmix {
namespace {

/// A key and its qualifiers.
struct Question {
  std::string key;
  std::optional<std::string> job;  ///< PMIX_NSPACE
  std::optional<pmix_rank_t> rank;
  std::optional<std::string> group;  ///< PMIX_GROUP_ID
};

Question question_of(const char* key, const pmix_query_t& query) {
  Question result{.key = key, .job = {}, .rank = {}, .group = {}};
  for (const pmix_info_t& info : std::span{query.qualifiers, query.nqual}) {
    const auto is = [&](const char* wanted, pmix_data_type_t type) {
      return PMIX_CHECK_KEY(&info, wanted) && info.value.type == type;
    };
    if (is(PMIX_NSPACE, PMIX_STRING) && info.value.data.string != nullptr) result.job = info.value.data.string;
    if (is(PMIX_GROUP_ID, PMIX_STRING) && info.value.data.string != nullptr) result.group = info.value.data.string;
    if (is(PMIX_RANK, PMIX_PROC_RANK)) result.rank = info.value.data.rank;
    if (is(PMIX_PROCID, PMIX_PROC) && info.value.data.proc != nullptr) {
      result.job = info.value.data.proc->nspace;
      result.rank = info.value.data.proc->rank;
    }
  }
  return result;
}

pmix_proc_state_t state_of(const Core& core, pmix_rank_t rank, pid_t pid) {
  if (core.host_of[rank] != core.job.own_host) return PMIX_PROC_STATE_UNDEF;
  if (core.host.liveness(rank) == Liveness::ended) return PMIX_PROC_STATE_TERMINATED;
  if (pid == 0) return PMIX_PROC_STATE_PREPPED;
  return core.membership[rank] == Core::Membership::member ? PMIX_PROC_STATE_CONNECTED : PMIX_PROC_STATE_RUNNING;
}

/// The ranks of the job, or those of this host.
pmix_status_t add_procs(const Core& core, const Question& question, bool local, InfoList& results) {
  std::vector<pmix_proc_info_t> table;
  for (pmix_rank_t rank = 0; rank < core.host_of.size(); ++rank) {
    if (local && core.host_of[rank] != core.job.own_host) continue;
    const pmix_rank_t wanted = question.rank.value_or(PMIX_RANK_WILDCARD);
    if (wanted != PMIX_RANK_WILDCARD && wanted != rank) continue;
    pmix_proc_info_t& proc = table.emplace_back();
    PMIX_PROC_INFO_CONSTRUCT(&proc);
    proc.proc = core.proc(rank);
    // Only read.
    proc.hostname = const_cast<char*>(core.job.hosts[core.host_of[rank]].name.c_str());
    proc.executable_name = const_cast<char*>(core.host.program().c_str());
    proc.pid = core.host.pid(rank);
    proc.state = state_of(core, rank, proc.pid);
  }
  if (question.rank && table.empty()) return PMIX_ERR_NOT_FOUND;
  const pmix_data_array_t array{PMIX_PROC_INFO, table.size(), table.data()};
  results.load(question.key.c_str(), &array, PMIX_DATA_ARRAY);
  return PMIX_SUCCESS;
}

pmix_status_t add_group_names(const Core& core, const Question& question, InfoList& results) {
  std::vector<char*> names;
  for (const auto& [name, members] : core.groups) names.push_back(const_cast<char*>(name.c_str()));  // only read
  const pmix_data_array_t array{PMIX_STRING, names.size(), names.data()};
  results.load(question.key.c_str(), &array, PMIX_DATA_ARRAY);
  return PMIX_SUCCESS;
}

pmix_status_t add_group_members(const Core& core, const Question& question, InfoList& results) {
  if (!question.group) return PMIX_ERR_BAD_PARAM;
  const auto group = core.groups.find(*question.group);
  if (group == core.groups.end()) return PMIX_ERR_NOT_FOUND;
  const pmix_data_array_t array{PMIX_PROC, group->second.size(), const_cast<pmix_proc_t*>(group->second.data())};
  results.load(question.key.c_str(), &array, PMIX_DATA_ARRAY);
  return PMIX_SUCCESS;
}

using Answerer = std::function<pmix_status_t(const Core&, const Question&, InfoList&)>;

struct Answer {
  const char* key;
  Answerer answer;
};

/// An Answerer that adds the value of(core) under the key of the question.
template <class Value>
Answerer value(Value of) {
  return [of](const Core& core, const Question& question, InfoList& results) {
    results.add(question.key.c_str(), of(core));
    return PMIX_SUCCESS;
  };
}

std::string supported_keys();

const std::vector<Answer>& answers() {
  const auto ranks = [](const Core& core) { return core.job.ranks; };
  static const std::vector<Answer> all{
      {PMIX_QUERY_SUPPORTED_KEYS, value([](const Core&) { return supported_keys(); })},
      {PMIX_QUERY_NAMESPACES, value([](const Core& core) { return core.job.job_id; })},
      {PMIX_QUERY_PROC_TABLE,
       [](auto& core, auto& question, auto& out) { return add_procs(core, question, false, out); }},
      {PMIX_QUERY_LOCAL_PROC_TABLE,
       [](auto& core, auto& question, auto& out) { return add_procs(core, question, true, out); }},
      {PMIX_QUERY_NUM_PSETS, value([](const Core&) { return std::size_t{0}; })},  // none are defined
      {PMIX_QUERY_PSET_NAMES, value([](const Core&) { return std::string{}; })},
      {PMIX_QUERY_NUM_GROUPS, value([](const Core& core) { return core.groups.size(); })},
      {PMIX_QUERY_GROUP_NAMES, add_group_names},
      {PMIX_QUERY_GROUP_MEMBERSHIP, add_group_members},
      {PMIX_JOB_SIZE, value(ranks)},
      {PMIX_UNIV_SIZE, value(ranks)},
      {PMIX_MAX_PROCS, value(ranks)},
      {PMIX_NUM_NODES, value([](const Core& core) { return node_id(core.job, core.job.hosts.size()); })},
      {PMIX_RM_NAME, value([](const Core&) { return std::string("opalrun"); })},
      {PMIX_RM_VERSION, value([](const Core&) { return std::string{opal::build_info().version}; })},
  };
  return all;
}

std::string supported_keys() {
  std::string keys;
  for (const Answer& each : answers()) {
    if (!keys.empty()) keys += ',';
    keys += each.key;
  }
  return keys;
}

pmix_status_t answer_one(const Core& core, const Question& question, InfoList& results) {
  const std::vector<Answer>& all = answers();
  const auto known = std::find_if(all.begin(), all.end(), [&](const Answer& each) { return question.key == each.key; });
  if (known == all.end()) return PMIX_ERR_NOT_SUPPORTED;
  if (question.job && *question.job != core.job.job_id) return PMIX_ERR_NOT_FOUND;
  return known->answer(core, question, results);
}

/// Returns PMIX_SUCCESS when all questions were answered, PMIX_ERR_PARTIAL_SUCCESS when some were, else the first
/// failure.
pmix_status_t answer_all(const Core& core, const std::vector<Question>& questions, InfoList& results) {
  std::optional<pmix_status_t> failure;
  for (const Question& question : questions) {
    const pmix_status_t status = answer_one(core, question, results);
    if (status != PMIX_SUCCESS && !failure) failure = status;
  }
  if (!failure) return PMIX_SUCCESS;
  return results.size() == 0 ? *failure : PMIX_ERR_PARTIAL_SUCCESS;
}

}  // namespace

pmix_status_t make_safe(std::span<pmix_query_t> queries, const std::string& job) {
  for (pmix_query_t& query : queries) {
    if (query.keys == nullptr || query.keys[0] == nullptr) return PMIX_ERR_BAD_PARAM;
    pmix_info_t* rank = nullptr;
    bool names_job = false;
    for (pmix_info_t& info : std::span{query.qualifiers, query.nqual}) {
      if (PMIX_CHECK_KEY(&info, PMIX_PROCID)) {
        if (info.value.type != PMIX_PROC || info.value.data.proc == nullptr) return PMIX_ERR_BAD_PARAM;
        names_job = true;
      } else if (PMIX_CHECK_KEY(&info, PMIX_NSPACE)) {
        if (info.value.type != PMIX_STRING || info.value.data.string == nullptr) return PMIX_ERR_BAD_PARAM;
        names_job = true;
      } else if (PMIX_CHECK_KEY(&info, PMIX_RANK)) {
        if (info.value.type != PMIX_PROC_RANK) return PMIX_ERR_BAD_PARAM;
        rank = &info;
      }
    }
    if (rank == nullptr || names_job) continue;
    pmix_proc_t named;
    PMIX_LOAD_PROCID(&named, job.c_str(), rank->value.data.rank);
    PMIX_INFO_LOAD(rank, PMIX_PROCID, &named, PMIX_PROC);
  }
  return PMIX_SUCCESS;
}

pmix_status_t query(pmix_proc_t* /*asker*/, pmix_query_t* queries, size_t nqueries, pmix_info_cbfunc_t answer,
                    void* cookie) {
  std::vector<Question> questions;
  for (const pmix_query_t& each : std::span{queries, nqueries}) {
    for (char** key = each.keys; key != nullptr && *key != nullptr; ++key) {
      questions.push_back(question_of(*key, each));
    }
  }
  core().loop.post([=] {
    auto results = std::make_unique<InfoList>();
    const pmix_status_t status = answer_all(core(), questions, *results);
    reply(answer, cookie, status, std::move(results));
  });
  return PMIX_SUCCESS;
}

}  // namespace runtime::pmix
