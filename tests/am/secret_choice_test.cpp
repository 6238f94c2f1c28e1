// SPDX-License-Identifier: Apache-2.0
// Without a launcher, too, a process that does not know the secret gets no message handled and reaches no memory.
#include "opal/am/bootstrap/secret_choice.hpp"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/am/pair.hpp"
#include "tests/harness/in_child.hpp"
#include "tests/harness/program.hpp"

namespace opal::test {
namespace {

using ::testing::HasSubstr;
constexpr auto kLong = std::chrono::seconds{20};

/// The environment of a user whose home is `folder`; put back at the end.
class Home {
 public:
  explicit Home(const char* folder) {
    for (const char* const name : kNames) {
      const char* const value = std::getenv(name);
      before_.emplace_back(value != nullptr, value != nullptr ? value : "");
      ::unsetenv(name);
    }
    if (folder != nullptr) ::setenv("HOME", folder, 1);
  }
  ~Home() {
    for (std::size_t i = 0; i < std::size(kNames); ++i) {
      if (before_[i].first) {
        ::setenv(kNames[i], before_[i].second.c_str(), 1);
      } else {
        ::unsetenv(kNames[i]);
      }
    }
  }

 private:
  static constexpr const char* kNames[] = {"HOME", "XDG_CONFIG_HOME"};
  std::vector<std::pair<bool, std::string>> before_;
};

mode_t mode_of(const std::string& path) {
  struct stat about {};
  return ::stat(path.c_str(), &about) == 0 ? about.st_mode & 07777U : 0;
}

bool same_secret(const Secret& a, const Secret& b) { return same(a.prove("test", {}), b.prove("test", {})); }

TEST(UserSecret, IsMadeAtFirstUseForThisUserAloneAndFoundAgain) {
  const Scratch scratch;
  const Home home{scratch.file("home").c_str()};
  const auto first = am::choose_secret("");
  ASSERT_TRUE(first);
  EXPECT_FALSE(first->unshared);
  EXPECT_EQ(first->source, scratch.file("home/.config/opal/secret"));
  EXPECT_EQ(mode_of(first->source), 0600U);
  EXPECT_EQ(mode_of(scratch.file("home/.config/opal")), 0700U);
  EXPECT_FALSE(same_secret(first->secret, {})) << "random";
  const auto again = am::choose_secret("");
  ASSERT_TRUE(again);
  EXPECT_TRUE(same_secret(first->secret, again->secret));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator{scratch.file("home/.config/opal")}, {}), 1);
}

TEST(UserSecret, IsOneForAllProcessesThatMakeItAtOnce) {
  constexpr int kProcesses = 16;
  const Scratch scratch;
  const Home home{scratch.file("home").c_str()};
  int results[2];
  int go[2];
  ASSERT_EQ(::pipe(results) | ::pipe(go), 0);
  std::vector<pid_t> children;
  for (int i = 0; i < kProcesses; ++i) {
    children.push_back(::fork());
    if (children.back() != 0) continue;
    ::alarm(20);
    ::close(go[1]);
    char end;
    (void)!::read(go[0], &end, 1);  // until the parent closes its end
    const auto chosen = am::choose_secret("");
    const Proof proof = chosen && !chosen->unshared ? chosen->secret.prove("test", {}) : Proof{};
    ::_exit(::write(results[1], proof.data(), proof.size()) == static_cast<ssize_t>(proof.size()) ? 0 : 1);
  }
  ::close(go[1]);
  ::close(go[0]);
  Proof first{};
  for (int i = 0; i < kProcesses; ++i) {
    Proof proof{};
    ASSERT_EQ(::read(results[0], proof.data(), proof.size()), static_cast<ssize_t>(proof.size()));
    if (i == 0) first = proof;
    EXPECT_EQ(proof, first);
  }
  EXPECT_NE(first, Proof{});
  for (const pid_t child : children) ::waitpid(child, nullptr, 0);
  ::close(results[0]);
  ::close(results[1]);
}

TEST(UserSecret, WithoutAHomeListenAndConnectToNameTheVariable) {
  const Home home{nullptr};
  Side side{"self"};  // the Context opens all the same
  const auto place = side.context->listen("127.0.0.1:0");
  ASSERT_FALSE(place);
  EXPECT_EQ(place.error().code, Errc::invalid_argument);
  EXPECT_THAT(place.error().where, HasSubstr("neither HOME nor XDG_CONFIG_HOME is set"));
  EXPECT_THAT(place.error().where, HasSubstr("am_secret_file"));
  EXPECT_FALSE(side.context->connect_to("127.0.0.1:1", std::chrono::milliseconds{1}));
}

TEST(UserSecret, WithoutAHomeContextsOfOneProcessStillMeet) {
  const Home home{nullptr};
  Side a{"tcp"};
  Side b{"tcp"};
  auto peer = a.context->connect(b.context->address());
  ASSERT_TRUE(peer);
  ASSERT_EQ((*peer)->send_or_queue(kTag, bytes_of(1), {}), Post::done);
  EXPECT_TRUE(pump([&] { return b.messages == 1; }, *a.context, *b.context));
}

TEST(UserSecret, AFolderOfAnotherUserIsLeftAsItIs) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root: a folder of another user";
  const Scratch scratch;
  std::filesystem::create_directory(scratch.file("home"));
  ASSERT_EQ(::chown(scratch.file("home").c_str(), 65534, 65534), 0);
  const Home home{scratch.file("home").c_str()};
  const auto chosen = am::choose_secret("");
  ASSERT_TRUE(chosen);
  ASSERT_TRUE(chosen->unshared);
  EXPECT_EQ(chosen->unshared->code, Errc::permission);
  EXPECT_FALSE(std::filesystem::exists(scratch.file("home/.config")));
}

