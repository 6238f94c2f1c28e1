// SPDX-License-Identifier: Apache-2.0
// runtime/daemon/tree/messages.hpp — the messages between the launcher and the daemons.  Each struct is one message;
// its kind is the oob::Topic.  Routes:
//   Join, Place, TurnedAway  a direct connection between daemon and launcher
//   Modex, ModexResult       a direct connection to the host of the rank if its address is known, else the tree
//   all others               the tree of daemons
// runtime/packing.hpp packs them; a receiver drops what does not unpack.  Both sides are of one version: opald compares
// kBootstrapMark (bootstrap.hpp), the number of which changes with each message here.
#pragma once
#include <pmix_common.h>
#include <sys/types.h>

#include <cstdint>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/host/rank_host.hpp"
#include "runtime/oob/wire.hpp"
#include "runtime/options/options.hpp"
#include "runtime/overlay/id_set.hpp"
#include "runtime/packing.hpp"
#include "runtime/pmix/cluster.hpp"
#include "runtime/pmix/job_data.hpp"

namespace runtime::daemon {

/// Daemon to launcher, the first message: asks for a place in the tree.
struct Join {
  std::uint32_t host = 0;  ///< index in the job's list of hosts, which is its number in the tree
  pid_t pid = 0;
  std::string job_id;
  std::string address;  ///< of the daemon's Context
};

/// Answer to Join: the place in the tree.  The launcher sends it when all daemons above have joined or are lost.
struct Place {
  overlay::Id count = 0;  ///< of members
  unsigned radix = 0;
  std::vector<std::pair<std::uint32_t, std::string>> above;  ///< addresses of its parent, grandparent, ... but the root
};

/// Answer to Join: the daemon must end.
struct TurnedAway {
  std::string why;
};

/// Launcher to daemons, the same to all: starts the ranks of their hosts.
struct Launch {
  std::vector<pmix::HostRanks> hosts;  ///< index 0 is the launcher's own
  std::vector<std::string> arguments;
  std::vector<std::pair<std::string, std::string>> environment;  ///< for every rank
  std::string working_directory;
  launch::Map map{};
  launch::Bind bind{};
  bool report_bindings = false;
  launch::InputTarget input;
};

/// Daemon to launcher: what a rank has printed; an empty text is the end of the stream.
struct Output {
  std::uint32_t rank = 0;
  bool to_stderr = false;
  std::string text;
};
/// Launcher to daemon: `bytes` more bytes of output have been taken (OutputForwarder::credit).
struct Credit {
  std::uint64_t bytes = 0;
};

/// Launcher to daemon: the output of a rank has no reader any more.
struct Unread {
  std::uint32_t rank = 0;
  bool to_stderr = false;
};

/// Launcher to daemon: text for the stdin of the ranks that InputTarget reaches; empty: the end.
struct Input {
  std::string text;
};
/// Daemon to launcher: the slowest rank that gets stdin has taken `bytes` more bytes.
struct InputTaken {
  std::uint64_t bytes = 0;
};

/// Launcher to daemon: RankHost::signal().
struct Signal {
  int signo = 0;
  bool ends_the_job = false;
};

struct KillAll {};  ///< launcher to daemon: end every process of the job; reported as launch::Emptied
struct Inquire {};  ///< launcher to daemon: report which ranks have ended or are ending, then launch::Answered
struct Quit {};     ///< launcher to daemon: end; no process of the job is left
struct Ready {};    ///< daemon to launcher: it has its place
struct Frame {};    ///< a frame of the tree; its content is that of runtime/overlay/wire.hpp

/// Requests the data that `rank` has committed; through the launcher, or direct.
struct Modex {
  std::uint32_t rank = 0;
  std::uint32_t host = 0;        ///< the requesting host
  std::uint64_t request_id = 0;  ///< number of the request at that host
};
/// Status of a Modex or Names request when the request or its answer is longer than the tree takes.
inline constexpr int kTooLong = PMIX_ERR_OUT_OF_RESOURCE;
struct ModexResult {
  std::uint32_t host = 0;
  std::uint64_t request_id = 0;
  int status = 0;
  std::string data;
  std::string owner;  ///< set by the launcher: address of the daemon that has the data, for later direct requests
};

/// Launcher to daemons: report the death of `rank` to the event handlers of the ranks.
struct Death {
  std::uint32_t rank = 0;
};

/// Launcher to daemons: these ranks have ended, normally or not; fences do not wait for them.
struct Ended {
  overlay::IdSet ranks;
};

/// Daemon to launcher: a rank's request to the name service.  NamesResult is the answer.
struct Names {
  std::uint64_t request_id = 0;
  pmix::NameRequest request;
};
struct NamesResult {
  std::uint64_t request_id = 0;
  int status = 0;
  std::vector<pmix::PackedItem> items;
};

/// All messages, in the order of their kinds.  The first four do not travel inside frames of the tree.
///   launch::Report     daemon to launcher: news of the ranks of its host
///   pmix::PackedEvent  daemon to launcher, which forwards it to the other daemons: an event that a rank has raised,
///                      for the event handlers of all ranks
using Messages = std::tuple<Join, Place, TurnedAway, Frame, Ready, Launch, launch::Report, Output, Credit, Signal,
                            KillAll, Quit, Modex, ModexResult, Death, Names, NamesResult, Input, InputTaken,
                            pmix::PackedEvent, Ended, Inquire, Unread>;

using Kind = std::uint16_t;  ///< an oob::Topic

template <class M, class... All>
constexpr Kind kind_in(std::tuple<All...>* /*list*/) {
  auto kind = static_cast<Kind>(oob::Topic::user);
  return ((std::is_same_v<M, All> || (++kind, false)) || ...) ? kind : Kind{0};
}
template <class M>
inline constexpr Kind kKind = kind_in<M>(static_cast<Messages*>(nullptr));

constexpr oob::Topic topic(Kind kind) noexcept { return static_cast<oob::Topic>(kind); }

}  // namespace runtime::daemon
