// SPDX-License-Identifier: Apache-2.0
#include "runtime/daemon/uplink.hpp"

#include <pmix_common.h>

namespace runtime::daemon {
namespace {

constexpr std::size_t kLargestAnswer = overlay::kLargestContent - 64;  // with the other fields
constexpr int kTooLong = PMIX_ERR_OUT_OF_RESOURCE;

/// The message, or nothing; the launcher is of the same version, so this does not happen.
template <class M, class Use>
void with(ByteSpan content, Use use) {
  const auto message = unpack<M>(content);
  if (message) return use(*message);
  opal::log::error("runtime", "a message of the launcher is dropped: {}", opal::to_string(message.error()));
}

/// Takes the answerer of a question out; calls it when there is one.
template <class Map, class... Arguments>
void answer(Map& waiting, std::uint64_t question, const Arguments&... arguments) {
  const auto entry = waiting.extract(question);
  if (!entry.empty()) entry.mapped()(arguments...);
}

}  // namespace

bool Uplink::handle(Kind kind, ByteSpan content, pmix::Server& server) {
  switch (kind) {
    case Kind::modex:
      with<Modex>(content, [&](const Modex& m) {
        server.modex(m.rank, [this, m](int status, const std::string& data) {
          const bool fits = data.size() <= kLargestAnswer;
          send(ModexResult{m.host, m.question, fits ? status : kTooLong, fits ? data : std::string{}});
        });
      });
      return true;
    case Kind::modex_result:
      with<ModexResult>(
          content, [&](const ModexResult& m) { answer(modexes_, m.question, static_cast<int>(m.status), m.data); });
      return true;
    case Kind::published:
      with<Published>(content,
                      [&](const Published& m) { answer(publications_, m.question, static_cast<int>(m.status)); });
      return true;
    case Kind::looked_up:
      with<LookedUp>(content,
                     [&](const LookedUp& m) { answer(lookups_, m.question, static_cast<int>(m.status), m.items); });
      return true;
    default: return false;
  }
}

void Uplink::fence(const std::string& members, const std::vector<std::uint32_t>& hosts, int status,
                   const std::string& data, Data answer) {
  meetings_.meet(members, hosts, status, data, std::move(answer));
}

void Uplink::modex(unsigned rank, Data answer) {
  modexes_.emplace(++questions_, std::move(answer));
  send(Modex{rank, own_host_, questions_});
}

void Uplink::publish(const std::vector<pmix::PackedItem>& items, Done answer) {
  publications_.emplace(++questions_, std::move(answer));
  if (!send(Publish{questions_, items})) daemon::answer(publications_, questions_, kTooLong);
}

void Uplink::lookup(const std::vector<std::string>& names, bool wait, std::chrono::seconds timeout, Items answer) {
  lookups_.emplace(++questions_, std::move(answer));
  const Lookup question{questions_, names, static_cast<std::uint8_t>(wait),
                        static_cast<std::uint64_t>(timeout.count())};
  if (!send(question)) daemon::answer(lookups_, questions_, kTooLong, std::vector<pmix::PackedItem>{});
}

void Uplink::unpublish(unsigned owner, const std::vector<std::string>& names, Done answer) {
  publications_.emplace(++questions_, std::move(answer));
  if (!send(Unpublish{questions_, owner, names})) daemon::answer(publications_, questions_, kTooLong);
}

}  // namespace runtime::daemon
