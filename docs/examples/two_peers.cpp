// SPDX-License-Identifier: Apache-2.0
// Two programs find each other by "host:port", exchange active messages, and put into and get from the middle of each
// other's memory.  No launcher, no MPI.
//   two_peers listen 127.0.0.1:7777      in one terminal
//   two_peers connect 127.0.0.1:7777     in another
// A third argument names a file into which the listener writes where it listens (for port 0).
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "opal/am/context.hpp"

namespace {

using opal::am::Context;
using opal::am::Endpoint;

constexpr opal::Tag kHello = opal::kUserTags.first;     // where my memory is, and its key
constexpr opal::Tag kLook = opal::kUserTags.first + 1;  // I have put something into yours
constexpr opal::Tag kBye = opal::kUserTags.first + 2;   // I have seen it

constexpr std::size_t kWords = 1 << 17;  // 1 MiB of 64-bit words
constexpr std::size_t kMiddle = kWords / 2;
constexpr std::size_t kPart = 1000;

struct Hello {
  std::uint64_t address;
};

/// One side of the conversation; both sides run the same code.
class Peer : opal::am::Observer {
 public:
  Peer() : memory_(kWords) {
    for (std::size_t i = 0; i < kWords; ++i) memory_[i] = i;
  }

  /// Opens the Context, registers handlers and memory.
  opal::Result<void> open() {
    OPAL_TRY_ASSIGN(context_, Context::open(opal::config::Store::from_environment(), {.observer = this}));
    OPAL_TRY_ASSIGN(region_,
                    context_->register_memory(memory_.data(), kWords * sizeof(std::uint64_t), opal::Rights::all));
    OPAL_TRY(context_->set_handler(kHello, opal::btl::bind<&Peer::on_hello>(*this, "hello")));
    OPAL_TRY(context_->set_handler(kLook, opal::btl::bind<&Peer::on_look>(*this, "look")));
    return context_->set_handler(kBye, opal::btl::bind<&Peer::on_bye>(*this, "bye"));
  }

  Context& context() { return *context_; }

  /// The whole conversation.  `peer` is null on the side that waits to be greeted.  False: an error, which is printed.
  bool talk(Endpoint* peer) {
    if (peer != nullptr) greet(*peer);
    if (!wait_for([&] { return remote_ != nullptr; })) return false;
    const std::string why =
        remote_->explain();  // the transport that was taken comes first, then the others and why not
    std::printf("connected by %s\n", why.substr(0, why.find('\n')).c_str());

    // Put 1000 words into the middle of the peer's megabyte: any part of what it registered may be addressed.
    std::vector<std::uint64_t> mine(kPart, 0xabcdef);
    const std::uint64_t middle = remote_address_ + kMiddle * sizeof(std::uint64_t);
    const bool put = finish([&](opal::Completion& end) {
      return remote_->put(mine.data(), middle, remote_key_, kPart * sizeof(std::uint64_t), end);
    });
    if (!put) return false;
    // Get them back, with one word on either side that must be untouched.
    std::vector<std::uint64_t> back(kPart + 2);
    const bool got = finish([&](opal::Completion& end) {
      return remote_->get(back.data(), middle - sizeof(std::uint64_t), remote_key_, back.size() * sizeof(std::uint64_t),
                          end);
    });
    if (!got) return false;
    good_ = good_ && back.front() == kMiddle - 1 && back.back() == kMiddle + kPart && back[1] == 0xabcdef &&
            back[kPart] == 0xabcdef;

    (void)remote_->send_or_queue(kLook, {}, {});
    if (!wait_for([&] { return seen_ && said_bye_; })) return false;
    std::printf("put and get of %zu words in the middle of the peer's region: %s\n", kPart, good_ ? "right" : "WRONG");
    return good_;
  }

 private:
  void greet(Endpoint& peer) {
    const Hello hello{reinterpret_cast<std::uint64_t>(memory_.data())};
    (void)peer.send_or_queue(kHello, opal::bytes_of(hello), region_.key());
    greeted_ = true;
  }

