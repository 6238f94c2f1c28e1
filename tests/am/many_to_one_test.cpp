// SPDX-License-Identifier: Apache-2.0
// Sixteen processes, whatever the number of cores, with queues as small as they can be set: all flood rank 0
// and send to all others, in every size, with answers and emulated one-sided access in between.  Nothing may stop,
// get lost or be overtaken.  (Open MPI stopped for good in such a pattern: ompi#12979.)
#include <algorithm>
#include <atomic>
#include <cstring>
#include <random>

#include "tests/am/pair.hpp"
#include "tests/harness/child.hpp"

namespace opal::test {
namespace {

constexpr std::uint32_t kRanks = 16;
constexpr std::uint32_t kToRoot = 1500;  // messages from each rank
constexpr std::uint32_t kToOthers = 40;  // messages from each rank to each other one
constexpr Tag kEcho = kTag + 1;
constexpr std::chrono::seconds kLong{120};  // a hang, not a slow day

struct Note {
  std::uint32_t from;
  std::uint32_t number;
  std::uint32_t wants_echo;
};

std::uint32_t messages_to(std::uint32_t to) { return to == 0 ? kToRoot : kToOthers; }

class Rank {
 public:
  Rank(std::uint32_t me, Channel& parent) : me_(me), parent_(&parent), random_(me + 1) {}

  /// 0, or the number of what went wrong.
  int run() {
    config::Store store;
    store.set("am_transports", "sm");
    store.set("btl_sm_fifo_slots", "16");
    store.set("btl_sm_fbox_max", "3");
    store.set("btl_sm_segment_size", "262144");
    store.set("btl_sm_single_copy", "none");
    auto context = am::Context::open(store);
    if (!context) return 1;
    context_ = std::move(*context);
    if (!context_->set_handler(kTag, btl::bind<&Rank::on_note>(*this, "note")) ||
        !context_->set_handler(kEcho, btl::bind<&Rank::on_echo>(*this, "echo"))) {
      return 2;
    }
    std::vector<std::uint64_t> memory(kRanks * 1000);
    auto region = context_->register_memory(memory.data(), memory.size() * 8, Rights::all);
    if (!region) return 3;
    parent_->send(context_->address());
    parent_->send(region->key());
    parent_->send(bytes_of(reinterpret_cast<std::uint64_t>(memory.data())));
    if (const int wrong = meet(); wrong != 0) return wrong;
    if (const int wrong = talk(); wrong != 0) return wrong;
    parent_->send("done");
    while (!parent_->ready()) (void)context_->wait(std::chrono::milliseconds{10});  // others may still need us
    for (std::uint32_t from = 0; from < kRanks; ++from) {                           // what the others have put
      const bool put = from != me_ && me_ == 0;
      if (memory[from * 1000] != (put ? from : 0) || memory[from * 1000 + 999] != (put ? from : 0)) return 10;
    }
    return 0;
  }

 private:
  int meet() {
    peers_.resize(kRanks);
    for (std::uint32_t i = 0; i < kRanks; ++i) {
      const auto address = parent_->receive(kLong);
      const auto key = parent_->receive(kLong);
      std::uint64_t base = 0;
      if (!read_object(ByteSpan{parent_->receive(kLong)}, base)) return 4;
      if (i == me_) continue;
      auto peer = context_->connect(address);
      if (!peer) {
        std::fprintf(stderr, "rank %u to %u: %s\n", me_, i, to_string(peer.error()).c_str());
        return 5;
      }
      peers_[i] = *peer;
      if (i != 0) continue;
      auto handle = (*peer)->unpack_key(key);
      if (!handle) return 6;
      root_memory_ = *handle;
      root_base_ = base;
    }
    return 0;
  }

