// SPDX-License-Identifier: Apache-2.0
// tests/harness/program.hpp — another program run as it would be by hand: own process, own environment, its output in
// a file.  Killed at the end of its scope if it still runs.
#pragma once
#include <chrono>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tests/harness/child.hpp"

namespace opal::test {

using Environment = std::vector<std::pair<std::string, std::string>>;

/// A directory of its own, removed at the end.
class Scratch {
 public:
  Scratch();
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  [[nodiscard]] std::string path() const { return path_; }
  [[nodiscard]] std::string file(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

class Program {
 public:
  /// Starts `command` with `environment` added to ours; stdout and stderr go to the file `log`.
  Program(const std::vector<std::string>& command, std::string log, const Environment& environment = {});
  /// Its exit status; 128 + signal; -1 if it did not end in time.
  int wait(std::chrono::seconds timeout = std::chrono::seconds{60});
  [[nodiscard]] std::string output() const;

 private:
  std::string log_;
  Child child_;
};

/// The first line of a file that another process is about to write; empty after 20 s without one.
std::string wait_for_line(const std::string& file);

}  // namespace opal::test
