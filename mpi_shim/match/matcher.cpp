// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/match/matcher.hpp"

namespace mpi_shim::match {

namespace {

bool has_wildcard(const Envelope& wanted) noexcept { return wanted.source == kAnySource || wanted.tag == kAnyTag; }

}  // namespace

PostedRecv* Matcher::arrive_in_queues(const Envelope& message) noexcept {
  PostedRecv* found = posted_.first(exact_key(message.source, message.tag));
  // Each queue is in the order of posting, so the earliest receive is the earliest of the first ones.
  const auto consider = [&](int source, int tag) {
    PostedRecv* candidate = posted_.first(exact_key(source, tag));
    if (candidate != nullptr && (found == nullptr || candidate->order_ < found->order_)) found = candidate;
  };
  if (wildcards_ != 0) {
    consider(kAnySource, message.tag);
    consider(message.source, kAnyTag);
    consider(kAnySource, kAnyTag);
  }
  if (found != nullptr) unqueue(*found);
  return found;
}

void Matcher::queue(PostedRecv& receive) {
  receive.order_ = posts_++;
  posted_.push(receive, exact_key(receive.wanted.source, receive.wanted.tag));
  if (has_wildcard(receive.wanted)) ++wildcards_;
}

void Matcher::unqueue(PostedRecv& receive) noexcept {
  posted_.remove(receive);
  receive.queued_ = false;
  if (has_wildcard(receive.wanted)) --wildcards_;
}

void Matcher::add(Unexpected& message) {
  const Envelope& from = message.envelope;
  unexpected_.push(message, exact_key(from.source, from.tag));
  if (indexed_) index(message);
  message.arrived_next_ = nullptr;
  message.arrived_previous_ = newest_;
  (newest_ != nullptr ? newest_->arrived_next_ : oldest_) = &message;
  newest_ = &message;
  message.queued_ = true;
}

void Matcher::unlink(Unexpected& message) noexcept {
  unexpected_.remove(message);
  if (indexed_) {
    unexpected_by_source_.remove(message);
    unexpected_by_tag_.remove(message);
  }
  (message.arrived_previous_ != nullptr ? message.arrived_previous_->arrived_next_ : oldest_) = message.arrived_next_;
  (message.arrived_next_ != nullptr ? message.arrived_next_->arrived_previous_ : newest_) = message.arrived_previous_;
  message.queued_ = false;
}

void Matcher::index(Unexpected& message) {
  unexpected_by_source_.push(message, key_of(message.envelope.source));
  unexpected_by_tag_.push(message, key_of(message.envelope.tag));
}

Unexpected* Matcher::probe(const Envelope& wanted) {
  if (oldest_ == nullptr) return nullptr;
  if (wanted.source != kAnySource && wanted.tag != kAnyTag) {
    return unexpected_.first(exact_key(wanted.source, wanted.tag));
  }
  if (wanted.source == kAnySource && wanted.tag == kAnyTag) return oldest_;
  if (!indexed_) for_each_unexpected([&](Unexpected& message) { index(message); });
  indexed_ = true;
  return wanted.tag == kAnyTag ? unexpected_by_source_.first(key_of(wanted.source))
                               : unexpected_by_tag_.first(key_of(wanted.tag));
}

Unexpected* Matcher::take(const Envelope& wanted) {
  Unexpected* message = probe(wanted);
  if (message != nullptr) unlink(*message);
  return message;
}

bool Matcher::cancel(PostedRecv& receive) noexcept {
  if (!receive.queued_) return false;
  if (&receive == lone_) {
    leave_alone();
  } else {
    unqueue(receive);
  }
  return true;
}

bool Matcher::remove(Unexpected& message) noexcept {
  if (!message.queued_) return false;
  unlink(message);
  return true;
}

}  // namespace mpi_shim::match
