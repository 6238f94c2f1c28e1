// SPDX-License-Identifier: Apache-2.0
#include "runtime/daemon/uplink.hpp"

#include <pmix_common.h>

namespace runtime::daemon {
namespace {

constexpr std::size_t kLargestAnswer = overlay::kLargestContent - 64;  // with the other fields

/// The answer to a question; in place of data that are too long, that they are.
ModexResult result_of(const Modex& question, int status, const std::string& data) {
  const bool fits = data.size() <= kLargestAnswer;
  return {question.host, question.question, fits ? status : kTooLong, fits ? data : std::string{}, {}};
}

/// Uses the message, or nothing; the sender is of the same version, so this does not happen.
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
      links_(loop, oob,
             [this, &tree](opal::am::Endpoint& endpoint) { return tree.has(endpoint) || guests_.contains(&endpoint); }),
      own_host_(own_host) {}

bool Uplink::handle(Kind kind, ByteSpan content, pmix::Server& server) {
  switch (kind) {
    case kKind<Modex>:
      with<Modex>(content, [&](const Modex& m) {
        server.modex(m.rank, [this, m](int status, const std::string& data) { send(result_of(m, status, data)); });
      });
      return true;
    case kKind<ModexResult>: with<ModexResult>(content, [&](const ModexResult& m) { take(m); }); return true;
    case kKind<pmix::PackedEvent>:
      with<pmix::PackedEvent>(content, [&](const pmix::PackedEvent& m) { server.notify(m); });
      return true;
    case kKind<Named>:
      with<Named>(content, [&](const Named& m) {
        if (const auto entry = name_requests_.extract(m.question); !entry.empty()) entry.mapped()(m.status, m.items);
      });
      return true;
    default: return false;
  }
}

void Uplink::take(const ModexResult& result) {
  if (result.host != own_host_) return;  // not to us
  const auto entry = modexes_.extract(result.question);
  if (entry.empty()) return;
  const Question& question = entry.mapped();
  const std::uint32_t host = tree_.process_map().host_of(question.rank);
  if (question.straight) links_.answered(host);
  if (!result.owner.empty()) links_.learn(host, result.owner);
  question.answer(result.status, result.data);
}

void Uplink::handle(opal::am::Endpoint& from, Kind kind, ByteSpan content, pmix::Server* server) {
  if (kind == kKind<ModexResult>) return with<ModexResult>(content, [&](const ModexResult& m) { take(m); });
  if (kind != kKind<Modex>) return;
  with<Modex>(content, [&](const Modex& m) {
    std::shared_ptr<std::size_t>& open = guests_[&from];
    if (!open) open = std::make_shared<std::size_t>(0);
    ++*open;
    const auto reply = [this, to = &from, guest = std::weak_ptr{open}, m](int status, const std::string& data) {
      const auto still = guest.lock();
      if (!still) return;  // it has gone, though its place may be another's now, and asks the launcher
      if (--*still == 0) guests_.erase(to);
      (void)oob_.send(*to, topic(kKind<ModexResult>), pack(result_of(m, status, data)));
    };
    if (server == nullptr) return reply(PMIX_ERR_NOT_FOUND, {});
    server->modex(m.rank, reply);
  });
}

void Uplink::on_closed(const opal::am::Endpoint& endpoint) {
  guests_.erase(&endpoint);
  const auto host = links_.on_closed(endpoint);
  if (!host) return;
  for (auto& [number, question] : modexes_) {
    if (!question.straight || tree_.process_map().host_of(question.rank) != *host) continue;
    question.straight = false;
    send(Modex{question.rank, own_host_, number});
  }
}

void Uplink::on_lost(std::uint32_t host) {
  std::vector<std::uint64_t> unanswered;
  for (const auto& [number, question] : modexes_) {
    if (question.straight && tree_.process_map().host_of(question.rank) == host) unanswered.push_back(number);
  }
  for (const std::uint64_t number : unanswered) take({own_host_, number, PMIX_ERR_LOST_CONNECTION, {}, {}});
}

void Uplink::modex(unsigned rank, Data answer) {
  const Modex message{rank, own_host_, ++questions_};
  Question& question = modexes_.emplace(questions_, Question{rank, std::move(answer), false}).first->second;
  question.straight = links_.ask(tree_.process_map().host_of(rank), kKind<Modex>, pack(message));
  if (!question.straight) send(message);
}

void Uplink::names(const pmix::NameRequest& request, Items answer) {
  if (!send(Names{++questions_, request})) return answer(kTooLong, {});
  name_requests_.emplace(questions_, std::move(answer));
}

}  // namespace runtime::daemon