  int talk() {
    const std::vector<std::byte> payload(64 * 1024);
    const std::vector<std::uint64_t> words(1000, me_);
    Completion put_done{};
    bool putting = false;
    std::vector<std::uint32_t> sent(kRanks);
    std::uint32_t left = 0;
    for (std::uint32_t to = 0; to < kRanks; ++to) left += to == me_ ? 0 : messages_to(to);
    const Deadline deadline = Deadline::after(kLong);
    for (std::uint32_t steps = 0; left != 0; ++steps) {
      if (deadline.expired() || wrong_ != 0) return wrong_ != 0 ? wrong_ : 7;
      std::uint32_t to = random_() % 4 == 0 ? random_() % kRanks : 0;
      for (std::uint32_t i = 0; i < kRanks && (to == me_ || sent[to] == messages_to(to)); ++i) to = (to + 1) % kRanks;
      const Note note{me_, sent[to], random_() % 4 == 0 ? 1U : 0U};
      const std::size_t most = random_() % 3 == 0 ? attributes_limit(to) - sizeof note : 100;
      const Post post = peers_[to]->send_inline(kTag, bytes_of(note),
                                                ByteSpan{payload}.first(random_() % std::min(most, payload.size())));
      if (post == Post::failed) return 11;
      if (post == Post::done) {
        ++sent[to];
        --left;
        echoes_wanted_ += note.wants_echo;
      } else {
        (void)context_->progress();
      }
      if (!putting && me_ != 0 && steps > kToOthers) {
        const Post put = peers_[0]->put(words.data(), root_base_ + me_ * 8000, root_memory_, 8000, put_done);
        if (put == Post::failed) return 12;
        putting = put != Post::again;
      }
    }
    const bool all = context_->wait_until(
        [&] {
          for (std::uint32_t from = 0; from < kRanks; ++from) {
            if (from != me_ && received_[from] != messages_to(me_)) return wrong_ != 0;
          }
          return (echoes_ == echoes_wanted_ && (me_ == 0 || !putting || flushed())) || wrong_ != 0;
        },
        kLong);
    return wrong_ != 0 ? wrong_ : all ? 0 : 8;
  }

  /// Whether what we have put is visible at rank 0.
  bool flushed() {
    if (!flushing_) {
      flush_done_.fn = [](Completion& self) noexcept { static_cast<Flush&>(self).over = true; };
      const Post post = peers_[0]->flush(flush_done_);
      flushing_ = post != Post::again;
      if (post == Post::done) flush_done_.over = true;
    }
    return flush_done_.over;
  }

  [[nodiscard]] std::size_t attributes_limit(std::uint32_t to) const { return peers_[to]->attributes().max_send; }

  void on_note(btl::Delivery& delivery) noexcept {
    Note note{};
    if (!read_object(delivery.data, note) || note.from >= kRanks || note.number != received_[note.from]++) {
      wrong_ = 13;
      return;
    }
    if (note.wants_echo == 1 && am::sender(delivery).send_or_queue(kEcho, bytes_of(note), {}) == Post::failed)
      wrong_ = 14;
  }
  void on_echo(btl::Delivery&) noexcept { ++echoes_; }

  struct Flush : Completion {
    bool over = false;
  };

  const std::uint32_t me_;
  Channel* parent_;
  std::minstd_rand random_;
  std::unique_ptr<am::Context> context_;
  std::vector<am::Endpoint*> peers_;
  MemoryHandle root_memory_{};
  std::uint64_t root_base_ = 0;
  std::uint32_t received_[kRanks] = {};
  std::uint32_t echoes_ = 0;
  std::uint32_t echoes_wanted_ = 0;
  Flush flush_done_;
  bool flushing_ = false;
  int wrong_ = 0;
};

TEST(ManyToOne, NeverStopsWithAnyMixAndTheSmallestQueues) {
  std::vector<std::unique_ptr<Child>> children;
  for (std::uint32_t i = 0; i < kRanks; ++i) {
    children.push_back(std::make_unique<Child>([i](Channel& parent) { return Rank{i, parent}.run(); }));
  }
  std::vector<std::vector<std::byte>> introductions;
  for (const auto& child : children) {
    for (int part = 0; part < 3; ++part) introductions.push_back(child->channel().receive(kLong));
  }
  for (const auto& child : children) {
    for (const auto& part : introductions) child->channel().send(part);
  }
  for (std::uint32_t i = 0; i < kRanks; ++i) {
    EXPECT_EQ(children[i]->channel().receive(kLong).size(), 4U) << "rank " << i << " is not done";
  }
  for (const auto& child : children) child->channel().send("stop");
  for (std::uint32_t i = 0; i < kRanks; ++i) EXPECT_EQ(children[i]->wait(kLong), 0) << "rank " << i;
}

}  // namespace
}  // namespace opal::test
