// SPDX-License-Identifier: Apache-2.0
// runtime/daemon/tree/messages.hpp — what the launcher and the daemons of a job's other hosts say to each other.  Join
// and its answers go over a connection of their own, questions for data straight to the host that they concern when its
// address is known, everything else along the tree of daemons.  Each struct is one message; its topic goes with it.
// Packed by runtime/packing.hpp; a receiver refuses what does not unpack.  kVersion is compared at the first message,
// before any other is understood.
#pragma once
#include <pmix_common.h>
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "runtime/oob/wire.hpp"
#include "runtime/options/options.hpp"
#include "runtime/overlay/id_set.hpp"
#include "runtime/packing.hpp"
#include "runtime/pmix/cluster.hpp"
#include "runtime/pmix/job_data.hpp"

namespace runtime::daemon {

inline constexpr std::uint64_t kVersion = 10;  ///< of all messages here; change one => bump it

/// From Topic::user on.
enum class Kind : std::uint16_t {
  join = 64,  ///< this, place, turned_away and frame without the tree
  place,
  turned_away,
  frame,  ///< of the tree: runtime/overlay/wire.hpp
  ready,
  launch,
  started,
  refused,
  exited,
  trouble,
  output,
  credit,
  signal,
  kill_all,
  empty,
  quit,
  abort,
  say,
  modex,
  modex_result,
  death,
  names,
  named,
  input,
  input_taken,
  event,
  ended,
  inquire,
  answered,
  checkpoint,
};

constexpr oob::Topic topic(Kind kind) noexcept { return static_cast<oob::Topic>(kind); }

/// Daemon to launcher, first of all.  Every version begins with these two.
struct JoinHead {
  std::uint64_t version = kVersion;
  std::uint64_t host = 0;  ///< index in the job's list of hosts, which is its number in the tree
};
struct Join {
  static constexpr Kind kKind = Kind::join;
  std::uint64_t version = kVersion;
  std::uint32_t host = 0;
  pid_t pid = 0;
  std::string job_id;
  std::string address;  ///< blob of its Context
};

/// The answer: where its place in the tree is.  Comes when those above it have joined.
struct Place {
  static constexpr Kind kKind = Kind::place;
  overlay::Id count = 0;  ///< of members
  unsigned radix = 0;
  std::vector<std::pair<std::uint32_t, std::string>> above;  ///< addresses of its parent, grandparent, ... but the root
};

/// The other answer: end.
struct TurnedAway {
  static constexpr Kind kKind = Kind::turned_away;
  std::string why;
};

/// Launcher to daemons, the same to all: what there is to know to start the ranks of their hosts.
struct Launch {
  static constexpr Kind kKind = Kind::launch;
  std::vector<pmix::HostRanks> hosts;  ///< index 0 is the launcher's own
  std::vector<std::string> arguments;
  std::vector<std::pair<std::string, std::string>> environment;  ///< for every rank
  std::string working_directory;
  launch::Map map{};
  launch::Bind bind{};
  bool report_bindings = false;
  launch::InputTarget input;
};

struct Started {
  static constexpr Kind kKind = Kind::started;
  std::uint32_t rank = 0;
  pid_t pid = 0;
};

/// A rank did not start: `text` says why, `status` is what the job exits with.
struct Refused {
  static constexpr Kind kKind = Kind::refused;
  std::uint32_t rank = 0;
  int status = 0;
  std::string text;
};

struct Exited {
  static constexpr Kind kKind = Kind::exited;
  std::uint32_t rank = 0;
  int wait_status = 0;
  bool left_properly = false;
};

/// Something is wrong on the daemon's host that ends the job with `status`.
struct Trouble {
  static constexpr Kind kKind = Kind::trouble;
  int status = 0;
  std::string text;
};

/// What a rank printed; empty: the end of it.
struct Output {
  static constexpr Kind kKind = Kind::output;
  std::uint32_t rank = 0;
  bool to_stderr = false;
  std::string text;
};
/// Launcher to daemon: so many bytes of output have been taken, as many more may come.
struct Credit {
  static constexpr Kind kKind = Kind::credit;
  std::uint64_t bytes = 0;
};

/// Launcher to daemon: stdin of the ranks that it reaches; empty: its end.
struct Input {
  static constexpr Kind kKind = Kind::input;
  std::string text;
};
/// Daemon to launcher: the slowest of them has taken so many bytes of it.
struct InputTaken {
  static constexpr Kind kKind = Kind::input_taken;
  std::uint64_t bytes = 0;
};

struct Signal {
  static constexpr Kind kKind = Kind::signal;
  int signo = 0;
  bool ends_the_job = false;
};

/// Messages that say all by their kind.
template <Kind K>
struct Plain {
  static constexpr Kind kKind = K;
};
using KillAll = Plain<Kind::kill_all>;  ///< launcher to daemon: end every process of the job; answered by Empty
using Empty = Plain<Kind::empty>;
using Inquire = Plain<Kind::inquire>;    ///< launcher to daemon: tell which ranks have ended or are ending now
using Answered = Plain<Kind::answered>;  ///< daemon to launcher: that has been told
using Quit = Plain<Kind::quit>;          ///< launcher to daemon
using Ready = Plain<Kind::ready>;        ///< daemon to launcher: it has its place

/// A rank asks for the end of the job.
struct Abort {
  static constexpr Kind kKind = Kind::abort;
  std::uint32_t rank = 0;
  int status = 0;
  std::string text;
};

/// A line for people.
struct Say {
  static constexpr Kind kKind = Kind::say;
  std::string line;
};

/// What `rank` has committed is wanted by `host`, whose question has this number; by way of the launcher, or straight.
struct Modex {
  static constexpr Kind kKind = Kind::modex;
  std::uint32_t rank = 0;
  std::uint32_t host = 0;
  std::uint64_t question = 0;
};
/// Status of a modex or a request for names that is, or whose answer is, longer than the tree takes.
inline constexpr int kTooLong = PMIX_ERR_OUT_OF_RESOURCE;
struct ModexResult {
  static constexpr Kind kKind = Kind::modex_result;
  std::uint32_t host = 0;
  std::uint64_t question = 0;
  int status = 0;
  std::string data;
  std::string owner;  ///< from the launcher: where the daemon that has answered is reached for more
};

/// Launcher to daemons: tell the ranks' event handlers.
struct Death {
  static constexpr Kind kKind = Kind::death;
  std::uint32_t rank = 0;
};

/// Launcher to daemons: these ranks have ended, in whatever way; they are not waited for any more.
struct Ended {
  static constexpr Kind kKind = Kind::ended;
  overlay::IdSet ranks;
};

/// Daemon to launcher, launcher to the other daemons: tell the ranks' event handlers what a rank has raised.
struct Event {
  static constexpr Kind kKind = Kind::event;
  pmix::PackedEvent event;
};

/// Daemon to launcher: what a rank says about a checkpoint (runtime/checkpoint_words.hpp).
struct Checkpoint {
  static constexpr Kind kKind = Kind::checkpoint;
  std::uint32_t rank = 0;
  std::string text;
};

/// Daemon to launcher: what a rank wants of the job's names; the answer.
struct Names {
  static constexpr Kind kKind = Kind::names;
  std::uint64_t question = 0;
  pmix::NameRequest request;
};
struct Named {
  static constexpr Kind kKind = Kind::named;
  std::uint64_t question = 0;
  int status = 0;
  std::vector<pmix::PackedItem> items;
};

}  // namespace runtime::daemon
