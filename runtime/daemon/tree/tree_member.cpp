// SPDX-License-Identifier: Apache-2.0
#include "runtime/daemon/tree/tree_member.hpp"

#include <algorithm>

#include "opal/core/clock.hpp"

namespace runtime::daemon {
namespace {

using overlay::Channel;
using overlay::Id;
using overlay::IdSet;
using overlay::Nanoseconds;

constexpr Nanoseconds kMillisecond = 1'000'000;
constexpr Nanoseconds kLongestBeat = 2'000 * kMillisecond;
constexpr Nanoseconds kLongestGrace = 3'000 * kMillisecond;  // a busy machine keeps a daemon waiting for a second
constexpr unsigned kBeatsPerTimeout = 4;

}  // namespace

overlay::Options tree_options(Id self, Id count, unsigned radix, const Timeouts& timeouts) {
  const Nanoseconds silence = static_cast<Nanoseconds>(timeouts.silence.count()) * kMillisecond;
  return {.self = self,
          .count = count,
          .radix = radix,
          .beat = std::min(silence / kBeatsPerTimeout, kLongestBeat),
          .silence_timeout = silence,
          .grace = std::min(silence / kBeatsPerTimeout, kLongestGrace),
          .start = static_cast<Nanoseconds>(timeouts.place().count()) * kMillisecond};
}

TreeMember::TreeMember(event::Loop& loop, oob::Daemon& oob, const overlay::Options& options, TreeUser& user,
                       std::map<Id, std::string> addresses)
    : loop_(loop), oob_(oob), user_(user), addresses_(std::move(addresses)) {
  overlay::Port& port = *this;
  overlay::Client& client = *this;
  node_.emplace(options, port, client, opal::now_ns());
  schedule();
}

void TreeMember::on_frame(opal::am::Endpoint& from, std::string frame) { queue({channel_of(from), std::move(frame)}); }

void TreeMember::on_closed(opal::am::Endpoint& peer) {
  const auto entry = channels_.find(&peer);
  if (entry == channels_.end()) return;
  const Channel channel = entry->second;
  channels_.erase(entry);
  endpoints_.erase(channel);
  queue({channel, {}, true});
}

Result<void> TreeMember::send(const IdSet& to, Kind kind, std::string content) {
  if (content.size() > overlay::kLargestContent) {
    return Error{Errc::limit_reached, 0, "daemon: message", content.size()};
  }
  if (!to.empty() && !waiting_.empty()) {
    Message& last = waiting_.back();
    if (last.kind == kind && !last.to.intersects(to) && last.content == content) {
      last.to.add(to);
      return {};
    }
  }
  waiting_.push_back({to, kind, std::move(content)});
  schedule();
  return {};
}

void TreeMember::declare_lost(Id member, overlay::Loss why) {
  node_->declare_lost(member, why, opal::now_ns());
  schedule();
}

void TreeMember::on_ranks_ended(const IdSet& ranks) {
  process_map_.end(ranks);
  node_->recheck();
  schedule();
}

void TreeMember::fence(const std::string& name, const std::vector<std::uint32_t>& hosts, int status,
                       const std::string& data, pmix::Cluster::Data answer) {
  IdSet participants;
  for (const std::uint32_t host : hosts) participants.add(host);
  fences_[name].push_back(std::move(answer));
  node_->arrive(name, participants, status, data);
  schedule();
}

void TreeMember::on_release(const overlay::Release& release) {
  const auto entry = fences_.find(release.name.key);
  if (entry == fences_.end()) return;
  const pmix::Cluster::Data answer = std::move(entry->second.front());
  entry->second.pop_front();
  if (entry->second.empty()) fences_.erase(entry);
  int status = static_cast<int>(release.status);
  if (status == PMIX_SUCCESS && !release.lost.empty()) status = PMIX_ERR_PROC_TERM_WO_SYNC;
  // More data than the tree carries is left out; a process that wants some of it asks its owner.
  std::string data;
  for (const auto& [host, part] : release.parts) data += part;
  answer(status, data);
}

void TreeMember::acknowledge() {
  node_->acknowledge(opal::now_ns());
  schedule();
}

void TreeMember::on_root_stopped(bool stopped) {
  node_->on_root_stopped(stopped, opal::now_ns());
  schedule();
}

bool TreeMember::has_unsent() const {
  return std::ranges::any_of(endpoints_, [this](const auto& entry) { return oob_.has_unsent(*entry.second); });
}

// --- Port

Channel TreeMember::channel_of(opal::am::Endpoint& endpoint) {
  const auto [entry, is_new] = channels_.try_emplace(&endpoint, last_channel_ + 1);
  if (is_new) endpoints_.emplace(++last_channel_, &endpoint);
  return entry->second;
}

Channel TreeMember::connect(Id member) {
  const auto address = addresses_.find(member);
  if (address == addresses_.end()) return overlay::kNone;
  const auto endpoint = oob_.connect(oob::as_bytes(address->second));
  if (!endpoint || (*endpoint)->dead()) return overlay::kNone;
  return channel_of(**endpoint);
}

void TreeMember::send(Channel channel, std::string frame) {
  const auto entry = endpoints_.find(channel);
  if (entry == endpoints_.end()) return;
  // A peer that takes nothing any more although its window is small is as good as gone.
  if (!oob_.send(*entry->second, topic(kKind<Frame>), std::move(frame))) queue({channel, {}, true});
}

void TreeMember::close(Channel channel) {
  std::erase_if(arrivals_, [&](const Arrival& each) { return each.from == channel; });
  const auto entry = endpoints_.find(channel);
  if (entry == endpoints_.end()) return;
  opal::am::Endpoint& endpoint = *entry->second;
  channels_.erase(&endpoint);
  endpoints_.erase(entry);
  on_disconnect(endpoint);
  oob_.disconnect(endpoint);
}

// --- The loop

void TreeMember::queue(Arrival arrival) {
  arrivals_.push_back(std::move(arrival));
  schedule();
}

void TreeMember::schedule() {
  if (scheduled_) return;
  scheduled_ = true;
  loop_.post([this] { service(); });
}

void TreeMember::handle_arrivals() {
  while (!arrivals_.empty()) {
    const Arrival arrival = std::move(arrivals_.front());
    arrivals_.pop_front();
    if (!arrival.closed) {
      node_->on_frame(arrival.from, oob::as_bytes(arrival.frame), opal::now_ns());
      continue;
    }
    if (const auto entry = endpoints_.find(arrival.from); entry != endpoints_.end()) close(entry->first);
    node_->on_closed(arrival.from, opal::now_ns());
  }
}

void TreeMember::service() {
  scheduled_ = false;
  handle_arrivals();
  if (const Nanoseconds now = opal::now_ns(); node_->deadline() <= now) node_->on_time(now);
  for (const Message& message : std::exchange(waiting_, {})) {
    message.to.empty() ? node_->send_up(message.kind, message.content)
                       : node_->send_down(message.to, message.kind, message.content);
  }
  set_timer();
  after_service();
}

void TreeMember::set_timer() {
  const Nanoseconds due = node_->deadline();
  if (due >= timer_due_) return;
  timer_due_ = due;
  const Nanoseconds now = opal::now_ns();
  const Nanoseconds delay = due <= now ? 0 : (due - now + kMillisecond - 1) / kMillisecond;
  timer_ = loop_.after(std::chrono::milliseconds{delay}, [this] {
    timer_due_ = UINT64_MAX;
    oob_.catch_up();  // a member that counts as silent may have sent something that is not read yet
    service();
  });
}

}  // namespace runtime::daemon
