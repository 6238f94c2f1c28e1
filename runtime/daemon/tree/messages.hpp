// SPDX-License-Identifier: Apache-2.0
// runtime/daemon/tree/messages.hpp — what the launcher and the daemons of a job's other hosts say to each other.  Join
// and its answers go over a connection of their own, questions for data straight to the host that they concern when its
// address is known, everything else along the tree of daemons.  Each struct is one message; its kind goes with it.
// Packed by runtime/packing.hpp; a receiver refuses what does not unpack.  kVersion is compared at the first message,
// before any other is understood.
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

inline constexpr std::uint64_t kVersion = 11;  ///< of all messages here; change one => bump it

/// Daemon to launcher, first of all.  Every version begins with these two.
struct JoinHead {
  std::uint64_t version = kVersion;
  std::uint64_t host = 0;  ///< index in the job's list of hosts, which is its number in the tree
};
struct Join {
  std::uint64_t version = kVersion;
  std::uint32_t host = 0;
  pid_t pid = 0;
  std::string job_id;
  std::string address;  ///< blob of its Context
};

/// The answer: where its place in the tree is.  Comes when those above it have joined.
struct Place {
  overlay::Id count = 0;  ///< of members
  unsigned radix = 0;
  std::vector<std::pair<std::uint32_t, std::string>> above;  ///< addresses of its parent, grandparent, ... but the root
};

/// The other answer: end.
struct TurnedAway {
  std::string why;
};

/// Launcher to daemons, the same to all: what there is to know to start the ranks of their hosts.
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

/// What a rank printed; empty: the end of it.
struct Output {
  std::uint32_t rank = 0;
  bool to_stderr = false;
  std::string text;
};
/// Launcher to daemon: so many bytes of output have been taken, as many more may come.
struct Credit {
  std::uint64_t bytes = 0;
};

/// Launcher to daemon: stdin of the ranks that it reaches; empty: its end.
struct Input {
  std::string text;
};
/// Daemon to launcher: the slowest of them has taken so many bytes of it.
struct InputTaken {
  std::uint64_t bytes = 0;
};

struct Signal {
  int signo = 0;
  bool ends_the_job = false;
};

struct KillAll {};  ///< launcher to daemon: end every process of the job; reported as launch::Emptied
struct Inquire {};  ///< launcher to daemon: report which ranks have ended or are ending, then launch::Answered
struct Quit {};     ///< launcher to daemon
struct Ready {};    ///< daemon to launcher: it has its place
struct Frame {};    ///< of the tree: runtime/overlay/wire.hpp

/// A request of `host` for what `rank` has committed; through the launcher, or direct.
struct Modex {
  std::uint32_t rank = 0;
  std::uint32_t host = 0;
  std::uint64_t request_id = 0;
};
/// Status of a modex or a request for names that is, or whose answer is, longer than the tree takes.
inline constexpr int kTooLong = PMIX_ERR_OUT_OF_RESOURCE;
struct ModexResult {
  std::uint32_t host = 0;
  std::uint64_t request_id = 0;
  int status = 0;
  std::string data;
  std::string owner;  ///< from the launcher: where the daemon that has answered is reached for more
};

/// Launcher to daemons: tell the ranks' event handlers.
struct Death {
  std::uint32_t rank = 0;
};

/// Launcher to daemons: these ranks have ended, in whatever way; they are not waited for any more.
struct Ended {
  overlay::IdSet ranks;
};

/// Daemon to launcher: a request of a rank about the job's names; and its result.
struct Names {
  std::uint64_t request_id = 0;
  pmix::NameRequest request;
};
struct NamesResult {
  std::uint64_t request_id = 0;
  int status = 0;
  std::vector<pmix::PackedItem> items;
};

/// All messages, in the order of their kinds; the first four go without the tree.  launch::Report, a daemon to the
/// launcher: what becomes of the ranks of its host.  pmix::PackedEvent, a daemon to the launcher, which passes it on to
/// the other daemons: tell the ranks' event handlers what a rank has raised.
using Messages =
    std::tuple<Join, Place, TurnedAway, Frame, Ready, Launch, launch::Report, Output, Credit, Signal, KillAll, Quit,
               Modex, ModexResult, Death, Names, NamesResult, Input, InputTaken, pmix::PackedEvent, Ended, Inquire>;

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
