// SPDX-License-Identifier: Apache-2.0
// runtime/options/options.hpp — what the user asked for: the launcher's command line as a value.
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
  std::chrono::milliseconds silence{};  ///< of a daemon, until it counts as out of reach
  std::chrono::milliseconds start{};    ///< of a daemon that is being started, until it must have come

  /// Until a daemon that has come must have its place in the tree: those above it are waited for.
  [[nodiscard]] std::chrono::milliseconds place() const noexcept { return start + silence; }
};

inline double seconds(std::chrono::milliseconds time) { return static_cast<double>(time.count()) / 1000; }

}  // namespace runtime::daemon

namespace runtime::launch {

/// Parts of a host, from fine to coarse.
enum class Level : std::uint8_t { hwthread, core, l2cache, l3cache, numa, package };
inline constexpr std::size_t kLevels = 6;
/// As --map-by and --bind-to spell them; "socket" is another word for the last one.
inline constexpr std::array<std::string_view, kLevels> kLevelNames{"hwthread", "core", "l2cache",
                                                                   "l3cache",  "numa", "package"};

/// What each rank is bound to: from `objects` on, that plus a Level.
enum class Bind : std::uint8_t { automatic, none, objects };

/// How ranks are dealt out to hosts, and within them: from `objects` on, that plus a Level.
enum class Map : std::uint8_t {
  slot,     ///< a host is filled before the next one gets any
  node,     ///< one rank to each host in turn
  objects,  ///< hosts as by slot; within a host ranks go round the objects of the level
};

template <class Choice>
constexpr Choice by(Level level) noexcept {
  return static_cast<Choice>(static_cast<std::uint8_t>(Choice::objects) + static_cast<std::uint8_t>(level));
}
/// The Level in a choice; nothing when there is none.
template <class Choice>
constexpr std::optional<Level> level_of(Choice choice) noexcept {
  const auto number = static_cast<std::size_t>(choice) - static_cast<std::size_t>(Choice::objects);
  if (choice < Choice::objects || number >= kLevels) return {};
  return static_cast<Level>(number);
}

/// Which ranks get the launcher's stdin; the others read nothing.
struct InputTarget {
  enum class Kind : std::uint8_t { rank, all, none };
  Kind kind = Kind::rank;
  unsigned rank = 0;  ///< with Kind::rank
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
  daemon::Timeouts timeouts;              ///< with daemons
  unsigned agents = 64;                   ///< that start daemons at a time
  unsigned radix = 16;                    ///< of the tree of daemons: children of each
  bool continuous = false;                ///< the end of some ranks or hosts leaves the others running
  bool oversubscribe = false;
  bool tag_output = false;
  bool timestamp_output = false;
  bool merge_stderr = false;     ///< what ranks write to stderr goes where their stdout goes
  std::string output_directory;  ///< of files for each rank; empty: the launcher's own stdout and stderr
  InputTarget input;
  std::string working_directory;  ///< empty: the launcher's
  std::optional<std::chrono::milliseconds> timeout;
  std::chrono::milliseconds grace{2000};  ///< between SIGTERM and SIGKILL; to end by themselves after another's failure
  pid_t quiesce = 0;                      ///< launcher of the job to quiesce, in place of starting one
  pid_t resume = 0;                       ///< the same, to resume
  std::vector<std::string> warnings;      ///< to be said once before the job starts
  std::string program;
  std::vector<std::string> arguments;  ///< of the program, without its name
};

/// Either options, or the text to print and the status to exit with (help, version, an error).
struct ParsedCommandLine {
  std::optional<Options> options;
  std::string text;
  int status = 0;
};

/// Parses argv; `name` is how the launcher was called (opalrun, mpirun, mpiexec).
ParsedCommandLine parse_command_line(const std::string& name, const std::vector<std::string>& arguments);

/// The settings of this process's environment, with `settings` over them: for a Context set up as those of the ranks.
opal::config::Store store_with(const std::vector<std::pair<std::string, std::string>>& settings);
/// What is wrong with the settings of --set: an unknown name with the nearest known one, a value out of range.  Empty
/// when all is well.  Variables of the MPI library are its own to check.
std::string check_settings(const Options& options);

}  // namespace runtime::launch
