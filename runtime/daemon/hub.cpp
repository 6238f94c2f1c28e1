// SPDX-License-Identifier: Apache-2.0
#include "runtime/daemon/hub.hpp"

#include <fmt/format.h>
#include <pmix_common.h>

#include <algorithm>

#include "opal/core/clock.hpp"

namespace runtime::daemon {
namespace {

constexpr int kCannotServe = 1;
constexpr int kNotFound = PMIX_ERR_NOT_FOUND;
constexpr int kOwnerLost = PMIX_ERR_LOST_CONNECTION;
constexpr std::chrono::milliseconds kFinishRound{5};
constexpr std::chrono::milliseconds kEndsGathered{100};  // most ranks of a job end within a moment

}  // namespace

Hub::Hub(event::Loop& loop, oob::Daemon& oob, pmix::Server& server, std::string job_id,
         const std::vector<pmix::HostRanks>& hosts, unsigned radix, const Timeouts& timeouts)
    : loop_(loop),
      oob_(oob),
      server_(server),
      job_id_(std::move(job_id)),
      tree_(loop, oob, tree_options(kOwnHost, static_cast<overlay::Id>(hosts.size()), radix, timeouts), *this, {}) {
  tree_.set_hosts(hosts);
}

void Hub::add(std::size_t host, RemoteHost& remote) { remotes_[static_cast<std::uint32_t>(host)] = &remote; }

void Hub::lose(std::size_t host) { tree_.declare_lost(static_cast<overlay::Id>(host), overlay::Loss::declared); }

void Hub::on_message(opal::am::Endpoint& from, oob::Topic topic, std::string content) {
  switch (static_cast<Kind>(topic)) {
    case kKind<Frame>: return tree_.on_frame(from, std::move(content));
    case kKind<Join>: return join(from, oob::as_bytes(content));
    default: return;
  }
}

// --- Daemons come

void Hub::join(opal::am::Endpoint& from, ByteSpan content) {
  const auto message = unpack<Join>(content);
  if (!message) return turn_away(from, "its first message is garbled");
  const auto remote = remotes_.find(message->host);
  if (message->job_id != job_id_ || remote == remotes_.end()) return turn_away(from, "it belongs to another job");
  if (remote->second->is_lost()) return turn_away(from, "it has come too late");
  if (!joined_.try_emplace(message->host, Joined{&from, message->address}).second) return;
  remote->second->joined(message->pid);
  place_all();
}

void Hub::turn_away(opal::am::Endpoint& from, const std::string& why) {
  (void)oob_.send(from, topic(kKind<TurnedAway>), pack(TurnedAway{why}));
}

/// Sends places to the hosts that can take them: all hosts above them have joined.
void Hub::place_all() {
  for (auto& [host, joined] : joined_) joined.placed = joined.placed || place(host, joined);
}

bool Hub::place(std::uint32_t host, const Joined& joined) {
  const overlay::Tree& tree = tree_.node().tree();
  Place place{tree.count(), tree.radix(), {}};
  for (overlay::Id above = tree.parent(host); above != kOwnHost; above = tree.parent(above)) {
    if (tree_.node().lost().contains(above)) continue;
    const auto other = joined_.find(above);
    if (other == joined_.end()) return false;
    place.above.emplace_back(above, other->second.address);
  }
  return joined.endpoint == nullptr || oob_.send(*joined.endpoint, topic(kKind<Place>), pack(place));
}

/// A daemon that is no child of the root closes its first connection when it has its place: that is no loss.
void Hub::on_lost(opal::am::Endpoint& peer, const Error& why) {
  tree_.on_closed(peer);
  const auto entry = std::ranges::find_if(joined_, [&](const auto& each) { return each.second.endpoint == &peer; });
  if (entry == joined_.end()) return;
  entry->second.endpoint = nullptr;
  if (entry->second.placed) return;
  loop_.post([remote = remotes_.at(entry->first), why] {  // not from inside of the channel
    remote->lost(kCannotServe, fmt::format("the daemon of host {} is lost: {}", remote->name(), opal::to_string(why)));
  });
}

// --- The tree

void Hub::on_lost(overlay::Id member, overlay::Loss why) {
  if (const auto remote = remotes_.find(member); remote != remotes_.end()) remote->second->lost(why);
  server_.announce_lost_host(member);
  std::vector<ModexResult> unanswered;
  for (const auto& [question, owner] : forwarded_) {
    if (owner == member) unanswered.push_back({question.first, question.second, kOwnerLost, {}, {}});
  }
  for (const ModexResult& result : unanswered) reply(result);
  place_all();
}

void Hub::on_message(overlay::Id host, Kind kind, ByteSpan content) {
  const auto entry = remotes_.find(host);
  if (entry == remotes_.end() || entry->second->is_lost()) return;
  RemoteHost& remote = *entry->second;
  if (remote.handle(kind, content)) return;
  switch (kind) {
    case kKind<Modex>: return remote.with<Modex>(content, [&](const Modex& m) { ask({m.rank, host, m.request_id}); });
    case kKind<ModexResult>:
      return remote.with<ModexResult>(content, [&](const ModexResult& m) {
        ModexResult result = m;
        if (const auto joined = joined_.find(host); joined != joined_.end()) result.owner = joined->second.address;
        reply(result);
      });
    case kKind<pmix::PackedEvent>:
      return remote.with<pmix::PackedEvent>(content, [&](const pmix::PackedEvent& m) {
        server_.notify(m);
        (void)pass_on(m, host);  // never too long: the tree has just delivered it
      });
    case kKind<Names>:
      return remote.with<Names>(content, [&](const Names& m) {
        server_.names().serve(m.request,
                              [&remote, id = m.request_id](int status, const std::vector<pmix::PackedItem>& items) {
                                remote.answer(NamesResult{id, status, items}, NamesResult{id, kTooLong, {}});
                              });
      });
    default: return;  // of a newer daemon, or nonsense
  }
}

void Hub::end(unsigned rank) {
  ended_.add(rank);
  if (!ended_timer_) ended_timer_ = loop_.after(kEndsGathered, [this] { tell_ended(); });
}

/// Sends Ended to all daemons, not only to those of the ranks: each member computes absent() for its subtree.
void Hub::tell_ended() {
  ended_timer_ = {};
  const overlay::IdSet ranks = std::exchange(ended_, {});
  const overlay::IdSet all{overlay::Range{1, tree_.node().tree().count()}};
  (void)tree_.send(all, kKind<Ended>, pack(Ended{ranks}));  // two numbers a rank: never too long
  tree_.on_ranks_ended(ranks);
}

/// Sends an event to all hosts except `origin` and the launcher's own.
Result<void> Hub::pass_on(const pmix::PackedEvent& event, std::uint32_t origin) {
  const std::string message = pack(event);
  for (const auto& [host, remote] : remotes_) {
    if (host != origin && !remote->is_lost()) OPAL_TRY(send(host, kKind<pmix::PackedEvent>, message));
  }
  return {};
}

/// Forwards a modex request to the host of its rank.
void Hub::ask(const Modex& question) {
  if (question.rank >= tree_.process_map().ranks())
    return reply({question.host, question.request_id, kNotFound, {}, {}});
  const std::uint32_t index = tree_.process_map().host_of(question.rank);
  if (index != kOwnHost) {
    if (tree_.node().lost().contains(index)) return reply({question.host, question.request_id, kOwnerLost, {}, {}});
    forwarded_[{question.host, question.request_id}] = index;
    return remotes_.at(index)->send(question);
  }
  server_.modex(question.rank, [this, question](int status, const std::string& data) {
    reply({question.host, question.request_id, status, data, {}});
  });
}

void Hub::reply(const ModexResult& result) {
  forwarded_.erase({result.host, result.request_id});
  if (result.host == kOwnHost) {
    const auto waiting = own_questions_.extract(result.request_id);
    if (!waiting.empty()) waiting.mapped()(result.status, result.data);
  } else if (const auto remote = remotes_.find(result.host); remote != remotes_.end()) {
    remote->second->answer(result, {result.host, result.request_id, kTooLong, {}, {}});
  }
}

void Hub::modex(unsigned rank, Data answer) {
  own_questions_.emplace(++questions_, std::move(answer));
  ask({rank, kOwnHost, questions_});
}

void Hub::finish(std::chrono::milliseconds timeout) {
  ended_timer_ = {};
  for (const auto& [index, remote] : remotes_) remote->quit();
  tree_.acknowledge();
  const auto all_gone = [this] {
    return std::ranges::all_of(remotes_, [](const auto& entry) { return entry.second->agent_is_gone(); });
  };
  const opal::Deadline deadline = opal::Deadline::after(timeout);
  const std::function<void()> check = [&] {
    if (all_gone() || deadline.expired()) return loop_.stop();
    finish_round_ = loop_.after(kFinishRound, check);
  };
  loop_.post(check);  // the loop does not remember a stop() from before it ran
  loop_.run();
  finish_round_ = {};
  for (const auto& [index, remote] : remotes_) remote->kill_agent();
}

}  // namespace runtime::daemon
