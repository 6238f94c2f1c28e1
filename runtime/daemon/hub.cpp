// SPDX-License-Identifier: Apache-2.0
#include "runtime/daemon/hub.hpp"

#include <fmt/format.h>
#include <pmix_common.h>

#include <algorithm>

#include "opal/core/log.hpp"

namespace runtime::daemon {
namespace {

constexpr std::uint32_t kOwnHost = 0;
constexpr int kNotFound = PMIX_ERR_NOT_FOUND;
constexpr std::chrono::milliseconds kFinishRound{5};

}  // namespace

Hub::Hub(event::Loop& loop, oob::Daemon& oob, pmix::Server& server, std::string job_id,
         std::vector<pmix::HostRanks> hosts, HubHost host)
    : loop_(loop),
      oob_(oob),
      server_(server),
      job_id_(std::move(job_id)),
      hosts_(std::move(hosts)),
      host_(std::move(host)) {}

void Hub::add(std::size_t host, RemoteHost& remote) { remotes_[static_cast<std::uint32_t>(host)] = &remote; }

RemoteHost* Hub::find(const opal::am::Endpoint& peer, std::uint32_t& host) {
  for (const auto& [index, remote] : remotes_) {
    if (remote->endpoint() != &peer) continue;
    host = index;
    return remote;
  }
  return nullptr;
}

void Hub::on_message(opal::am::Endpoint& from, oob::Topic topic, ByteSpan content) {
  const auto kind = static_cast<Kind>(topic);
  if (kind == Kind::join) return join(from, content);
  std::uint32_t host = 0;
  RemoteHost* const remote = find(from, host);
  if (remote != nullptr) handle(host, *remote, kind, content);
}

void Hub::join(opal::am::Endpoint& from, ByteSpan content) {
  const auto message = unpack<Join>(content);
  const char* wrong = nullptr;
  if (!message) {
    wrong = "its first message is garbled: it has another version";
  } else if (message->version != kVersion) {
    wrong = "it has another version than this launcher";
  } else if (message->job_id != job_id_ || !remotes_.contains(static_cast<std::uint32_t>(message->host))) {
    wrong = "it belongs to another job";
  }
  if (wrong == nullptr) return remotes_[static_cast<std::uint32_t>(message->host)]->joined(from, message->pid);
  opal::log::once(opal::log::Level::warn, wrong, "runtime", "a daemon is refused: {}", wrong);
  (void)oob_.send(from, topic(Kind::quit), {});
}

void Hub::on_lost(opal::am::Endpoint& peer, const Error& why) {
  std::uint32_t host = 0;
  if (RemoteHost* const remote = find(peer, host); remote != nullptr) remote->disconnected(why);
}

void Hub::handle(std::uint32_t host, RemoteHost& remote, Kind kind, ByteSpan content) {
  if (remote.handle(kind, content)) return;
  switch (kind) {
    case Kind::abort:
      return remote.with<Abort>(content,
                                [&](const Abort& m) { host_.on_abort(m.rank, static_cast<int>(m.status), m.text); });
    case Kind::say: return remote.with<Say>(content, [&](const Say& m) { host_.say(m.line); });
    case Kind::fence: return remote.with<Fence>(content, [&](const Fence& m) { arrive(host, m); });
    case Kind::modex: return remote.with<Modex>(content, [&](const Modex& m) { ask({m.rank, host, m.question}); });
    case Kind::modex_result: return remote.with<ModexResult>(content, [&](const ModexResult& m) { reply(m); });
    case Kind::publish:
      return remote.with<Publish>(content, [&](const Publish& m) {
        server_.publish(m.items, [&](int status) { remote.send(Published{m.question, status}); });
      });
    case Kind::lookup:
      return remote.with<Lookup>(content, [&](const Lookup& m) {
        server_.lookup(m.names, m.wait != 0, std::chrono::seconds{m.timeout_s},
                       [&remote, question = m.question](int status, const std::vector<pmix::PackedItem>& items) {
                         remote.send(LookedUp{question, status, items});
                       });
      });
    case Kind::unpublish:
      return remote.with<Unpublish>(content, [&](const Unpublish& m) {
        server_.unpublish(m.owner, m.names);
        remote.send(Published{m.question, 0});
      });
    default: return;  // of a newer daemon, or nonsense
  }
}

/// `fence` has come to its end on `host`; when it has on all, they all go on.
void Hub::arrive(std::uint32_t host, const Fence& fence) {
  std::deque<Round>& rounds = fences_[fence.members];
  auto round =
      std::find_if(rounds.begin(), rounds.end(), [&](const Round& open) { return !open.arrived.contains(host); });
  if (round == rounds.end()) round = rounds.insert(rounds.end(), Round{fence.hosts, {}, 0, {}});
  round->arrived.insert(host);
  if (fence.status != 0) round->status = static_cast<int>(fence.status);
  round->data += fence.data;
  if (round->arrived.size() < round->hosts.size()) return;
  const Round done = std::move(*round);
  rounds.erase(round);
  if (rounds.empty()) fences_.erase(fence.members);
  for (const std::uint32_t to : done.hosts) {
    if (to == kOwnHost) {
      std::deque<Data>& waiting = own_fences_[fence.members];
      if (waiting.empty()) continue;
      const Data answer = std::move(waiting.front());
      waiting.pop_front();
      answer(done.status, done.data);
    } else if (const auto remote = remotes_.find(to); remote != remotes_.end()) {
      remote->second->send(FenceResult{fence.members, done.status, done.data});
    }
  }
}

void Hub::fence(const std::string& members, const std::vector<std::uint32_t>& hosts, int status,
                const std::string& data, Data answer) {
  own_fences_[members].push_back(std::move(answer));
  arrive(kOwnHost, {members, hosts, status, data});
}

/// Brings a question to the host of its rank.
void Hub::ask(const Modex& question) {
  const auto owner = std::find_if(hosts_.begin(), hosts_.end(), [&](const pmix::HostRanks& host) {
    return std::binary_search(host.ranks.begin(), host.ranks.end(), question.rank);
  });
  const auto index = static_cast<std::uint32_t>(owner - hosts_.begin());
  if (owner == hosts_.end()) return reply({question.host, question.question, kNotFound, {}});
  if (index != kOwnHost) return remotes_.at(index)->send(question);
  server_.modex(question.rank, [this, question](int status, const std::string& data) {
    reply({question.host, question.question, status, data});
  });
}

void Hub::reply(const ModexResult& result) {
  if (result.host == kOwnHost) {
    const auto waiting = own_questions_.extract(result.question);
    if (!waiting.empty()) waiting.mapped()(static_cast<int>(result.status), result.data);
  } else if (const auto remote = remotes_.find(result.host); remote != remotes_.end()) {
    remote->second->send(result);
  }
}

void Hub::modex(unsigned rank, Data answer) {
  own_questions_.emplace(++questions_, std::move(answer));
  ask({rank, kOwnHost, questions_});
}

void Hub::publish(const std::vector<pmix::PackedItem>& items, Done answer) { server_.publish(items, answer); }

void Hub::lookup(const std::vector<std::string>& names, bool wait, std::chrono::seconds timeout, Items answer) {
  server_.lookup(names, wait, timeout, std::move(answer));
}

void Hub::unpublish(unsigned owner, const std::vector<std::string>& names, Done answer) {
  server_.unpublish(owner, names);
  answer(PMIX_SUCCESS);
}

void Hub::finish(std::chrono::milliseconds patience) {
  for (const auto& [index, remote] : remotes_) remote->quit();
  finish_timer_ = loop_.after(patience, [this] { loop_.stop(); });
  const std::function<void()> look = [&] {
    const bool all_gone =
        std::all_of(remotes_.begin(), remotes_.end(), [](const auto& entry) { return entry.second->gone(); });
    if (all_gone) return loop_.stop();
    finish_round_ = loop_.after(kFinishRound, look);
  };
  look();
  loop_.run();
  finish_timer_ = finish_round_ = {};
  for (const auto& [index, remote] : remotes_) remote->kill_agent();
}

}  // namespace runtime::daemon
