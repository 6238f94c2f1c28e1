// SPDX-License-Identifier: Apache-2.0
// mpi_shim/match/matcher.hpp — pairs the messages of one communicator with its receives, in the order MPI prescribes.
// A message goes to the earliest posted receive that accepts it, a receive takes the earliest arrived message it
// accepts. Owned by its communicator, whose lock serialises all calls.  Receives and messages are the caller's: the
// matcher links them and allocates nothing when they meet. Invariants: no queued receive accepts a queued message; the
// lone receive is older than all in the queues.
// Cost: a receive beside which no other one waits stands alone, in no queue, which is what blocking receives do; else
// O(1) expected without wildcards; with wildcards one more lookup for each form (any source, any tag, both) that is in
// use; never the length of a queue.
#pragma once
#include <cstddef>
#include <cstdint>

#include "mpi_shim/match/keyed_queues.hpp"

namespace mpi_shim::match {

inline constexpr int kAnySource = -1;  ///< the ABI's MPI_ANY_SOURCE
inline constexpr int kAnyTag = -2;     ///< the ABI's MPI_ANY_TAG

/// The source and the tag.  In a receive either may be a wildcard, in a message neither; internal traffic may
/// use other negative tags, which an any-tag receive would see too: keep it in a matcher of its own.
struct Envelope {
  int source = 0;
  int tag = 0;
};

/// A receive waiting for its message.  Derive from it; it must not move or end while it is queued.
class PostedRecv {
 public:
  Envelope wanted;

  [[nodiscard]] bool is_queued() const noexcept { return queued_; }

 private:
  friend class Matcher;
  std::uint64_t order_ = 0;
  bool queued_ = false;
  Links<PostedRecv> links_;
};

/// A message that arrived before its receive.  Derive from it; it must not move or end while it is queued.
class Unexpected {
 public:
  Envelope envelope;

  [[nodiscard]] bool is_queued() const noexcept { return queued_; }

 private:
  friend class Matcher;
  bool queued_ = false;
  Links<Unexpected> exact_;
  Links<Unexpected> by_source_;
  Links<Unexpected> by_tag_;
  Unexpected* arrived_next_ = nullptr;
  Unexpected* arrived_previous_ = nullptr;
};

class Matcher {
 public:
  Matcher() = default;
  Matcher(const Matcher&) = delete;
  Matcher& operator=(const Matcher&) = delete;

  /// A message came in: takes the receive it belongs to out of the queue.  Null when there is none yet; then the caller
  /// calls add() before anything else arrives or is posted.
  [[nodiscard]] PostedRecv* arrive(const Envelope& message) noexcept {
    if (lone_ != nullptr && accepts(lone_->wanted, message)) [[likely]]
      return leave_alone();
    return in_queues_ == 0 ? nullptr : arrive_in_queues(message);
  }

  /// Queues a message for which arrive() found no receive.
  void add(Unexpected& message);

  /// A receive was posted: takes the message it accepts out of the queue, or queues the receive and returns null.
  [[nodiscard]] Unexpected* post(PostedRecv& receive) {
    if (oldest_ != nullptr) [[unlikely]] {
      if (Unexpected* message = take(receive.wanted); message != nullptr) return message;
    }
    receive.queued_ = true;
    if (lone_ == nullptr && in_queues_ == 0) {
      lone_ = &receive;
    } else {
      queue(receive);
    }
    return nullptr;
  }

  /// The message that a receive of `wanted` would get; it stays.
  [[nodiscard]] Unexpected* probe(const Envelope& wanted);

  /// The same, taken out of the queue for a matched receive.
  [[nodiscard]] Unexpected* take(const Envelope& wanted);

  /// Takes a receive back.  False when it is not queued: its message came first.
  bool cancel(PostedRecv& receive) noexcept;

  /// Takes a message out of the queue, to throw it away.  False when it is not queued.
  bool remove(Unexpected& message) noexcept;

  [[nodiscard]] std::size_t posted() const noexcept { return in_queues_ + (lone_ != nullptr ? 1 : 0); }
  [[nodiscard]] std::size_t unexpected() const noexcept { return unexpected_.size(); }

  /// Calls visit(receive) for all queued receives in no order; visit may cancel() the one it is given.  For the end of
  /// a communicator and of a peer.
  template <class Visit>
  void for_each_posted(Visit&& visit) {
    if (lone_ != nullptr) visit(*lone_);
    exact_.for_each(visit);
    any_source_.for_each(visit);
    any_tag_.for_each(visit);
    any_.for_each(visit);
  }

  /// Calls visit(message) for all queued messages in order of arrival; visit may remove() the one it is given.
  template <class Visit>
  void for_each_unexpected(Visit&& visit) {
    for (Unexpected* message = oldest_; message != nullptr;) {
      Unexpected* next = message->arrived_next_;
      visit(*message);
      message = next;
    }
  }

 private:
  using PostedQueues = KeyedQueues<PostedRecv, &PostedRecv::links_>;

  static bool accepts(const Envelope& wanted, const Envelope& message) noexcept {
    return (wanted.source == message.source || wanted.source == kAnySource) &&
           (wanted.tag == message.tag || wanted.tag == kAnyTag);
  }
  PostedRecv* leave_alone() noexcept {
    PostedRecv* const receive = lone_;
    lone_ = nullptr;
    receive->queued_ = false;
    return receive;
  }
  PostedRecv* arrive_in_queues(const Envelope& message) noexcept;
  void queue(PostedRecv& receive);
  void unqueue(PostedRecv& receive, PostedQueues& home) noexcept;

  static std::uint64_t exact_key(int source, int tag) noexcept {
    return std::uint64_t{static_cast<std::uint32_t>(source)} << 32 | static_cast<std::uint32_t>(tag);
  }
  static std::uint64_t key_of(int value) noexcept { return static_cast<std::uint32_t>(value); }
  PostedQueues& queues_for(const Envelope& wanted) noexcept;
  static std::uint64_t posted_key(const Envelope& wanted) noexcept;
  void unlink(Unexpected& message) noexcept;
  void index_by_source();
  void index_by_tag();

  PostedRecv* lone_ = nullptr;  // was posted when no other waited
  std::size_t in_queues_ = 0;

  // The other receives, by what they leave open.
  PostedQueues exact_;
  PostedQueues any_source_;  // by tag
  PostedQueues any_tag_;     // by source
  PostedQueues any_;         // one queue
  std::uint64_t posts_ = 0;

  // Messages: each one in `unexpected_` and in the list of arrivals; in the other two from the first use of that
  // wildcard.
  KeyedQueues<Unexpected, &Unexpected::exact_> unexpected_;
  KeyedQueues<Unexpected, &Unexpected::by_source_> unexpected_by_source_;
  KeyedQueues<Unexpected, &Unexpected::by_tag_> unexpected_by_tag_;
  bool indexed_by_source_ = false;
  bool indexed_by_tag_ = false;
  Unexpected* oldest_ = nullptr;
  Unexpected* newest_ = nullptr;
};

}  // namespace mpi_shim::match
