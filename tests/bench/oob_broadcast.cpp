// SPDX-License-Identifier: Apache-2.0
// oob_broadcast [PROCESSES [RADIX [ROUNDS [TRANSPORTS]]]]: two trees of daemons on this host, one over tcp and one over
// links that have moved to the best transport, measured by turns.  A round is a broadcast of the root and a fence of
// all behind it, as a launch and its confirmation are: from the send until the root knows that all have it. With
// TRANSPORTS (a value of am_transports) there is one tree, for counting its system calls.
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <vector>

#include "opal/core/clock.hpp"
#include "runtime/daemon/tree/tree_member.hpp"

namespace {

using namespace runtime;

struct Plan {
  unsigned count = 8;
  unsigned radix = 2;
  int rounds = 1000;
};
constexpr int kWarmUp = 100;  // rounds; links move after 16 messages
constexpr int kTurn = 25;     // rounds, then the other tree
constexpr std::size_t kSizes[] = {64, 1024, 65536, 1U << 20};
constexpr char kSecret[] = "a secret of sixteen bytes or more";

/// One daemon of the tree.
class Member final : private daemon::TreeUser {
 public:
  Member(unsigned self, const Plan& plan, const std::string& transports)
      : self_(self), plan_(plan), loop_(event::Loop::create().value()) {
    opal::config::Store store;
    store.set("am_transports", transports);
    oob::DaemonHost hooks{.say = [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); }};
    hooks.on_message = [this](opal::am::Endpoint& from, oob::Topic, std::string content) {
      neighbours_.push_back(&from);
      tree_->on_frame(from, std::move(content));
    };
    hooks.on_lost = [this](opal::am::Endpoint& peer, const Error&) { tree_->on_closed(peer); };
    oob_ = oob::Daemon::open(*loop_, store, opal::Secret::from_text(kSecret).value(), hooks).value();
  }
  [[nodiscard]] std::string address() const { return std::string{oob::as_text(oob_->address())}; }

  void join(std::map<overlay::Id, std::string> above) {
    daemon::TreeUser& user = *this;
    const daemon::Timeouts timeouts{.silence = std::chrono::seconds{30}, .start = std::chrono::seconds{60}};
    tree_.emplace(*loop_, *oob_, daemon::tree_options(self_, plan_.count, plan_.radix, timeouts), user,
                  std::move(above));
  }
  /// Until the root ends.
  void serve() { loop_->run(); }

  /// At the root: microseconds of each round.
  std::vector<double> measure(std::size_t size, int rounds) {
    std::vector<double> us;
    for (int round = 0; round < rounds; ++round) {
      const std::uint64_t begin = opal::now_ns();
      (void)tree_->send(overlay::IdSet{overlay::Range{1, plan_.count}}, daemon::kKind<daemon::Input>,
                        std::string(size, 'x'));
      meet();
      loop_->run();
      us.push_back(static_cast<double>(opal::now_ns() - begin) / 1000);
    }
    return us;
  }
  [[nodiscard]] std::string_view transport() const { return oob_->transport(*neighbours_.front()); }

 private:
  void meet() {
    std::vector<std::uint32_t> all(plan_.count);
    std::iota(all.begin(), all.end(), 0U);
    tree_->fence("round", all, 0, {}, [this](int, const std::string&) {
      if (self_ == 0) loop_->stop();
    });
  }
  void on_message(overlay::Id, daemon::Kind, ByteSpan) override { meet(); }
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

/// A tree whose root is in this process.  All members are forked before any root is made: a root may have threads.
class Tree {
 public:
  Tree(const Plan& plan, std::string transports) : plan_(plan), transports_(std::move(transports)) {
    for (unsigned self = 1; self < plan.count; ++self) {
      int pair[2];
      if (::socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) std::abort();
      const pid_t child = ::fork();
      if (child == 0) run_member(self, plan, transports_, pair[1]);
      children_.push_back(child);
      ::close(pair[1]);
      sockets_.push_back(pair[0]);
    }
  }
  ~Tree() {
    for (const pid_t child : children_) ::kill(child, SIGKILL);
    for (const pid_t child : children_) ::waitpid(child, nullptr, 0);
    for (unsigned id = 1; id < plan_.count; ++id) ::close(sockets_[id]);
  }
  Tree(const Tree&) = delete;
  Tree& operator=(const Tree&) = delete;

  void connect() {
    root_.emplace(0U, plan_, transports_);
    std::vector<std::string> addresses{root_->address()};
    for (unsigned id = 1; id < plan_.count; ++id) addresses.push_back(read_text(sockets_[id]));
    root_->join({});
    const overlay::Tree tree{plan_.count, plan_.radix};
    for (unsigned id = 1; id < plan_.count; ++id) {
      for (overlay::Id above = id; above != 0;) {
        above = tree.parent(above);
        write_text(sockets_[id], addresses[above]);
      }
    }
  }
  Member& root() { return *root_; }

 private:
  const Plan& plan_;
  const std::string transports_;
  std::vector<int> sockets_{-1};
  std::vector<pid_t> children_;
  std::optional<Member> root_;
};

double median(std::vector<double>& us) {
  std::sort(us.begin(), us.end());
  return us[us.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  Plan plan;
  if (argc > 1) plan.count = static_cast<unsigned>(std::max(2, std::atoi(argv[1])));
  if (argc > 2) plan.radix = static_cast<unsigned>(std::max(1, std::atoi(argv[2])));
  if (argc > 3) plan.rounds = std::max(1, std::atoi(argv[3]));
  std::vector<std::string> transports{"tcp", ""};
  if (argc > 4) transports = {argv[4]};
  std::vector<std::unique_ptr<Tree>> trees;
  for (const std::string& each : transports) trees.push_back(std::make_unique<Tree>(plan, each));
  for (const auto& tree : trees) tree->connect();
  fmt::print(
      "{} daemons, radix {}, {} rounds\n\n| bytes | over | least us | median us | of the first |\n"
      "|---|---|---|---|---|\n",
      plan.count, plan.radix, plan.rounds);
  for (const std::size_t size : kSizes) {
    std::vector<std::vector<double>> us(trees.size());
    for (const auto& tree : trees) (void)tree->root().measure(size, kWarmUp);
    for (int round = 0; round < plan.rounds; round += kTurn) {
      for (std::size_t i = 0; i < trees.size(); ++i) {
        const std::vector<double> turn = trees[i]->root().measure(size, kTurn);
        us[i].insert(us[i].end(), turn.begin(), turn.end());
      }
    }
    for (std::size_t i = 0; i < trees.size(); ++i) {
      const double middle = median(us[i]);
      fmt::print("| {} | {} | {:.0f} | {:.0f} | {:.2f} |\n", size, trees[i]->root().transport(), us[i].front(), middle,
                 middle / median(us[0]));
    }
    std::fflush(stdout);
  }
  return 0;
}
