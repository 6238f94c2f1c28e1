// SPDX-License-Identifier: Apache-2.0
// tests/sim/actor.hpp — one process of a fault campaign: a Context that runs the steps of an exchange one after the
// other, and holds what it sees against what a Context promises:
//   * a queued operation completes once, and one that was not queued never;
//   * data of an operation that succeeded is there, all of it; after its end nothing reads or writes its buffer, which
//     is filled with kPoison to show it;
//   * messages arrive in order, without gaps or repetitions; only the end of a life may be missing;
//   * a failure is told once per life of an endpoint.
#pragma once
#include <array>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "opal/am/context.hpp"
#include "tests/sim/world.hpp"

namespace opal::test {

inline constexpr std::size_t kActors = 3;

/// Memory of one process that survives it: a peer's success is judged by it also when the process was killed.
struct ActorMemory {
  static constexpr std::size_t kBytes = std::size_t{1} << 20;
  // Aligned so that pieces, which end at round addresses, are the same in every process.
  alignas(kBytes) std::array<std::byte, kBytes> window;  ///< that peers reach
  alignas(kBytes) std::array<std::byte, kBytes> local;   ///< of the operations posted here
};

class Actor final : public am::Observer {
 public:
  using Step = std::function<bool()>;  ///< true: done, the next one; else it is tried again when something has happened

  /// What all of a run share.
  struct Shared {
    explicit Shared(SimWorld& world) : world(world) {}
    SimWorld& world;
    std::array<Actor*, kActors> actors{};
    bool gave_up = false;                         ///< nothing happens any more: what no peer will do is not waited for
    std::optional<std::uint32_t> without_device;  ///< this one has lost all of its own
    std::array<std::size_t, kActors> window_used{};
    std::uint64_t longest_wait_ns = 0;  ///< from post to completion
    std::uint64_t last_end_ns = 0;      ///< a completion, a message, or the news of a failure
    /// What happened, in order: two runs of one seed have the same.
    std::vector<std::uint64_t> history;
  };

  Actor(Shared& shared, std::size_t index, ActorMemory& memory, const config::Store& settings);
  ~Actor() override;

  [[nodiscard]] bool alive() const noexcept { return alive_; }
  [[nodiscard]] std::uint32_t index() const noexcept { return index_; }
  [[nodiscard]] std::uint64_t succeeded() const noexcept { return succeeded_; }
  [[nodiscard]] std::uint64_t messages() const noexcept { return messages_; }
  [[nodiscard]] std::uint64_t failures() const noexcept { return failures_; }

  // --- Steps of an exchange; those that need a peer which is gone are left out
  void connect(Actor& to);
  void await_peer(Actor& from);
  void send(Actor& to, std::size_t count);
  void send_fragment(Actor& to, std::size_t bytes);
  void queue(Actor& to, std::size_t count, std::size_t bytes);  ///< send_or_queue
  void await(Actor& from, std::uint64_t count);                 ///< messages in this life
  void await_failure(Actor& of);
  void leave(Actor& to);
  void put(Actor& to, std::uint64_t size);
  void get(Actor& from, std::uint64_t size);
  void add(Actor& to);
  void flush(Actor& to);
  void wait();                               ///< for all operations posted here
  void lend_all();                           ///< from here on peers reach the window by an address-space handle
  void offer(Actor& to, std::size_t bytes);  ///< exposes memory, which `to` gets, and takes it back
  void await_offers();                       ///< until none is open
  void meet();                               ///< with all that live, who must have as many meetings before
  void checkpoint();                         ///< all that live take part; counts as two meetings
  void lose_rail();                          ///< the second of its own, for good
  void then(Step step) { steps_.push_back(std::move(step)); }

  /// Runs what steps can run; whether one did.
  bool advance();
  [[nodiscard]] bool finished() const noexcept { return steps_.empty(); }

  /// Its process stops.
  void kill(btl::sim::Crash how);
  /// Sends something to every peer that is not known to be gone.
  void probe();
  /// The endpoint to `to` is one that works, after this and a run.
  void reconnect(Actor& to);
  void say(Actor& to, std::size_t count);  ///< messages, now
  [[nodiscard]] bool works(const Actor& to) const noexcept;

