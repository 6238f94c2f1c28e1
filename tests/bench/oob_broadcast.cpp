// SPDX-License-Identifier: Apache-2.0
// oob_broadcast [PROCESSES [RADIX [ROUNDS]]]: a tree of daemons on this host, over tcp and over links that have moved
// to the best transport, one after the other.  A round is a broadcast of the root and a fence of all behind it, as a
// launch and its confirmation are: from the send until the root knows that everybody has it.
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "opal/core/clock.hpp"
#include "runtime/daemon/tree_member.hpp"

namespace {

using namespace runtime;

struct Plan {
  unsigned count = 8;
  unsigned radix = 2;
  int rounds = 2000;
};
constexpr int kWarmUp = 300;  // rounds; links move after 16 messages
constexpr std::size_t kSizes[] = {8, 1024, 65536};
constexpr char kSecret[] = "a secret of sixteen bytes or more";

/// One daemon of the tree.
class Member final : private overlay::Client {
 public:
  Member(unsigned self, const Plan& plan, const std::string& transports)
      : self_(self), plan_(plan), loop_(event::Loop::create().value()) {
    opal::config::Store store;
    store.set("am_transports", transports);
    oob::DaemonHost hooks{.on_abort = [](int, int, const std::string&) {},
                          .say = [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); }};
    hooks.on_daemon_message = [this](opal::am::Endpoint& from, oob::Topic, ByteSpan content) {
      neighbours_.push_back(&from);
      tree_->on_frame(from, content);
    };
    hooks.on_daemon_lost = [this](opal::am::Endpoint& peer, const Error&) { tree_->on_closed(peer); };
    oob_ = oob::Daemon::open(*loop_, store, opal::Secret::from_text(kSecret).value(), "bench", 0, hooks).value();
  }
  [[nodiscard]] std::string address() const { return std::string{oob::as_text(oob_->address())}; }

  void join(std::map<overlay::Id, std::string> above) {
    overlay::Client& client = *this;
    const daemon::Patience patience{.silence = std::chrono::seconds{30}, .start = std::chrono::seconds{60}};
    tree_.emplace(*loop_, *oob_, daemon::tree_options(self_, plan_.count, plan_.radix, patience), client,
                  std::move(above));
  }
  /// Until the root ends.
  void serve() { loop_->run(); }

  /// At the root: prints a line for each size.
  void measure() {
    for (const std::size_t size : kSizes) {
      std::vector<double> us;
      for (int round = 0; round < kWarmUp + plan_.rounds; ++round) {
        const std::uint64_t begin = opal::now_ns();
        (void)tree_->send_down(overlay::IdSet{overlay::Range{1, plan_.count}}, daemon::Kind::say,
                               std::string(size, 'x'));
        tree_->arrive("round", everybody(), 0, {});
        loop_->run();
        if (round >= kWarmUp) us.push_back(static_cast<double>(opal::now_ns() - begin) / 1000);
      }
      std::sort(us.begin(), us.end());
      fmt::print("| {} | {} | {:.0f} | {:.0f} |\n", oob_->transport(*neighbours_.front()), size, us.front(),
                 us[us.size() / 2]);
      std::fflush(stdout);
    }
  }

 private:
  [[nodiscard]] overlay::IdSet everybody() const { return overlay::IdSet{overlay::Range{0, plan_.count}}; }
  void on_up(overlay::Id, std::uint16_t, ByteSpan) override {}
  void on_down(std::uint16_t, ByteSpan) override { tree_->arrive("round", everybody(), 0, {}); }
  [[nodiscard]] overlay::IdSet absent(const std::string&) const override { return {}; }
  void on_release(const overlay::Release&) override {
    if (self_ == 0) loop_->stop();
  }
  void on_lost(overlay::Id, overlay::Loss) override {}
  void on_out(const char*) override { ::_exit(0); }

  const unsigned self_;
  const Plan& plan_;
  std::unique_ptr<event::Loop> loop_;
  std::unique_ptr<oob::Daemon> oob_;
  std::optional<daemon::TreeMember> tree_;
  std::vector<opal::am::Endpoint*> neighbours_;
};

void write_text(int fd, const std::string& text) {
  const auto size = static_cast<std::uint32_t>(text.size());
  if (::write(fd, &size, sizeof size) != sizeof size || ::write(fd, text.data(), size) != ssize_t{size}) std::abort();
}

std::string read_text(int fd) {
  std::uint32_t size = 0;
  if (::recv(fd, &size, sizeof size, MSG_WAITALL) != sizeof size) std::abort();
  std::string text(size, '\0');
  if (::recv(fd, text.data(), size, MSG_WAITALL) != ssize_t{size}) std::abort();
  return text;
}

/// A member's process: tells its address, hears its ancestors', and serves.
[[noreturn]] void run_member(unsigned self, const Plan& plan, const std::string& transports, int socket) {
  Member member{self, plan, transports};
  write_text(socket, member.address());
  std::map<overlay::Id, std::string> above;
  const overlay::Tree tree{plan.count, plan.radix};
  for (overlay::Id id = self; id != 0;) {
    id = tree.parent(id);
    above[id] = read_text(socket);
  }
  member.join(std::move(above));
  member.serve();
  ::_exit(0);
}

void run_tree(const Plan& plan, const std::string& transports) {
  std::vector<int> sockets{-1};
  std::vector<pid_t> children;
  for (unsigned self = 1; self < plan.count; ++self) {
    int pair[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) std::abort();
    const pid_t child = ::fork();
    if (child == 0) run_member(self, plan, transports, pair[1]);
    children.push_back(child);
    ::close(pair[1]);
    sockets.push_back(pair[0]);
  }
  {
    Member root{0, plan, transports};
    std::vector<std::string> addresses{root.address()};
    for (unsigned id = 1; id < plan.count; ++id) addresses.push_back(read_text(sockets[id]));
    root.join({});
    const overlay::Tree tree{plan.count, plan.radix};
    for (unsigned id = 1; id < plan.count; ++id) {
      for (overlay::Id above = id; above != 0;) {
        above = tree.parent(above);
        write_text(sockets[id], addresses[above]);
      }
    }
    root.measure();
    for (const pid_t child : children) ::kill(child, SIGKILL);
  }
  for (const pid_t child : children) ::waitpid(child, nullptr, 0);
  for (unsigned id = 1; id < plan.count; ++id) ::close(sockets[id]);
}

}  // namespace

int main(int argc, char** argv) {
  Plan plan;
  if (argc > 1) plan.count = static_cast<unsigned>(std::max(2, std::atoi(argv[1])));
  if (argc > 2) plan.radix = static_cast<unsigned>(std::max(1, std::atoi(argv[2])));
  if (argc > 3) plan.rounds = std::max(1, std::atoi(argv[3]));
  fmt::print("{} daemons, radix {}, {} rounds\n\n| over | bytes | least us | median us |\n|---|---|---|---|\n",
             plan.count, plan.radix, plan.rounds);
  std::fflush(stdout);
  for (const char* transports : {"tcp", "", "tcp", ""}) run_tree(plan, transports);
  return 0;
}
