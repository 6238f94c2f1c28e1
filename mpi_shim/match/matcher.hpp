// SPDX-License-Identifier: Apache-2.0
// mpi_shim/match/matcher.hpp — matches the messages of one channel with its receives in MPI's order: a message matches
// the earliest posted receive that accepts it, a receive matches the earliest arrived message that it accepts.
// Owned by its channel.  Borrows receives and messages: it links them into its queues.
// Threads: under the Context's lock.
// Invariants: no queued receive accepts a queued message; lone_ is older than all receives in the queues.
// Cost: a receive that is posted while no other is queued becomes lone_, without hashing; blocking receives are such.
// Otherwise O(1) expected: one lookup without wildcards, up to three more if a queued receive has one.  It does not
// depend on the length of a queue.
#pragma once
#include <cstddef>
#include <cstdint>

#include "mpi_shim/match/keyed_queues.hpp"

namespace mpi_shim::match {

inline constexpr int kAnySource = -1;  ///< the ABI's MPI_ANY_SOURCE
inline constexpr int kAnyTag = -2;     ///< the ABI's MPI_ANY_TAG

/// The source and the tag of a message, or those that a receive wants; only a receive may have wildcards.
/// kAnyTag also accepts negative tags, which collectives use: they have a channel, and so a matcher, of their own.
struct Envelope {
  int source = 0;
  int tag = 0;
};

/// A posted receive, as base class.  It must not move or end while it is queued.
class PostedRecv {
 public:
  Envelope wanted;

 private:
  friend class Matcher;
  std::uint64_t order_ = 0;  // of posting, among the receives in the queues
  bool queued_ = false;      // in a queue, or Matcher::lone_
  Links<PostedRecv> links_;
};

/// An unexpected message, as base class.  It must not move or end while it is queued.
class Unexpected {
 public:
  Envelope envelope;

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

  /// A message has arrived: removes the receive that it matches from the queues and returns it.
  /// Null: no receive matches; the caller calls add() before any other arrive() or post().
  [[nodiscard]] PostedRecv* arrive(const Envelope& message) noexcept {
    if (lone_ != nullptr && accepts(lone_->wanted, message)) [[likely]]
      return leave_alone();
    return posted_.size() == 0 ? nullptr : arrive_in_queues(message);
  }

  /// Queues a message for which arrive() found no receive.
  void add(Unexpected& message);

  /// A receive is posted: removes the message that it matches from the queues and returns it.
  /// Null: no message matches, and the receive is queued.
  [[nodiscard]] Unexpected* post(PostedRecv& receive) {
    if (oldest_ != nullptr) [[unlikely]] {
      if (Unexpected* message = take(receive.wanted); message != nullptr) return message;
    }
    receive.queued_ = true;
    if (lone_ == nullptr && posted_.size() == 0) {
      lone_ = &receive;
    } else {
      queue(receive);
    }
    return nullptr;
  }

  /// The message that a receive of `wanted` would match; it stays queued.  Null: none.
  [[nodiscard]] Unexpected* probe(const Envelope& wanted);

  /// As probe(), and removes the message from the queues.
  [[nodiscard]] Unexpected* take(const Envelope& wanted);

  /// Removes a receive from the queues.  False: it is not queued, since it has matched a message.
  bool cancel(PostedRecv& receive) noexcept;

  /// Removes a message from the queues.  False: it is not queued.
  bool remove(Unexpected& message) noexcept;

  [[nodiscard]] std::size_t posted() const noexcept { return posted_.size() + (lone_ != nullptr ? 1 : 0); }
  [[nodiscard]] std::size_t unexpected() const noexcept { return unexpected_.size(); }

  /// Calls visit(receive) for all queued receives in no order; visit may cancel() the receive that it is called for.
  template <class Visit>
  void for_each_posted(Visit&& visit) {
    if (lone_ != nullptr) visit(*lone_);
    posted_.for_each(visit);
  }

  /// Calls visit(message) for all queued messages in order of arrival; visit may remove() that message.
  template <class Visit>
  void for_each_unexpected(Visit&& visit) {
    for (Unexpected* message = oldest_; message != nullptr;) {
      Unexpected* next = message->arrived_next_;
      visit(*message);
      message = next;
    }
  }

 private:
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
  void unqueue(PostedRecv& receive) noexcept;

  static std::uint64_t exact_key(int source, int tag) noexcept {
    return std::uint64_t{static_cast<std::uint32_t>(source)} << 32 | static_cast<std::uint32_t>(tag);
  }
  static std::uint64_t key_of(int value) noexcept { return static_cast<std::uint32_t>(value); }
  void unlink(Unexpected& message) noexcept;
  void index(Unexpected& message);

  PostedRecv* lone_ = nullptr;  // a receive that was posted when no other one was queued; it is in no queue
  KeyedQueues<PostedRecv, &PostedRecv::links_> posted_;  // the others by source and tag; both may be wildcards
  std::size_t wildcards_ = 0;                            // receives in posted_ with a wildcard
  std::uint64_t posts_ = 0;                              // the next PostedRecv::order_

  // Messages.  Each is in `unexpected_` and in the list of arrivals (oldest_ to newest_).  It is in the other two once
  // a probe or receive has used one of the two wildcards while a message was queued (indexed_).
  KeyedQueues<Unexpected, &Unexpected::exact_> unexpected_;
  KeyedQueues<Unexpected, &Unexpected::by_source_> unexpected_by_source_;
  KeyedQueues<Unexpected, &Unexpected::by_tag_> unexpected_by_tag_;
  bool indexed_ = false;
  Unexpected* oldest_ = nullptr;
  Unexpected* newest_ = nullptr;
};

}  // namespace mpi_shim::match
