// SPDX-License-Identifier: Apache-2.0
// runtime/tools/perf/tests/conversation.hpp — the connection between the two processes of a measurement over one
// transport.  Rank 0 posts and measures, rank 1 answers.  A Pairing has at most one open at a time.
// Threads: one.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "opal/am/context.hpp"
#include "opal/btl/tag.hpp"
#include "opal/mpool/pool.hpp"
#include "runtime/tools/perf/tests/pairing.hpp"

namespace opal::perf {

// --- The messages between the two processes
inline constexpr Tag kEcho = kUserTags.first;        ///< answered with the same header and payload, as kAnswer
inline constexpr Tag kStream = kUserTags.first + 1;  ///< dropped; answered only if want_answer is 1
inline constexpr Tag kAnswer = kUserTags.first + 2;
inline constexpr Tag kStop = kUserTags.first + 3;  ///< rank 1 answers, and run() returns there
inline constexpr Tag kCopy = kUserTags.first + 4;  ///< rank 1 copies the payload to its region, then answers
/// Payload: a uint64_t n; rank 1 gets n bytes from rank 0's region and answers, also if that fails.  One at a time.
inline constexpr Tag kFetch = kUserTags.first + 5;

/// Header of every message of a measurement.
struct Header {
  std::uint64_t want_answer;  ///< 0 or 1; only kStream uses it
};
static_assert(sizeof(Header) == 8);

/// Names and values of configuration variables.
using Settings = std::vector<std::pair<std::string, std::string>>;

struct ConversationOptions {
  Settings settings{};       ///< for the Context; they override the environment
  bool shared_pool = false;  ///< the registered memory is of a pool of kind "shared", which local peers map
};

class Conversation {
 public:
  /// Opens a Context with just `transport` (empty: all), registers `region_size` bytes, exchanges addresses and
  /// connects.  Then rank 0 calls `Result<void> measure(Conversation&)`, and rank 1 answers until that has returned or
  /// the endpoint has failed.  Both processes call it with the same size.
  /// Errors: those of Context::open, register_memory and connect, of Endpoint::unpack_key, the pool and
  /// Pairing::exchange; protocol (the other process runs another version); those of `measure`.
  template <class Measure>
  static Result<void> run(Pairing& pairing, const std::string& transport, std::uint64_t region_size,
                          const ConversationOptions& options, Measure measure) {
    OPAL_TRY_ASSIGN(const auto self, open(pairing, transport, region_size, options));
    if (pairing.rank() == 0) {
      OPAL_TRY(measure(*self));
      self->stop();
    } else {
      self->respond();
    }
    OPAL_TRY(pairing.exchange(bytes_of(region_size)));  // both are through before either closes
    return {};
  }
  Conversation(const Conversation&) = delete;
  Conversation& operator=(const Conversation&) = delete;

  [[nodiscard]] am::Endpoint& peer() noexcept { return *peer_; }
  [[nodiscard]] std::size_t max_send() const noexcept { return peer_->attributes().max_send; }
  void progress() noexcept { context_->progress(); }
  void begin_batch() noexcept { context_->begin_batch(); }
  void end_batch() noexcept { context_->end_batch(); }

  /// Posts again until the post is accepted.  False: the endpoint failed, or the message is longer than max_send().
  bool send(Tag tag, bool want_answer, ByteSpan payload) noexcept {
    const Header header{want_answer ? 1U : 0U};
    Post post = Post::again;
    while ((post = peer_->send_inline(tag, bytes_of(header), payload)) == Post::again) progress();
    return post == Post::done;
  }
  /// Progresses until `total` answers have arrived since open(), or the endpoint has failed.
  void await_answers(std::uint64_t total) noexcept {
    while (answers_ < total && !peer_->dead()) progress();
  }
  [[nodiscard]] std::uint64_t answers() const noexcept { return answers_; }

  /// Calls `Post operation(Completion&)` until it is accepted and waits for the completion.  Returns the operation's
  /// error, also that of a failed post; none: code 0.
  template <class Operation>
  Error post_and_wait(Operation operation) noexcept {
    struct Flag : Completion {
      bool completed = false;
    } flag;
    flag.fn = [](Completion& self) noexcept { static_cast<Flag&>(self).completed = true; };
    Post post = Post::again;
    while ((post = operation(static_cast<Completion&>(flag))) == Post::again) context_->progress();
    while (post == Post::queued && !flag.completed) context_->progress();
    return flag.error;
  }

  [[nodiscard]] std::uint64_t remote_address() const noexcept { return remote_address_; }
  [[nodiscard]] const MemoryHandle& remote_key() const noexcept { return remote_key_; }
  [[nodiscard]] std::byte* local() noexcept { return memory_.data(); }  ///< the own region; as large as the peer's

 private:
  Conversation() = default;
  static Result<std::unique_ptr<Conversation>> open(Pairing& pairing, const std::string& transport,
                                                    std::uint64_t region_size, const ConversationOptions& options);
  void respond();
  void stop();
  void on_echo(btl::Delivery& delivery) noexcept;
  void on_stream(btl::Delivery& delivery) noexcept;
  void on_answer(btl::Delivery& delivery) noexcept;
  void on_stop(btl::Delivery& delivery) noexcept;
  void on_copy(btl::Delivery& delivery) noexcept;
  void on_fetch(btl::Delivery& delivery) noexcept;
  void end_fetch() noexcept;
  void answer() noexcept;

  /// The get that a kFetch message asks for; at most one is in flight.
  struct Fetch : Completion {
    Conversation* conversation = nullptr;
    std::uint64_t size = 0;
  };

  std::unique_ptr<mpool::Pool> pool_;  // of memory_
  MutableBytes memory_;
  Fetch fetch_;
  std::unique_ptr<am::Context> context_;
  am::Region region_;
  am::Endpoint* peer_ = nullptr;
  std::uint64_t remote_address_ = 0;
  MemoryHandle remote_key_;
  std::uint64_t answers_ = 0;
  bool stopped_ = false;
};

}  // namespace opal::perf
