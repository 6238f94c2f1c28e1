// SPDX-License-Identifier: Apache-2.0
// tests/model/explorer.hpp — runs a small concurrent program in every way that it can go.
// The program is the real code, instantiated over the atomics of tests/model/memory.hpp.  Its threads are fibers;
// before each atomic operation the explorer chooses which goes on, and what a load sees where the memory order leaves a
// choice. One run per combination of choices, depth first; a state that has been seen (same memory, same history of
// every thread) is not followed twice.  A `mortal` thread may also end for good before any of its operations, as a
// killed process does.
//
// Memory model: C++'s release/acquire with views (as "promising semantics" without promises).  Every atomic keeps all
// values written to it; a load sees any of them that is not older than what its thread knows; an acquiring load that
// reads a releasing store learns what the writer knew.  Read-modify-writes read the newest value.  Plain accesses are
// checked for races by vector clocks.  Not modelled: loads that see values written later (load buffering).
// Threads: one exploration at a time in a process.
#pragma once
#include <ucontext.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

namespace opal::test::model {

inline constexpr std::size_t kThreads = 4;     ///< with the one that sets up and looks at the end
inline constexpr std::size_t kLocations = 96;  ///< words of modelled memory

/// What a thread knows: which writes it can no longer miss, and which operations of others lie before its next.
struct View {
  std::array<std::uint8_t, kLocations> seen{};
  std::array<std::uint16_t, kThreads> clock{};
  void join(const View& other) noexcept;
  [[nodiscard]] std::uint64_t hash() const noexcept;
};

class Explorer {
 public:
  /// One program: made anew for every run, threads registered by its constructor.
  struct Program {
    virtual ~Program() = default;
    virtual void finish() {}  ///< after all threads have ended: looks at what is there
  };

  struct Outcome {
    std::string failure;  ///< empty: no run failed; else what, and every operation of that run
    std::uint64_t runs = 0;
    std::uint64_t states = 0;
    bool exhausted = false;  ///< every way has been gone
  };

  struct Options {
    std::uint64_t most_runs = 5'000'000;
    bool weak_releases = false;  ///< treats release as relaxed: what the program would be without its barriers
    bool no_fences = false;      ///< fence_everybody() does nothing
  };

  [[nodiscard]] static Outcome explore(const std::function<std::unique_ptr<Program>()>& make);
  [[nodiscard]] static Outcome explore(const std::function<std::unique_ptr<Program>()>& make, const Options& options);

  /// The exploration that is going on.
  static Explorer& current() noexcept;

  // For programs.
  void add_thread(std::function<void()> body, bool mortal = false);
  /// Ends the exploration with this failure unless `holds`.
  void check(bool holds, const char* what);
  /// A full fence in every thread.
  void fence_everybody();
  /// A choice of the program's own: 0 .. count-1.
  std::uint32_t choose(std::uint32_t count);

  // For the atomics.
  std::uint32_t new_location(std::uint64_t value);
  std::uint64_t load(std::uint32_t location, std::memory_order order);
  void store(std::uint32_t location, std::uint64_t value, std::memory_order order);
  bool compare_exchange(std::uint32_t location, std::uint64_t& expected, std::uint64_t desired,
                        std::memory_order success, std::memory_order failure);
  std::uint64_t fetch_or(std::uint32_t location, std::uint64_t bits, std::memory_order order);
  std::uint64_t exchange(std::uint32_t location, std::uint64_t value, std::memory_order order);
  std::uint64_t plain_read(std::uint32_t location);
  void plain_write(std::uint32_t location, std::uint64_t value);

 private:
  struct Written {
    std::uint64_t value;
    View knowledge;  // given to the thread that acquires it; empty when the store did not release
    bool releases;
  };
  struct Location {
    std::vector<Written> writes;
    std::array<std::uint16_t, kThreads> accessed{};  // each thread's clock at its last access
    std::uint16_t plain_written_at = 0;
    std::uint8_t plain_writer = 0;
    std::uint64_t hash = 0;
  };
  struct Thread {
    ucontext_t context{};
    std::unique_ptr<std::byte[]> stack;
    std::function<void()> body;
    View view;
    std::uint64_t history = 0;
    bool mortal = false;
    bool over = true;
  };
  struct Choice {
    std::uint32_t taken;
    std::uint32_t count;
  };

  explicit Explorer(const Options& options) : options_(options) {}
  void run(const std::function<std::unique_ptr<Program>()>& make);
  bool next_path();
  static void enter() noexcept;
  void schedule();
  void go_on(std::uint32_t thread);
  void stop_run();
  void begin(std::uint32_t location, bool plain_write);
  std::uint32_t pick(std::uint32_t count);
  void remember(std::uint64_t what) noexcept;
  void trace(const char* what, std::uint32_t location, std::uint64_t value);
  void append(std::uint32_t location, std::uint64_t value, std::memory_order order, bool continues_release);
  std::uint64_t read(std::uint32_t location, std::size_t which, std::memory_order order);
  std::uint64_t modify(std::uint32_t location, std::uint64_t value, std::memory_order order);
  [[nodiscard]] std::uint64_t state() const noexcept;

  const Options options_;
  Outcome outcome_;
  std::vector<Choice> path_;
  std::size_t depth_ = 0;
  std::unordered_set<std::uint64_t> seen_;
  std::vector<Location> locations_;
  std::vector<Thread> threads_;  // 0 is the program's own
  std::uint32_t running_ = 0;
  bool stopped_ = false;  // this run has nothing more to show
  bool killed_ = false;
  bool setting_up_ = false;
  bool tracing_ = false;  // the failed run once more, writing down what it does
  std::string trace_;
};

}  // namespace opal::test::model