  /// With nothing under way: everything promised has happened.
  void check() const;
  /// Ends the Context in an orderly manner.
  void end();

 private:
  struct Message {
    std::uint32_t sender;
    std::uint32_t life;  // of the sender's endpoint
    std::uint64_t number;
  };
  struct Offer {
    std::uint64_t number;
    std::uint64_t address;
    std::uint64_t size;
  };
  struct Peer {
    am::Endpoint* endpoint = nullptr;
    bool failed = false;
    std::uint32_t life = 0;  // of our endpoint
    std::uint64_t sent = 0;  // in it
    std::uint32_t heard_life = 0;
    std::uint64_t heard = 0;
    std::uint64_t heard_here = 0;  // in our endpoint's life
    std::uint64_t added = 0;       // atomics that succeeded
    std::uint64_t uncertain = 0;   // and that failed: executed or not
    std::uint64_t results = 0;     // old values that came back, a bit each
  };
  enum class Kind : std::uint8_t { put, get, add, flush, offered };
  struct Operation : Completion {
    Actor* actor = nullptr;
    Kind kind{};
    std::uint32_t peer = 0;
    std::uint64_t name = 0;
    std::byte* local = nullptr;
    std::byte* remote = nullptr;
    std::uint64_t size = 0;
    std::uint64_t result = UINT64_MAX;
    std::uint64_t posted_ns = 0;
    std::uint64_t offer = 0;  // of an offered one: the peer's number of it
    MemoryHandle handle;
    std::uint64_t order = 0;  // of posting
    bool posted = false;      // or done at once
    bool queued = false;
    int calls = 0;
  };
  struct Exposed {
    am::ExposedMemory memory;
    std::uint32_t to;
  };

  void on_peer_connected(am::Endpoint& endpoint) noexcept override;
  void on_peer_failed(am::Endpoint& endpoint, const Error& why) noexcept override;
  void on_message(btl::Delivery& delivery) noexcept;
  void on_offer(btl::Delivery& delivery) noexcept;
  void on_taken(btl::Delivery& delivery) noexcept;
  static void on_end(Completion& self) noexcept;
  void ended(Operation& operation) noexcept;

  [[nodiscard]] Peer& peer(const Actor& other) noexcept { return peers_[other.index_]; }
  [[nodiscard]] bool reaches(const Actor& other) noexcept {
    return peer(other).endpoint != nullptr && !peer(other).failed;
  }
  void begin_life(Peer& peer, am::Endpoint& endpoint) noexcept;
  void drop(Peer& peer);
  [[nodiscard]] Post send_now(Peer& peer, std::size_t bytes, bool may_queue);
  Operation& make(Kind kind, const Actor& peer, std::uint64_t size);
  [[nodiscard]] bool post(Operation& operation);
  [[nodiscard]] Post post_once(Operation& operation);
  [[nodiscard]] bool all_at(int stage) const noexcept;
  void note(std::uint64_t what) { shared_.history.push_back(what); }
  [[nodiscard]] am::Context& context() const noexcept { return shared_.world.context(index_); }

  Shared& shared_;
  std::uint32_t index_;
  ActorMemory& memory_;
  bool alive_ = true;
  PeerId id_;
  std::vector<std::byte> address_;
  std::vector<std::byte> key_;  // of the window
  am::Region region_;
  std::optional<am::Region> everything_;
  std::array<Peer, kActors> peers_;
  std::vector<am::Endpoint*> former_;  // to disconnect
  std::deque<Step> steps_;
  std::deque<Operation> operations_;
  std::size_t local_used_ = 0;
  std::vector<std::optional<Exposed>> offers_;
  int stage_ = 0;  // meetings that it has come to
  std::uint64_t posted_ = 0;
  std::uint64_t succeeded_ = 0;
  std::uint64_t messages_ = 0;
  std::uint64_t failures_ = 0;
};

}  // namespace opal::test