TEST(UserSecret, AFileThatOthersMayReadIsNoSecret) {
  const Scratch scratch;
  const Home home{scratch.file("home").c_str()};
  ASSERT_TRUE(am::choose_secret(""));
  ASSERT_EQ(::chmod(am::user_secret_file().c_str(), 0644), 0);
  const auto chosen = am::choose_secret("");
  ASSERT_TRUE(chosen);
  ASSERT_TRUE(chosen->unshared);
  EXPECT_EQ(chosen->unshared->code, Errc::permission);
}

TEST(NoProofs, OnlyTheNameTurnsThemOff) {
  const Scratch scratch;
  const Home home{scratch.file("home").c_str()};
  const auto none = am::choose_secret("none");
  ASSERT_TRUE(none);
  EXPECT_TRUE(same_secret(none->secret, {}));
  EXPECT_FALSE(std::filesystem::exists(scratch.file("home/.config")));
  EXPECT_FALSE(am::choose_secret("./none"));
}

/// What a visitor is told, and what it is to try.
struct Target {
  std::string where;
  std::vector<std::byte> blob;
  std::vector<std::byte> key;
  std::uint64_t address = 0;
};

enum Reached : int { kListener = 1, kHandler = 2, kMemory = 4 };

/// Tries everything that an address allows, over tcp; which of it went through.
int visit(const Target& target) {
  config::Store store = config::Store::from_environment();
  store.set("am_transports", "tcp");
  const auto context = am::Context::open(store);
  if (!context) return -1;
  int reached = 0;
  if ((*context)->connect_to(target.where, kLong)) reached |= kListener;
  const auto peer = (*context)->connect(target.blob);
  if (!peer) return reached;
  const auto key = (*peer)->unpack_key(target.key);
  if (!key) return -1;
  (void)(*peer)->send_or_queue(kTag, bytes_of(1), {});
  std::uint64_t got = 0;
  Flag flag;
  Post post = Post::again;
  const auto posted = [&] {
    post = (*peer)->get(&got, target.address, *key, sizeof got, flag);
    return post != Post::again;
  };
  if (!pump(posted, **context)) return -1;
  if (post == Post::queued && !pump([&] { return flag.calls != 0; }, **context)) return -1;
  if (got != 0) reached |= kMemory;
  return reached;
}

/// As `uid`, with a home of its own and these variables; what it reached, and whether its message was handled.
int visit_as(uid_t uid, const Environment& variables, const std::string& home) {
  Side server{"tcp"};
  std::vector<std::uint64_t> memory(8, 42);
  const auto region = server.context->register_memory(memory.data(), memory.size() * 8, Rights::all);
  const auto where = server.context->listen("127.0.0.1:0");
  EXPECT_TRUE(region && where);
  const ByteSpan blob = server.context->address();
  const Target target{*where,
                      {blob.begin(), blob.end()},
                      {region->key().begin(), region->key().end()},
                      reinterpret_cast<std::uint64_t>(memory.data())};
  std::atomic<bool> over{false};
  int reached = -1;
  std::thread other{[&] {
    reached = in_child(
        [&] {
          const Home own{home.c_str()};
          for (const auto& [name, value] : variables) ::setenv(name.c_str(), value.c_str(), 1);
          if (uid != ::geteuid() && (::setgid(uid) != 0 || ::setuid(uid) != 0)) return -1;
          return visit(target);
        },
        60);
    over = true;
  }};
  EXPECT_TRUE(pump([&] { return over.load(); }, *server.context));
  other.join();
  for (int i = 0; i < 100; ++i) server.context->progress();
  return reached + (server.messages != 0 ? int{kHandler} : 0);
}

class Strangers : public ::testing::Test {
 protected:
  static constexpr uid_t kNobody = 65534;
  Strangers() : home_(scratch_.file("ours").c_str()), theirs_(scratch_.file("theirs")) {
    std::filesystem::create_directories(theirs_);
    (void)!::chmod(scratch_.file("").c_str(), 0711);
  }
  void give_away() const { ASSERT_EQ(::chown(theirs_.c_str(), kNobody, kNobody), 0); }
  Scratch scratch_;
  Home home_;
  std::string theirs_;
};

TEST_F(Strangers, AnotherUserWithTheAddressReachesNothing) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root: a process of another user";
  give_away();
  EXPECT_EQ(visit_as(kNobody, {}, theirs_), 0);
  EXPECT_EQ(visit_as(kNobody, {{"OPAL_AM_SECRET_FILE", "none"}}, theirs_), 0);
}

TEST_F(Strangers, AnotherUserWithACopyOfTheSecretIsNoStranger) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root: a process of another user";
  give_away();
  ASSERT_TRUE(am::choose_secret(""));
  const std::string copy = theirs_ + "/copy";
  std::filesystem::copy_file(am::user_secret_file(), copy);
  ASSERT_EQ(::chmod(copy.c_str(), 0600), 0);
  ASSERT_EQ(::chown(copy.c_str(), kNobody, kNobody), 0);
  EXPECT_EQ(visit_as(kNobody, {{"OPAL_AM_SECRET_FILE", copy}}, theirs_), kListener | kHandler | kMemory);
}

TEST_F(Strangers, AProcessOfThisUserWithAnotherSecretReachesNothing) {
  EXPECT_EQ(visit_as(::geteuid(), {}, theirs_), 0);
}

TEST_F(Strangers, AProcessOfThisUserFindsTheSecretByItself) {
  EXPECT_EQ(visit_as(::geteuid(), {}, scratch_.file("ours")), kListener | kHandler | kMemory);
}

}  // namespace
}  // namespace opal::test
