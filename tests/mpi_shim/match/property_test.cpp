// SPDX-License-Identifier: Apache-2.0
// The matcher against the rules of MPI written as two lists that are searched from the front.
#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <memory>
#include <random>
#include <vector>

#include "mpi_shim/match/matcher.hpp"

namespace mpi_shim::match {
namespace {

struct Recv : PostedRecv {
  int id = 0;
};
struct Message : Unexpected {
  int id = 0;
};

bool accepts(const Envelope& wanted, const Envelope& message) {
  return (wanted.source == kAnySource || wanted.source == message.source) &&
         (wanted.tag == kAnyTag || wanted.tag == message.tag);
}

struct Reference {
  std::list<std::pair<int, Envelope>> posted;
  std::list<std::pair<int, Envelope>> unexpected;

  int arrive(int id, const Envelope& message) {
    const auto found =
        std::find_if(posted.begin(), posted.end(), [&](const auto& r) { return accepts(r.second, message); });
    if (found == posted.end()) {
      unexpected.emplace_back(id, message);
      return -1;
    }
    const int receive = found->first;
    posted.erase(found);
    return receive;
  }
  int find(const Envelope& wanted, bool remove) {
    const auto found =
        std::find_if(unexpected.begin(), unexpected.end(), [&](const auto& m) { return accepts(wanted, m.second); });
    if (found == unexpected.end()) return -1;
    const int message = found->first;
    if (remove) unexpected.erase(found);
    return message;
  }
  int post(int id, const Envelope& wanted) {
    const int message = find(wanted, true);
    if (message < 0) posted.emplace_back(id, wanted);
    return message;
  }
  bool cancel(int id) {
    return std::erase_if(posted, [&](const auto& r) { return r.first == id; }) != 0;
  }
  bool remove(int id) {
    return std::erase_if(unexpected, [&](const auto& m) { return m.first == id; }) != 0;
  }
};

struct Traffic {
  const char* name;
  int sources;
  int tags;
  int wildcards_per_mille;
  int steps;
  std::size_t most_queued;
};

class RandomTraffic : public testing::TestWithParam<Traffic> {};

TEST_P(RandomTraffic, MatchesAsTheRulesSay) {
  const Traffic& traffic = GetParam();
  std::mt19937 random{static_cast<std::uint32_t>(traffic.sources * 1000 + traffic.tags)};
  const auto number = [&](int below) { return static_cast<int>(random() % static_cast<std::uint32_t>(below)); };
  Matcher matcher;
  Reference reference;
  std::vector<std::unique_ptr<Recv>> receives;  // by id; ids of ended ones are used again
  std::vector<std::unique_ptr<Message>> messages;
  std::vector<int> free_receives;
  std::vector<int> free_messages;
  int matched = 0;
  const auto wanted = [&] {
    Envelope envelope{number(traffic.sources), number(traffic.tags)};
    if (number(1000) < traffic.wildcards_per_mille) envelope.source = kAnySource;
    if (number(1000) < traffic.wildcards_per_mille) envelope.tag = kAnyTag;
    return envelope;
  };

  for (int step = 0; step < traffic.steps; ++step) {
    // Drift between many receives and many messages, so that both queues get long.
    const int lean = (step / 2000) % 2 == 0 ? 55 : 45;
    const int action = number(100);
    const bool full = reference.posted.size() + reference.unexpected.size() > traffic.most_queued;
    if (action < 4) {
      const Envelope what = wanted();
      Unexpected* found = matcher.probe(what);
      ASSERT_EQ(found == nullptr ? -1 : static_cast<Message*>(found)->id, reference.find(what, false));
    } else if (action < (full ? 20 : 6)) {
      const Envelope what = full ? Envelope{kAnySource, kAnyTag} : wanted();
      Unexpected* found = matcher.take(what);
      const int id = found == nullptr ? -1 : static_cast<Message*>(found)->id;
      ASSERT_EQ(id, reference.find(what, true));
      if (id >= 0) free_messages.push_back(id);
    } else if (action < (full ? 40 : 8) && !receives.empty()) {
      const int id =
          full && !reference.posted.empty() ? reference.posted.back().first : number(static_cast<int>(receives.size()));
      const bool cancelled = matcher.cancel(*receives[static_cast<std::size_t>(id)]);
      ASSERT_EQ(cancelled, reference.cancel(id));
      if (cancelled) free_receives.push_back(id);
    } else if (action < 9 && !messages.empty()) {
      const int id = number(static_cast<int>(messages.size()));
      const bool removed = matcher.remove(*messages[static_cast<std::size_t>(id)]);
      ASSERT_EQ(removed, reference.remove(id));
      if (removed) free_messages.push_back(id);
    } else if (number(100) < lean) {
      if (free_receives.empty()) {
        free_receives.push_back(static_cast<int>(receives.size()));
        receives.push_back(std::make_unique<Recv>());
      }
      const int id = free_receives.back();
      Recv& receive = *receives[static_cast<std::size_t>(id)];
      receive.id = id;
      receive.wanted = wanted();
      Unexpected* found = matcher.post(receive);
      const int message = found == nullptr ? -1 : static_cast<Message*>(found)->id;
      ASSERT_EQ(message, reference.post(id, receive.wanted)) << "step " << step;
      if (message < 0) {
        free_receives.pop_back();
      } else {
        free_messages.push_back(message);
        ++matched;
      }
    } else {
      const Envelope envelope{number(traffic.sources), number(traffic.tags)};
      if (free_messages.empty()) {
        free_messages.push_back(static_cast<int>(messages.size()));
        messages.push_back(std::make_unique<Message>());
      }
      const int id = free_messages.back();
      PostedRecv* found = matcher.arrive(envelope);
      const int receive = found == nullptr ? -1 : static_cast<Recv*>(found)->id;
      ASSERT_EQ(receive, reference.arrive(id, envelope)) << "step " << step;
      if (receive < 0) {
        Message& message = *messages[static_cast<std::size_t>(id)];
        message.id = id;
        message.envelope = envelope;
        matcher.add(message);
        free_messages.pop_back();
      } else {
        free_receives.push_back(receive);
        ++matched;
      }
    }
    ASSERT_EQ(matcher.posted(), reference.posted.size());
    ASSERT_EQ(matcher.unexpected(), reference.unexpected.size());
  }
  EXPECT_GT(matched, traffic.steps / 20);
}

INSTANTIATE_TEST_SUITE_P(Kinds, RandomTraffic,
                         testing::Values(Traffic{"exact_only", 4, 8, 0, 200'000, 300},
                                         Traffic{"few_wildcards", 4, 8, 50, 250'000, 300},
                                         Traffic{"many_wildcards", 5, 5, 400, 300'000, 300},
                                         Traffic{"one_pair", 1, 1, 200, 150'000, 300},
                                         Traffic{"many_keys", 300, 100, 10, 60'000, 1000}),
                         [](const auto& info) { return std::string{info.param.name}; });

}  // namespace
}  // namespace mpi_shim::match
