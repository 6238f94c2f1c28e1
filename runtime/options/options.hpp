// SPDX-License-Identifier: Apache-2.0
// runtime/options/options.hpp — the launcher's command line as a value.  What it leaves open is taken from the
// environment and the configuration files.
#pragma once
#include <sys/types.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "opal/core/config/store.hpp"

namespace runtime::daemon {

/// How long launcher and daemons wait for each other.
struct Timeouts {
  std::chrono::milliseconds silence{};  ///< without a message, before a daemon or the launcher counts as out of reach
  std::chrono::milliseconds start{};    ///< from the start of a daemon until it must have joined

  /// From the Join of a daemon until it must have its place in the tree; it may wait for daemons above it.
  [[nodiscard]] std::chrono::milliseconds place() const noexcept { return start + silence; }
};

inline double seconds(std::chrono::milliseconds time) { return static_cast<double>(time.count()) / 1000; }

}  // namespace runtime::daemon

namespace runtime::launch {

/// Parts of a host, from fine to coarse.
enum class Level : std::uint8_t { hwthread, core, l2cache, l3cache, numa, package };
inline constexpr std::size_t kLevels = 6;
/// The words of --map-by and --bind-to for each Level; "socket" is a synonym of "package".
inline constexpr std::array<std::string_view, kLevels> kLevelNames{"hwthread", "core", "l2cache",
                                                                   "l3cache",  "numa", "package"};

/// What each rank is bound to.  The value objects + L means an object of Level L; by() makes it.
enum class Bind : std::uint8_t { automatic, none, objects };

/// How ranks are assigned to hosts, and within a host.  The value objects + L means Level L; by() makes it.
enum class Map : std::uint8_t {
  slot,     ///< a host is filled before the next one gets any
  node,     ///< one rank to each host in turn
  objects,  ///< hosts as by slot; within a host ranks go round the objects of the level
};

template <class Choice>
constexpr Choice by(Level level) noexcept {
  return static_cast<Choice>(static_cast<std::uint8_t>(Choice::objects) + static_cast<std::uint8_t>(level));
}
/// The Level in a Bind or Map; nothing when there is none.
template <class Choice>
constexpr std::optional<Level> level_of(Choice choice) noexcept {
  const auto number = static_cast<std::size_t>(choice) - static_cast<std::size_t>(Choice::objects);
  if (choice < Choice::objects || number >= kLevels) return {};
  return static_cast<Level>(number);
}

/// Which ranks get the launcher's stdin; the others get /dev/null.
struct InputTarget {
  enum class Kind : std::uint8_t { rank, all, none };
  Kind kind = Kind::rank;
  unsigned rank = 0;  ///< with Kind::rank
  /// True when the rank `asked` gets stdin.
  [[nodiscard]] bool reaches(unsigned asked) const noexcept {
    return kind == Kind::all || (kind == Kind::rank && rank == asked);
  }
};

struct Options {
  std::optional<unsigned> ranks;                                 ///< nothing: one per slot of the hosts
  std::vector<std::string> hosts;                                ///< "name" or "name:slots", as written
  std::string host_file;                                         ///< empty: none
  std::vector<std::pair<std::string, std::string>> settings;     ///< --set name=value
  std::vector<std::pair<std::string, std::string>> environment;  ///< -x NAME=VALUE
  Bind bind = Bind::automatic;
  Map map = Map::slot;
  bool display_map = false;
  bool report_bindings = false;
  std::vector<std::string> launch_agent;  ///< words of the command that starts daemons; empty: ssh, or srun
  daemon::Timeouts timeouts{{}, std::chrono::seconds{60}};
  unsigned agents = 64;     ///< most launch agents whose daemon has not joined
  unsigned radix = 16;      ///< most children of each member in the tree of daemons
  bool continuous = false;  ///< when ranks or hosts fail, the other ranks run on
  bool oversubscribe = false;
  bool tag_output = false;
  bool timestamp_output = false;
  bool merge_stderr = false;     ///< the stderr of ranks goes to the target of their stdout
  std::string output_directory;  ///< for one file per rank and channel; empty: the launcher's own stdout and stderr
  InputTarget input;
  std::string working_directory;  ///< empty: the launcher's
  std::optional<std::chrono::milliseconds> timeout;
  std::chrono::milliseconds grace{2000};  ///< from SIGTERM to SIGKILL; Job::decide() uses it too
  pid_t quiesce = 0;                      ///< not 0: quiesce the job of this launcher instead of starting one
  pid_t resume = 0;                       ///< not 0: resume the job of this launcher instead of starting one
  std::vector<std::string> warnings;      ///< to print before the job starts
  std::vector<std::string> command;       ///< the program and its arguments
};

/// Either options, or the text to print and the status to exit with (help, version, an error).
struct ParsedCommandLine {
  std::optional<Options> options;
  std::string text;
  int status = 0;
};

/// Parses `arguments` (argv without argv[0]).  `name`: how the launcher was called (opalrun, mpirun, mpiexec).
ParsedCommandLine parse_command_line(const std::string& name, const std::vector<std::string>& arguments);

/// The configuration of this process's environment, overridden by `settings`.  A Context opened with it is configured
/// as those of the ranks.
opal::config::Store store_with(const std::vector<std::pair<std::string, std::string>>& settings);
/// Returns the problems of --set (unknown names with the nearest known one, values out of range) and the errors of the
/// environment, one per line; empty if there are none.  Sets the level of the log and logs the warnings of the
/// environment.  The MPI library checks its own variables.
std::string check_settings(const Options& options);

}  // namespace runtime::launch
