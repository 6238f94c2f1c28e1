// SPDX-License-Identifier: Apache-2.0
#include "opal/core/log.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "opal/core/config/core_config.hpp"
#include "opal/core/config/store.hpp"
#include "opal/core/environment.hpp"
#include "opal/core/system/fd.hpp"

namespace opal::log {

/// An argument that tells whether it was ever formatted.
struct Counted {
  int* formatted;
};

}  // namespace opal::log

template <>
struct fmt::formatter<opal::log::Counted> {
  constexpr auto parse(format_parse_context& context) { return context.begin(); }
  template <class Context>
  auto format(const opal::log::Counted& counted, Context& context) const {
    ++*counted.formatted;
    return context.out();
  }
};

namespace opal::log {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class Log : public ::testing::Test {
 protected:
  void SetUp() override {
    before_ = level();
    set_sink([](void* user, const Message& message) noexcept { static_cast<Log*>(user)->take(message); }, this);
  }
  void TearDown() override {
    set_sink(nullptr, nullptr);
    set_level(before_);
  }
  void take(const Message& message) {
    said_.push_back(std::string{name(message.level)} + ' ' + std::string{message.component} + ": " +
                    std::string{message.text});
  }
  std::vector<std::string> said_;

 private:
  Level before_ = Level::warn;
};

TEST_F(Log, ShowsMessagesUpToItsLevel) {
  set_level(Level::info);
  error("a", "one {}", 1);
  warn("b", "two");
  info("c", "{}", "three");
  debug("d", "four");
  EXPECT_THAT(said_, ElementsAre("error a: one 1", "warn b: two", "info c: three"));
  set_level(Level::error);
  warn("b", "five");
  EXPECT_EQ(said_.size(), 3u);
}

TEST_F(Log, DoesNotFormatWhatIsNotShown) {
  set_level(Level::warn);
  int formatted = 0;
  info("a", "{}", Counted{&formatted});
  once(Level::debug, "not shown", "a", "{}", Counted{&formatted});
  EXPECT_EQ(formatted, 0);
  warn("a", "{}", Counted{&formatted});
  EXPECT_EQ(formatted, 1);
}

TEST_F(Log, SaysAMessageWithAKeyOnce) {
  for (int i = 0; i < 3; ++i) once(Level::warn, "one key", "a", "try {}", i);
  once(Level::warn, "another key", "a", "else");
  EXPECT_THAT(said_, ElementsAre("warn a: try 0", "warn a: else"));
}

TEST_F(Log, AMessageThatWasNotShownDoesNotUseUpItsKey) {
  set_level(Level::error);
  once(Level::warn, "kept key", "a", "hidden");
  set_level(Level::warn);
  once(Level::warn, "kept key", "a", "shown");
  EXPECT_THAT(said_, ElementsAre("warn a: shown"));
}

TEST_F(Log, AMessageStaysOneLineWhateverIsInIt) {
  warn("a", "{}", "two\nlines\r\n");
  EXPECT_THAT(said_, ElementsAre("warn a: two lines  "));
}

TEST_F(Log, WritesToStderrWithHostAndProcessWhenNobodyTakesMessages) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const Fd reader{ends[0]};
  const Fd saved{::dup(STDERR_FILENO)};
  ::dup2(ends[1], STDERR_FILENO);
  ::close(ends[1]);
  set_sink(nullptr, nullptr);
  error("btl.sm", "cannot {}", "open");
  ::dup2(saved.get(), STDERR_FILENO);

  std::array<char, 512> buffer{};
  const ssize_t size = ::read(reader.get(), buffer.data(), buffer.size());
  ASSERT_GT(size, 0);
  EXPECT_EQ(std::string(buffer.data(), static_cast<std::size_t>(size)),
            "opal[" + host_name() + ":" + std::to_string(::getpid()) + "] error btl.sm: cannot open\n");
}

TEST_F(Log, LinesOfManyThreadsArriveWhole) {
  constexpr int kThreads = 4;
  constexpr int kMessages = 200;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < kMessages; ++i) warn("thread", "message");
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(said_.size(), static_cast<std::size_t>(kThreads * kMessages));
  for (const std::string& line : said_) ASSERT_EQ(line, "warn thread: message");
}

TEST_F(Log, AForkedChildLogsWhileAThreadOfItsParentIsInTheLog) {
  set_sink(
      [](void*, const Message&) noexcept {
        const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds{200};
        while (std::chrono::steady_clock::now() < end) {
        }
      },
      nullptr);
  std::atomic<bool> stop{false};
  std::thread logs{[&] {
    while (!stop) {
      warn("thread", "message");
      std::this_thread::sleep_for(std::chrono::microseconds{50});  // fork() waits for the log, too
    }
  }};
  for (int i = 0; i < 20; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(20);
      warn("child", "message");
      ::_exit(0);
    }
    int status = -1;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0) << "the child waits for a lock that no thread of it holds";
  }
  stop = true;
  logs.join();
}

TEST_F(Log, LevelsHaveNamesThatAreReadBack) {
  for (const Level level : {Level::error, Level::warn, Level::info, Level::debug}) {
    EXPECT_EQ(level_from_name(name(level)), level);
  }
  EXPECT_EQ(level_from_name("loud"), std::nullopt);
}

TEST_F(Log, TheConfigurationSetsTheLevelWhenItSaysOne) {
  config::Store store;
  set_level(Level::info);
  EXPECT_TRUE(config::apply_to_process(store));
  EXPECT_EQ(level(), Level::info);
  store.set("log", "debug");
  EXPECT_TRUE(config::apply_to_process(store));
  EXPECT_EQ(level(), Level::debug);
  store.set("log", "loud");
  EXPECT_FALSE(config::apply_to_process(store));
  EXPECT_EQ(level(), Level::debug);
}

}  // namespace
}  // namespace opal::log
