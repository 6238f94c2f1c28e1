// SPDX-License-Identifier: Apache-2.0
// Large gets and puts.  While it is inside the library the target helps: straight from place to place, or, of a get,
// through a few chunks that stay in the cache.  Whatever it leaves undone is copied by the copy mechanisms.
#include "opal/btl/sm/helped/pull.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "opal/btl/shared/rdma_emulation.hpp"
#include "opal/btl/sm/module.hpp"
#include "opal/core/clock.hpp"
#include "opal/core/system/guarded_copy.hpp"
#include "opal/core/log.hpp"
#include "opal/mpool/shared_directory.hpp"

namespace opal::btl::sm {
namespace {

constexpr int kPiecesPerRound = 16;  // so that other peers have their turn
// Units that one side takes at a time by single copy: a system call should be worth it, and neither should wait long
// for the other's last.  A single transfer is over sooner in small shares, a stream of them faster in large ones.
constexpr std::uint32_t kLeastShare = 2;
constexpr std::uint32_t kLeastShareInStream = 8;
constexpr std::uint32_t kMostShare = 64;
constexpr std::uint32_t kMostAlone = 256;  // when the peer stays silent
// A piece takes a peer that runs less than a millisecond.
constexpr std::chrono::seconds kEndTimeout{10};

std::uint64_t offset_of(std::uint32_t unit) noexcept { return unit * wire::kPullUnit; }
/// Bytes of a range; the last unit may be a part.
std::uint64_t bytes_of_units(const UnitRange& range, std::uint64_t size) noexcept {
  return std::min(offset_of(range.first + range.count), size) - offset_of(range.first);
}

std::uint32_t least_share(const Pulls::Request& request) noexcept {
  return request.streamed ? kLeastShareInStream : kLeastShare;
}

}  // namespace

// ---- Puller

/// Whether we reach this memory without the peer's help.
bool Module::can_copy(const Endpoint& peer, const RemoteRange& range) noexcept {
  return peer.link_->copy.reaches(range);
}

/// Whether we can go on with the transfer that runs: of a put what nothing copies is carried by messages.
bool Module::reachable(const Endpoint& from) noexcept {
  const Pulls::Request& running = from.pulls_->running();
  return running.is_put() || can_copy(from, running.there);
}

Ways Module::ways(Endpoint& from, const RemoteRange& range, bool put) const noexcept {
  CopyMechanisms& mechanisms = from.link_->copy;
  const bool mapped = mechanisms.map(range) != nullptr;
  const bool alone = can_copy(from, range);
  // Waking the peer, or waiting until it has our core, costs more than copying alone, if we can.
  const bool away = host().cores_shared || from.asleep();
  const ByteSize least = mapped ? config_.shared_help_from : config_.pipeline_from;
  const bool helped = range.size >= least.bytes && range.size <= offset_of(wire::kMostPullUnits) && !(alone && away);
  Ways ways{{alone, alone && helped, helped && !mapped && !put}};  // chunks between two mapped memories would be absurd
  if (forced_way_ && ways.has(*forced_way_)) {
    ways = {};
    ways.possible[static_cast<std::size_t>(*forced_way_)] = true;
  }
  return ways;
}

WayChooser& Module::chooser_of(Endpoint& from, const RemoteRange& range, bool streamed, bool put) {
  auto& chooser = from.choosers_[put ? 1 : 0][from.link_->copy.map(range) != nullptr ? 1 : 0][streamed ? 1 : 0];
  if (chooser == nullptr) chooser = std::make_unique<WayChooser>();
  return *chooser;
}

/// Whether a get follows another one without a round of progress in between: then what counts is how many are done in a
/// time, and help, which needs messages to and fro, pays later than for the only one.
bool Module::is_streamed(Endpoint& from) const noexcept {
  const bool streamed = from.get_round_ == round_ || (from.pulls_ != nullptr && from.pulls_->count != 0);
  from.get_round_ = round_;
  return streamed;
}

/// False: without help, please.
bool Module::begin_pull(Endpoint& from, const Pulls::Request& request) noexcept {
  if (from.pulls_ == nullptr) {
    constexpr std::uint32_t units = kPipelineChunk.bytes / wire::kPullUnit;
    const auto memory = from.link_->out->allocate(PullRing::bytes(kPipelineChunks, units));
    if (!memory) return false;
    populate({memory->address, PullRing::bytes(kPipelineChunks, units)});
    from.pulls_ = std::make_unique<Pulls>(PullRing{memory->address, kPipelineChunks, units},
                                          static_cast<std::uint32_t>(memory->offset / kCacheLine));
  }
  Pulls& pulls = *from.pulls_;
  if (pulls.count == Pulls::kMost) return false;
  request.completion->error = {};
  pulls.requests[(pulls.first + pulls.count++) % Pulls::kMost] = request;
  if (pulls.count == 1) {
    // A completion that posts the next get comes here while progress_pulls() still has the endpoint in its hands.
    if (std::find(pulling_.begin(), pulling_.end(), &from) == pulling_.end()) pulling_.push_back(&from);
    start_next_pull(from);
  }
  return true;
}

void Module::start_next_pull(Endpoint& from) noexcept {
  Pulls& pulls = *from.pulls_;
  pulls.ring.begin(PullRing::units_of(pulls.running().there.size));
  pulls.announced = false;
  pulls.share = kMostShare;
  pulls.error = {};
  pulls.left_over = {};
  pulls.began_ns = pulls.heard_ns = now_ns();
  announce_pull(from);
}

void Module::announce_pull(Endpoint& from) noexcept {
  Pulls& pulls = *from.pulls_;
  const Pulls::Request& running = pulls.running();
  const RemoteRange& range = running.there;
  const PullRing& ring = pulls.ring.ring();
  wire::PullRequest request{};
  request.address = range.address;
  request.size = range.size;
  request.region = range.region;
  request.line = pulls.line;
  request.generation = pulls.ring.generation();
  request.chunks = ring.chunks();
  request.chunk_units = ring.chunk_units();
  request.least_share = least_share(running);
  request.put = running.is_put() ? 1 : 0;
  if (running.way == Way::cooperative) {
    request.destination = reinterpret_cast<std::uintptr_t>(running.here);
    request.destination_pool = mpool::shared_pool_of(running.here, range.size);
  }
  pulls.announced = send_inline(from, wire::kPull, bytes_of(request), {}) == Post::done;
}

/// Copies out what the peer has filled.
std::size_t Module::take_pieces(Endpoint& from) noexcept {
  Pulls& pulls = *from.pulls_;
  const Pulls::Request& request = pulls.running();
  std::size_t count = 0;
  for (; count < kPiecesPerRound; ++count) {
    UnitRange piece;
    const std::byte* bytes = nullptr;
    const Puller::Look look = pulls.ring.look(piece, bytes);
    if (look == Puller::Look::nothing) break;
    if (look == Puller::Look::garbage) {
      fail(from, {Errc::protocol, 0, "sm pull: a piece that does not follow those before", piece.first});
      break;
    }
    if (bytes != nullptr) {
      if (request.is_put()) {
        fail(from, {Errc::protocol, 0, "sm pull: a chunk of a put", piece.first});
        break;
      }
      std::memcpy(request.here + offset_of(piece.first), bytes, bytes_of_units(piece, request.there.size));
    }
    pulls.ring.pop(piece);
  }
  return count;
}

/// In a pipeline our part is to empty chunks, unless none come.
bool Module::ours_to_copy(const Pulls& pulls) const noexcept {
  if (pulls.requests[pulls.first].way == Way::cooperative) return true;
  return now_ns() - pulls.heard_ns >= static_cast<std::uint64_t>(config_.pipeline_timeout.count()) * 1000;
}

/// Copies a share of the rest by ourselves.
std::size_t Module::pull_by_mechanisms(Endpoint& from) noexcept {
  Pulls& pulls = *from.pulls_;
  const Pulls::Request& request = pulls.running();
  const UnitRange range = pulls.ring.take_back(least_share(request), pulls.share);
  if (range.count == 0) return 0;
  pulls.share = std::min(2 * pulls.share, kMostAlone);
  const std::uint64_t offset = offset_of(range.first);
  const RemoteRange there{request.there.address + offset, bytes_of_units(range, request.there.size),
                          request.there.region, request.there.pool};
  // The registration may have ended since the get was posted, or the peer, and its PID be somebody else's.
  Result<RemoteRange> checked = reach(from, there.address, *MemoryHandle::from_bytes(bytes_of(request.there.region)),
                                      there.size, request.is_put() ? Rights::remote_write : Rights::remote_read);
  CopyOutcome outcome;
  if (!checked) {
    outcome.error = checked.error();
  } else if (request.is_put()) {
    outcome = from.link_->copy.write(there, request.here + offset);
  } else {
    outcome = from.link_->copy.read(request.here + offset, there);
  }
  if (outcome.ok()) return 1;
  if (outcome.error.code == Errc::not_supported) {  // no mechanism is left
    if (request.is_put()) {
      pulls.ring.leave(range, pulls.left_over);
    } else {  // the peer has to do it all
      pulls.ring.put_back(range);
      pulls.announced = false;
    }
    return 0;
  }
  pulls.error = outcome.error;
  pulls.ring.close();
  return 1;
}

/// False: not yet, there is no room for the messages that carry what is left over.
bool Module::end_pull(Endpoint& from) noexcept {
  Pulls& pulls = *from.pulls_;
  const Pulls::Request request = pulls.running();
  bool by_messages = false;
  if (pulls.left_over.count != 0 && pulls.error.code == Errc{} && !pulls.ring.claims().refused) {
    const std::uint64_t offset = offset_of(pulls.left_over.first);
    const Post post = MessageTransport::put(from, request.here + offset, nullptr, request.there.address + offset,
                                       *MemoryHandle::from_bytes(bytes_of(request.there.region)),
                                       bytes_of_units(pulls.left_over, request.there.size), *request.completion);
    if (post == Post::again) return false;
    if (post == Post::failed) pulls.error = request.completion->error;
    by_messages = post == Post::queued;
  }
  chooser_of(from, request.there, request.streamed, request.is_put())
      .learn(request.there.size, request.way, now_ns() - pulls.began_ns);
  Error error = pulls.error;
  if (error.code == Errc{} && pulls.ring.claims().refused) {
    error = {Errc::invalid_argument, 0, "memory handle: stale, its registration or its memory is gone",
             request.there.address};
  }
  pulls.first = (pulls.first + 1) % Pulls::kMost;
  if (--pulls.count != 0) start_next_pull(from);
  if (!by_messages) request.completion->finish(error);
  if (!flushes_.empty()) check_flushes();
  return true;
}

std::size_t Module::progress_pulls() noexcept {
  std::size_t count = 0;
  for (std::size_t i = 0; i < pulling_.size();) {
    Endpoint& from = *pulling_[i];
    Pulls& pulls = *from.pulls_;
    if (from.dead()) {  // settle() ends them
      ++i;
      continue;
    }
    const std::size_t pieces = take_pieces(from);
    count += pieces;
    if (pieces != 0) {
      from.wake();  // it may sleep because all chunks were full
      pulls.heard_ns = now_ns();
      pulls.share = kMostShare;
    } else if (reachable(from) && !pulls.ring.over() && ours_to_copy(pulls)) {
      count += pull_by_mechanisms(from);
      pulls.heard_ns = now_ns();
    }
    if (!pulls.announced && pulls.ring.claims().left() != 0) announce_pull(from);
    if (!from.dead() && pulls.ring.over() && end_pull(from)) ++count;
    if (pulls.count == 0) {
      pulling_.erase(pulling_.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
  for (std::size_t i = 0; i < feeding_.size();) {
    Endpoint& to = *feeding_[i];
    if (to.feed_->active && to.feed_->ring.can_go_on()) count += feed(to) ? 1 : 0;
    if (to.feed_->active) {
      ++i;
    } else {
      feeding_.erase(feeding_.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  return count;
}

bool Module::pulls_have_work() const noexcept {
  for (const Endpoint* from : pulling_) {
    Pulls& pulls = *from->pulls_;
    if (pulls.ring.ready() || pulls.ring.over()) return true;
    if (pulls.ring.claims().left() != 0 && (!pulls.announced || reachable(*from))) return true;
  }
  return std::any_of(feeding_.begin(), feeding_.end(), [](const Endpoint* to) { return to->feed_->ring.can_go_on(); });
}

/// The peer writes to the destination of a cooperative get, and reads the source of a put, from the moment it takes a
/// piece until it publishes it.  The program may use that memory as it likes once its completion has run.
void Module::wait_until_quiet(Endpoint& endpoint) noexcept {
  Pulls& pulls = *endpoint.pulls_;
  if (pulls.running().way != Way::cooperative) return;
  const Deadline deadline = Deadline::after(kEndTimeout);
  while (!pulls.ring.is_quiet()) {
    if (endpoint.link_->gone->load(std::memory_order_acquire))
      return;  // it left outside of a copy, or its process ended
    if (deadline.expired()) {
      log::error("btl.sm",
                 "peer {} has not finished its part of a transfer within {} s (is it stopped?); it may still copy from "
                 "or to memory of that transfer",
                 to_string(endpoint.peer()), kEndTimeout.count());
      return;
    }
    cpu_relax();
    std::this_thread::yield();
  }
}

void Module::abandon_pulls(Endpoint& endpoint, const Error& why) noexcept {
  if (endpoint.feed_ != nullptr && std::exchange(endpoint.feed_->active, false)) endpoint.feed_->ring.leave();
  std::erase(feeding_, &endpoint);
  std::erase(pulling_, &endpoint);
  if (endpoint.pulls_ == nullptr) return;
  Pulls& pulls = *endpoint.pulls_;
  if (pulls.count != 0) {
    pulls.ring.close();
    wait_until_quiet(endpoint);
  }
  while (pulls.count != 0) {
    Completion& completion = *pulls.running().completion;
    pulls.first = (pulls.first + 1) % Pulls::kMost;
    --pulls.count;
    completion.finish(why);
  }
  if (!flushes_.empty()) check_flushes();
}

// ---- Feeder

void Module::on_pull_request(void* /*unused*/, Delivery& delivery) noexcept {
  auto* const receiver = dynamic_cast<Module*>(&delivery.from.module());
  if (receiver == nullptr) {  // the tag reaches every transport of the Context, and only sm's endpoints have segments
    log::once(log::Level::warn, "sm pull request elsewhere", "sm",
              "pull request of {}, which is not connected through shared memory, dropped",
              to_string(delivery.from.peer()));
    return;
  }
  Module& module = *receiver;
  auto& to = static_cast<Endpoint&>(delivery.from);
  wire::PullRequest request{};
  const auto refuse = [&](const char* why) { module.fail(to, {Errc::protocol, 0, why}); };
  if (delivery.data.size() != sizeof request || !read_object(delivery.data, request)) {
    return refuse("sm pull request: size");
  }
  if (!std::has_single_bit(request.chunks) || request.chunks > wire::kMostPullChunks || request.chunk_units == 0 ||
      request.chunk_units > wire::kMostChunkUnits || request.least_share == 0 || request.least_share > kMostShare ||
      request.put > 1 || (request.put == 1 && request.destination == 0) || request.generation >= Claims::kGenerations ||
      request.size == 0 || request.size > offset_of(wire::kMostPullUnits)) {
    return refuse("sm pull request: a field");
  }
  if (to.feed_ == nullptr) {
    const MutableBytes memory = to.link_->in.part(request.line, PullRing::bytes(request.chunks, request.chunk_units));
    if (memory.empty()) return refuse("sm pull request: outside its segment");
    populate(memory);
    to.feed_ = std::make_unique<Feed>(PullRing{memory.data(), request.chunks, request.chunk_units}, request.line);
  }
  Feed& feed = *to.feed_;
  if (feed.line != request.line) return refuse("sm pull request: another ring");
  if (!feed.active) module.feeding_.push_back(&to);
  feed.active = true;
  feed.address = request.address;
  feed.size = request.size;
  feed.destination = request.destination;
  feed.pool = request.destination_pool;
  feed.least_share = request.least_share;
  feed.region = request.region;
  feed.put = request.put == 1;
  feed.ring.begin(request.generation, PullRing::units_of(request.size));
  (void)module.feed(to);
}

/// Copies a piece between our memory, which may be gone, and its place in the peer's.
bool Module::feed_in_place(Endpoint& to, std::byte* bytes, const RemoteRange& place) noexcept {
  CopyMechanisms& mechanisms = to.link_->copy;
  const bool put = to.feed_->put;
  if (std::byte* const there = mechanisms.map(place)) {
    return put ? guarded_copy(bytes, there, place.size) : guarded_copy(there, bytes, place.size);
  }
  return put ? mechanisms.read(bytes, place).ok() : mechanisms.write(place, bytes).ok();
}

/// Fills chunks as long as there is room; the claim word says when it is over.
bool Module::feed(Endpoint& to) noexcept {
  Feed& feed = *to.feed_;
  if (to.link_->gone->load(std::memory_order_acquire)) {  // its PID may be somebody else's by now, and nobody waits
    feed.active = false;
    return false;
  }
  const auto handle = *MemoryHandle::from_bytes(bytes_of(feed.region));
  const RegistrationView table = host().registrations.view();
  // A GPU's memory is for no copy of a processor; an honest puller knows that from the table.
  if (!table.check(handle, feed.address, feed.size, feed.put ? Rights::remote_write : Rights::remote_read) ||
      table.pool_of(feed.region) == RegistrationView::kOfGpu) {
    feed.ring.refuse();
    feed.active = false;
    to.wake();
    return true;
  }
  bool filled = false;
  for (int i = 0; i < kPiecesPerRound; ++i) {
    UnitRange piece;
    const bool in_place = feed.destination != 0 && can_copy(to, {feed.destination, feed.size, {}, feed.pool});
    if (feed.put && !in_place) {  // the initiator does the rest
      feed.active = false;
      break;
    }
    const Feeder::Look look = in_place ? feed.ring.take(piece, feed.least_share, kMostShare)
                                       : feed.ring.take(piece, 1, feed.ring.chunk_units());
    if (look == Feeder::Look::full) break;
    if (look != Feeder::Look::piece) {
      feed.active = false;
      if (look == Feeder::Look::garbage) fail(to, {Errc::protocol, 0, "sm pull: the puller's counters make no sense"});
      break;
    }
    const std::uint64_t offset = offset_of(piece.first);
    const std::uint64_t size = bytes_of_units(piece, feed.size);
    auto* bytes = reinterpret_cast<std::byte*>(feed.address) + offset;
    if (in_place && !feed_in_place(to, bytes, {feed.destination + offset, size, {}, feed.pool})) {
      if (feed.put) {
        feed.ring.give_up(piece);
        feed.active = false;
        break;
      }
      feed.destination = 0;  // from here on by chunks
      feed.ring.put_back(piece);
      continue;
    }
    if (!in_place && !guarded_copy(feed.ring.chunk(), bytes, size)) {  // the registration lives, its memory does not
      feed.ring.put_back(piece);
      feed.ring.refuse();
      feed.active = false;
      filled = true;
      break;
    }
    feed.ring.publish(piece, in_place);
    filled = true;
  }
  if (filled) to.wake();
  return filled;
}

}  // namespace opal::btl::sm
