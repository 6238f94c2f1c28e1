// SPDX-License-Identifier: Apache-2.0
#include "runtime/daemon/uplink.hpp"

#include <pmix_common.h>

#include <algorithm>
#include <utility>

namespace runtime::daemon {
namespace {

constexpr std::size_t kLargestData = overlay::kLargestContent - 64;  // leaves room for the other packed fields

/// The result of a modex request.  Data above kLargestData is left out; the status is then kTooLong.
ModexResult result_of(const Modex& request, int status, const std::string& data) {
  const bool fits = data.size() <= kLargestData;
  return {request.host, request.request_id, fits ? status : kTooLong, fits ? data : std::string{}, {}};
}

/// Unpacks the message and calls `use` with it.  A message that does not unpack is logged and dropped; daemons of one
/// job have the same version, so it is not expected.
template <class M, class Use>
void with(ByteSpan content, Use use) {
  const auto message = unpack<M>(content);
  if (message) return use(*message);
  opal::log::error("runtime", "a message of another daemon is dropped: {}", opal::to_string(message.error()));
}

}  // namespace

/// How to answer `request`, which came along the tree, or over the direct connection `from`.
Uplink::Data Uplink::answer_to(const Modex& request, opal::am::Endpoint* from) {
  if (from == nullptr) {
    return [this, request](int status, const std::string& data) { send(result_of(request, status, data)); };
  }
  std::shared_ptr<char>& open = requesters_[from];
  if (!open) open = std::make_shared<char>();
  // The requester repeats its request through the launcher when the connection ends.
  return [this, from, requester = std::weak_ptr{open}, request](int status, const std::string& data) {
    if (requester.expired()) return;  // connection ended; a later endpoint may have the same address
    (void)oob_.send(*from, topic(kKind<ModexResult>), pack(result_of(request, status, data)));
  };
}

bool Uplink::handle(Kind kind, ByteSpan content, pmix::Server* server, opal::am::Endpoint* from) {
  switch (kind) {
    case kKind<Modex>:
      with<Modex>(content, [&](const Modex& m) {
        const Data answer = answer_to(m, from);
        if (server == nullptr) return answer(PMIX_ERR_NOT_FOUND, {});
        server->modex(m.rank, answer);
      });
      return true;
    case kKind<ModexResult>: with<ModexResult>(content, [&](const ModexResult& m) { on_result(m); }); return true;
    case kKind<pmix::PackedEvent>:
      with<pmix::PackedEvent>(content, [&](const pmix::PackedEvent& m) {
        if (server != nullptr) server->notify(m);
      });
      return true;
    case kKind<NamesResult>:
      with<NamesResult>(content, [&](const NamesResult& m) {
        if (const auto entry = name_requests_.extract(m.request_id); !entry.empty()) entry.mapped()(m.status, m.items);
      });
      return true;
    default: return false;
  }
}

void Uplink::on_result(const ModexResult& result) {
  if (result.host != own_host_) return;  // not a request of this daemon
  const auto entry = modex_requests_.extract(result.request_id);
  if (entry.empty()) return;
  const Request& request = entry.mapped();
  // Set by the launcher: the address of the owner's daemon.
  if (!result.owner.empty()) links_[tree_.process_map().host_of(request.rank)].address = result.owner;
  request.answer(result.status, result.data);
}

void Uplink::on_closed(const opal::am::Endpoint& endpoint) {
  requesters_.erase(&endpoint);
  const auto link = std::ranges::find_if(links_, [&](const auto& each) { return each.second.endpoint == &endpoint; });
  if (link == links_.end()) return;
  link->second.endpoint = nullptr;
  for (auto& [number, request] : modex_requests_) {
    if (!is_sent_to(request, link->first)) continue;
    request.direct = false;
    send(Modex{request.rank, own_host_, number});
  }
}

void Uplink::on_lost(std::uint32_t host) {
  std::vector<std::uint64_t> unanswered;
  for (const auto& [number, request] : modex_requests_) {
    if (is_sent_to(request, host)) unanswered.push_back(number);
  }
  for (const std::uint64_t number : unanswered) on_result({own_host_, number, PMIX_ERR_LOST_CONNECTION, {}, {}});
}

void Uplink::modex(unsigned rank, Data answer) {
  const Modex message{rank, own_host_, ++last_request_id_};
  Request& request = modex_requests_.emplace(last_request_id_, Request{rank, std::move(answer), false}).first->second;
  request.direct = ask_directly(tree_.process_map().host_of(rank), message);
  if (!request.direct) send(message);
}

/// False: the address of the host's daemon is unknown, it is out of reach, or the send queue is full.
bool Uplink::ask_directly(std::uint32_t host, const Modex& request) {
  const auto entry = links_.find(host);
  if (entry == links_.end()) return false;
  Link& link = entry->second;
  if (link.endpoint == nullptr) {
    const auto endpoint = oob_.connect(oob::as_bytes(link.address));
    if (!endpoint || (*endpoint)->dead()) return false;
    link.endpoint = *endpoint;
    opal::log::debug("runtime", "modex requests go directly to host {}", host);
  }
  return oob_.send(*link.endpoint, topic(kKind<Modex>), pack(request)).has_value();
}

void Uplink::names(const pmix::NameRequest& request, Items answer) {
  if (!send(Names{++last_request_id_, request})) return answer(kTooLong, {});  // send() fails for no other reason
  name_requests_.emplace(last_request_id_, std::move(answer));
}

}  // namespace runtime::daemon
