// SPDX-License-Identifier: Apache-2.0
// tests/runtime/launched_job.hpp — runs the real opalrun as a child, gathers what it prints, and looks for what it
// leaves behind: every process of the job carries a variable that only this job has, and TMPDIR is a directory of its
// own.
#pragma once
#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "opal/core/system/fd.hpp"

namespace runtime::test {

struct Outcome {
  int status = -1;  ///< exit status; 128 + signal if opalrun itself was killed
  std::string out;
  std::string err;
};

class LaunchedJob {
 public:
  /// Starts `opalrun arguments...`; `input` (may be empty) is its stdin;
  /// `prefix` are words before the command, which must become opalrun by exec.
  explicit LaunchedJob(const std::vector<std::string>& arguments, const std::string& input = {},
                       const std::vector<std::string>& prefix = {});
  ~LaunchedJob();
  LaunchedJob(const LaunchedJob&) = delete;
  LaunchedJob& operator=(const LaunchedJob&) = delete;

  [[nodiscard]] pid_t pid() const noexcept { return pid_; }

  /// What is printed on stdout goes to `consumer` from now on, and is not kept.
  void consume(std::function<void(std::string_view)> consumer) { consumer_ = std::move(consumer); }

  /// Reads the outputs to their ends and waits for opalrun; fails the test when that takes too long.
  Outcome wait();

  /// Reads until `text` was printed on stdout; false after a deadline or at the end.
  bool wait_for_output(const std::string& text);

  /// What it has printed on stdout so far, as far as that can be had without waiting.
  const std::string& output();

  /// Living processes (zombies are not counted) that were started for this job, opalrun and its process guard included.
  [[nodiscard]] std::vector<pid_t> processes() const;

  /// Waits until at least so many processes of the job run; false after a deadline.
  [[nodiscard]] bool wait_for_processes(int count) const;

  /// The process guard; waits for it.  0 after a deadline.
  [[nodiscard]] pid_t guard() const;

  /// Waits until no process and no file of the job is left; a description of what is, or "".
  [[nodiscard]] std::string leftovers() const;

  /// Its TMPDIR.
  [[nodiscard]] const std::filesystem::path& directory() const noexcept { return directory_; }

 private:
  bool read_some(int timeout_ms);
  std::string mark_;
  std::filesystem::path directory_;
  pid_t pid_ = 0;
  opal::Fd out_;
  opal::Fd err_;
  Outcome outcome_;
  std::function<void(std::string_view)> consumer_;  // of stdout, if any
  std::vector<std::string> shared_memory_before_;
};

/// Runs a job to its end.
Outcome run_job(const std::vector<std::string>& arguments, const std::string& input = {});

/// Evaluates `condition` until it is true; false after a deadline.
template <class Condition>
bool eventually(Condition condition, std::chrono::seconds deadline = std::chrono::seconds{20});

/// The path of a helper program built for these tests.
std::string helper(const std::string& name);

/// The lines of `text`, without their newlines.
std::vector<std::string> lines_of(const std::string& text);

void sleep_briefly();

template <class Condition>
bool eventually(Condition condition, std::chrono::seconds deadline) {
  const auto end = std::chrono::steady_clock::now() + deadline;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    sleep_briefly();
  }
  return true;
}

}  // namespace runtime::test
