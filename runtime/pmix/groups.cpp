// SPDX-License-Identifier: Apache-2.0
// PMIx groups: construction and destruction are fences of the members' servers.  The context id is the proposal of the
// lowest host with members; host h of n proposes 1 + h, 1 + h + n, 1 + h + 2n ..., so all proposals differ.
#include <memory>

#include "runtime/packing.hpp"
#include "runtime/pmix/info_list.hpp"
#include "runtime/pmix/upcalls.hpp"

namespace runtime::pmix {
namespace {

/// The data of each host in the fence of a construction.  Its packed size is fixed, so lowest() can split the data.
struct Proposal {
  std::uint64_t host = 0;
  std::uint64_t number = 0;  ///< number of earlier proposals of that host
};
constexpr std::size_t kProposalBytes = 2 * sizeof(std::uint64_t);

/// The proposal of the lowest host among those in `data`.
Result<Proposal> lowest(ByteSpan data) {
  Result<Proposal> best{Error{Errc::protocol, 0, "pmix: no context id"}};
  for (; data.size() >= kProposalBytes; data = data.subspan(kProposalBytes)) {
    const auto next = unpack<Proposal>(data.first(kProposalBytes));
    if (next && (!best || next->host < best->host)) best = next;
  }
  return best;
}

struct Construction {
  std::vector<pmix_proc_t> members;
  bool wants_context = false;
  pmix_info_cbfunc_t answer;
  void* cookie;
};

void finish(const Construction& group, pmix_status_t status, const std::string& data) {
  if (status != PMIX_SUCCESS) return reply(group.answer, group.cookie, status);
  auto infos = std::make_unique<InfoList>();
  const pmix_data_array_t membership{PMIX_PROC, group.members.size(), const_cast<pmix_proc_t*>(group.members.data())};
  infos->load(PMIX_GROUP_MEMBERSHIP, &membership, PMIX_DATA_ARRAY);
  if (group.wants_context) {
    const auto chosen = lowest(std::as_bytes(std::span{data}));
    if (!chosen) return reply(group.answer, group.cookie, PMIX_ERR_BAD_PARAM);
    infos->add(PMIX_GROUP_CONTEXT_ID, std::size_t{1 + chosen->number * core().job.hosts.size() + chosen->host});
  }
  reply(group.answer, group.cookie, PMIX_SUCCESS, std::move(infos));
}

}  // namespace

pmix_status_t group(pmix_group_operation_t operation, char* name, const pmix_proc_t* procs, size_t nprocs,
                    const pmix_info_t* directives, size_t ndirectives, pmix_info_cbfunc_t answer, void* cookie) {
  const bool constructs = operation == PMIX_GROUP_CONSTRUCT;
  Construction wanted{{procs, procs + nprocs}, false, answer, cookie};
  for (const pmix_info_t& info : std::span{directives, ndirectives}) {
    if (PMIX_CHECK_KEY(&info, PMIX_GROUP_ASSIGN_CONTEXT_ID)) wanted.wants_context = constructs && PMIX_INFO_TRUE(&info);
  }
  std::string what = constructs ? "group " : "end of group ";
  what += name;
  what += '\0';
  core().loop.post([=] {
    std::string data;
    if (wanted.wants_context) data = pack(Proposal{core().job.own_host, core().contexts++});
    join_fence(what, wanted.members, std::move(data), [=](int status, const std::string& all) {
      constructs ? finish(wanted, status, all) : reply(answer, cookie, status);
    });
  });
  return PMIX_SUCCESS;
}

}  // namespace runtime::pmix