  void on_hello(opal::btl::Delivery& delivery) noexcept {
    Hello hello{};
    if (!opal::read_object(delivery.data, hello)) return;  // a peer's bytes: check before use
    Endpoint& from = opal::am::sender(delivery);
    auto key = from.unpack_key(delivery.data.subspan(sizeof hello));
    if (!key) {
      std::fprintf(stderr, "two_peers: the peer's key: %s\n", to_string(key.error()).c_str());
      failed_ = true;
      return;
    }
    remote_key_ = *key;
    remote_address_ = hello.address;
    remote_ = &from;
    if (!greeted_) greet(from);
  }

  void on_look(opal::btl::Delivery& delivery) noexcept {
    for (std::size_t i = 0; i < kPart; ++i) good_ = good_ && memory_[kMiddle + i] == 0xabcdef;
    seen_ = true;
    (void)opal::am::sender(delivery).send_or_queue(kBye, {}, {});
  }

  void on_bye(opal::btl::Delivery&) noexcept { said_bye_ = true; }

  void on_peer_failed(Endpoint&, const opal::Error& why) noexcept override {
    if (!seen_ || !said_bye_) std::fprintf(stderr, "two_peers: the peer has ended: %s\n", to_string(why).c_str());
    failed_ = true;
  }

  /// False: the peer failed before `condition` was true.
  template <class Condition>
  bool wait_for(Condition condition) {
    while (!condition() && !failed_) context_->wait(std::chrono::milliseconds{100});
    return condition();
  }

  /// A put or get, and the wait for its end, which comes with an error when the peer fails.
  template <class Operation>
  bool finish(Operation operation) {
    struct Flag : opal::Completion {
      bool ended = false;
    } flag;
    flag.fn = [](opal::Completion& self) noexcept { static_cast<Flag&>(self).ended = true; };
    opal::Post post = opal::Post::again;
    while ((post = operation(flag)) == opal::Post::again) context_->progress();
    while (post == opal::Post::queued && !flag.ended) context_->wait(std::chrono::milliseconds{100});
    if (!flag.ok()) std::fprintf(stderr, "two_peers: %s\n", to_string(flag.error).c_str());
    return flag.ok();
  }

  std::vector<std::uint64_t> memory_;
  std::unique_ptr<Context> context_;
  opal::am::Region region_;
  Endpoint* remote_ = nullptr;
  std::uint64_t remote_address_ = 0;
  opal::MemoryHandle remote_key_;
  bool greeted_ = false;
  bool seen_ = false;
  bool said_bye_ = false;
  bool failed_ = false;
  bool good_ = true;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3 || (std::strcmp(argv[1], "listen") != 0 && std::strcmp(argv[1], "connect") != 0)) {
    std::fprintf(stderr, "usage: two_peers listen HOST:PORT [FILE] | two_peers connect HOST:PORT\n");
    return 2;
  }
  Peer self;
  if (const auto opened = self.open(); !opened) {
    std::fprintf(stderr, "two_peers: %s\n", to_string(opened.error()).c_str());
    return 1;
  }

  Endpoint* peer = nullptr;
  if (std::strcmp(argv[1], "listen") == 0) {
    auto where = self.context().listen(argv[2]);
    if (!where) {
      std::fprintf(stderr, "two_peers: cannot listen at %s: %s\n", argv[2], to_string(where.error()).c_str());
      return 1;
    }
    std::printf("listening at %s\n", where->c_str());
    std::fflush(stdout);
    if (argc > 3) std::ofstream{argv[3]} << *where << '\n';
  } else {
    auto found = self.context().connect_to(argv[2], std::chrono::seconds{10});
    if (!found) {
      std::fprintf(stderr, "two_peers: no process at %s: %s\n", argv[2], to_string(found.error()).c_str());
      return 1;
    }
    peer = *found;
  }
  return self.talk(peer) ? 0 : 1;
}
