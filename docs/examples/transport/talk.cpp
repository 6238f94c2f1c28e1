// SPDX-License-Identifier: Apache-2.0
// Two processes that talk over the transport of unix_transport.cpp: messages both ways, a get of the other's memory,
// and the report of the end.  The Context takes the transport from a Registry of the program.
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <numeric>
#include <vector>

#include "opal/am/context.hpp"
#include "opal/core/system/fd.hpp"
#include "unix_transport.hpp"

namespace {

using namespace std::chrono_literals;
constexpr opal::Tag kGreeting = opal::kUserTags.first;
constexpr std::size_t kWords = 100'000;

struct Process final : opal::am::Observer {
  bool open() {
    registry.add(example::kUnixComponent);
    opal::config::Store store = opal::config::Store::from_environment();
    store.set("am_transports", "unix");
    auto opened = opal::am::Context::open(store, {.observer = this, .registry = &registry});
    if (!opened) return std::fprintf(stderr, "talk: %s\n", to_string(opened.error()).c_str()), false;
    context = std::move(*opened);
    return context->set_handler(kGreeting, opal::btl::bind<&Process::on_greeting>(*this, "greeting")).has_value();
  }
  void on_greeting(opal::btl::Delivery& delivery) noexcept {
    from = &opal::am::sender(delivery);
    message.assign(delivery.data.begin(), delivery.data.end());
  }
  void on_peer_failed(opal::am::Endpoint& /*peer*/, const opal::Error& why) noexcept override {
    ended = true;
    std::printf("talk: the peer has ended: %s\n", to_string(why).c_str());
  }
  bool wait_for(bool (*condition)(const Process&)) {
    return context->wait_until([&] { return condition(*this); }, 20s);
  }

  opal::btl::Registry registry;  // outlives the Context
  std::unique_ptr<opal::am::Context> context;
  opal::am::Endpoint* from = nullptr;
  std::vector<std::byte> message;
  bool ended = false;
};

struct Greeting {
  std::uint64_t address;
};

/// Connects, exposes memory, and waits until the other process has read it and says so.
int connector(const opal::Fd& pipe) {
  Process self;
  std::vector<std::byte> address(256);
  const ssize_t got = ::recv(pipe.get(), address.data(), address.size(), 0);
  if (got <= 0 || !self.open()) return 1;
  const auto peer = self.context->connect(opal::ByteSpan{address}.first(static_cast<std::size_t>(got)));
  if (!peer) return std::fprintf(stderr, "talk: %s\n", to_string(peer.error()).c_str()), 1;
  std::vector<std::uint64_t> words(kWords);
  std::iota(words.begin(), words.end(), 1);
  const auto region = self.context->register_memory(words.data(), kWords * sizeof words[0], opal::Rights::remote_read);
  if (!region) return 1;
  const Greeting greeting{reinterpret_cast<std::uint64_t>(words.data())};
  if ((*peer)->send_or_queue(kGreeting, opal::bytes_of(greeting), region->key()) != opal::Post::done) return 1;
  return self.wait_for([](const Process& process) { return process.from != nullptr; }) ? 0 : 1;
}

/// Waits for the greeting, reads the memory that it names, answers, and waits for the end of the peer.
int listener(const opal::Fd& pipe) {
  Process self;
  if (!self.open()) return 1;
  const opal::ByteSpan address = self.context->address();
  (void)::send(pipe.get(), address.data(), address.size(), MSG_NOSIGNAL);
  if (!self.wait_for([](const Process& process) { return process.from != nullptr; })) return 1;
  Greeting greeting{};
  if (!opal::read_object(self.message, greeting)) return 1;
  const auto key = self.from->unpack_key(opal::ByteSpan{self.message}.subspan(sizeof greeting));
  if (!key) return 1;
  std::vector<std::uint64_t> words(kWords);
  struct Done : opal::Completion {
    bool called = false;
  } done;
  done.fn = [](opal::Completion& completion) noexcept { static_cast<Done&>(completion).called = true; };
  opal::Post post = opal::Post::again;
  const auto posted = [&] {
    post = self.from->get(words.data(), greeting.address, *key, kWords * sizeof words[0], done);
    return post != opal::Post::again;
  };
  if (!self.context->wait_until(posted, 20s) || post == opal::Post::failed) return 1;
  if (post == opal::Post::queued && !self.context->wait_until([&] { return done.called; }, 20s)) return 1;
  const std::uint64_t sum = std::accumulate(words.begin(), words.end(), std::uint64_t{0});
  std::printf("talk: the sum of the peer's words is %llu\n", static_cast<unsigned long long>(sum));
  if (!done.ok() || sum != kWords * (kWords + 1) / 2) return 1;
  if (self.from->send_or_queue(kGreeting, {}, {}) != opal::Post::done) return 1;
  return self.wait_for([](const Process& process) { return process.ended; }) ? 0 : 1;
}

}  // namespace

int main() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return 1;
  opal::Fd ours{ends[0]};
  opal::Fd theirs{ends[1]};
  const pid_t child = ::fork();
  if (child == 0) return connector(theirs);
  const int result = listener(ours);
  int status = -1;
  ::waitpid(child, &status, 0);
  return result != 0 || status != 0 ? 1 : 0;
}
