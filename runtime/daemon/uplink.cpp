// SPDX-License-Identifier: Apache-2.0
#include "runtime/daemon/uplink.hpp"

#include <pmix_common.h>

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

Uplink::Uplink(event::Loop& loop, oob::Daemon& oob, TreeMember& tree, std::uint32_t own_host)
    : oob_(oob),
      tree_(tree),
      // True: an idle link does not disconnect the endpoint, as the tree or an open request of its peer needs it.
      links_(loop, oob,
             [this, &tree](opal::am::Endpoint& endpoint) {
               return tree.uses(endpoint) || requesters_.contains(&endpoint);
             }),
      own_host_(own_host) {}

bool Uplink::handle(Kind kind, ByteSpan content, pmix::Server* server) {
  switch (kind) {
    case kKind<Modex>:
      with<Modex>(content, [&](const Modex& m) {
        const auto reply = [this, m](int status, const std::string& data) { send(result_of(m, status, data)); };
        if (server == nullptr) return reply(PMIX_ERR_NOT_FOUND, {});
        server->modex(m.rank, reply);
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
  const std::uint32_t host = tree_.process_map().host_of(request.rank);
  if (request.direct) links_.answered(host);
  if (!result.owner.empty()) links_.learn(host, result.owner);  // set by the launcher: the address of that daemon
  request.answer(result.status, result.data);
}

void Uplink::handle(opal::am::Endpoint& from, Kind kind, ByteSpan content, pmix::Server* server) {
  if (kind == kKind<ModexResult>) return with<ModexResult>(content, [&](const ModexResult& m) { on_result(m); });
  if (kind != kKind<Modex>) return;
  with<Modex>(content, [&](const Modex& m) {
    std::shared_ptr<std::size_t>& open = requesters_[&from];
    if (!open) open = std::make_shared<std::size_t>(0);
    ++*open;
    // The requester repeats its request through the launcher when the connection ends.
    const auto reply = [this, to = &from, requester = std::weak_ptr{open}, m](int status, const std::string& data) {
      const auto still = requester.lock();
      if (!still) return;  // connection ended; a later endpoint may have the same address
      if (--*still == 0) requesters_.erase(to);
      (void)oob_.send(*to, topic(kKind<ModexResult>), pack(result_of(m, status, data)));
    };
    if (server == nullptr) return reply(PMIX_ERR_NOT_FOUND, {});
    server->modex(m.rank, reply);
  });
}

void Uplink::on_closed(const opal::am::Endpoint& endpoint) {
  requesters_.erase(&endpoint);
  const auto host = links_.on_closed(endpoint);
  if (!host) return;
  for (auto& [number, request] : modex_requests_) {
    if (!request.direct || tree_.process_map().host_of(request.rank) != *host) continue;
    request.direct = false;
    send(Modex{request.rank, own_host_, number});
  }
}

void Uplink::on_lost(std::uint32_t host) {
  std::vector<std::uint64_t> unanswered;
  for (const auto& [number, request] : modex_requests_) {
    if (request.direct && tree_.process_map().host_of(request.rank) == host) unanswered.push_back(number);
  }
  for (const std::uint64_t number : unanswered) on_result({own_host_, number, PMIX_ERR_LOST_CONNECTION, {}, {}});
}

void Uplink::modex(unsigned rank, Data answer) {
  const Modex message{rank, own_host_, ++last_request_id_};
  Request& request = modex_requests_.emplace(last_request_id_, Request{rank, std::move(answer), false}).first->second;
  request.direct = links_.ask(tree_.process_map().host_of(rank), kKind<Modex>, pack(message));
  if (!request.direct) send(message);
}

void Uplink::names(const pmix::NameRequest& request, Items answer) {
  if (!send(Names{++last_request_id_, request})) return answer(kTooLong, {});  // send() fails for no other reason
  name_requests_.emplace(last_request_id_, std::move(answer));
}

}  // namespace runtime::daemon
