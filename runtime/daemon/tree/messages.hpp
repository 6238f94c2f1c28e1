// SPDX-License-Identifier: Apache-2.0
// runtime/daemon/tree/messages.hpp — what the launcher and the daemons of a job's other hosts say to each other.  Join
// and its answers go over a connection of their own, questions for data straight to the host that they concern when its
// address is known, everything else along the tree of daemons.  Each struct is one message; its topic goes with it.
// Packed by runtime/packing.hpp; a receiver refuses what does not unpack.  kVersion is compared at the first message,
// before any other is understood.
#pragma once
#include <pmix_common.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "runtime/oob/wire.hpp"
#include "runtime/overlay/id_set.hpp"
#include "runtime/packing.hpp"
#include "runtime/pmix/cluster.hpp"
#include "runtime/pmix/job_data.hpp"

namespace runtime::daemon {

inline constexpr std::uint64_t kVersion = 9;  ///< of all messages here; change one => bump it

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
  output_end,
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
  publish,
  published,
  lookup,
  looked_up,
  unpublish,
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
  std::uint64_t host = 0;
  std::uint64_t pid = 0;
  std::string job_id;
  std::string address;  ///< blob of its Context
  template <class V>
  void fields(V& v) {
    v(version, host, pid, job_id, address);
  }
};

/// The answer: where its place in the tree is.  Comes when those above it have joined.
struct Place {
  static constexpr Kind kKind = Kind::place;
  std::uint64_t count = 0;  ///< of members
  std::uint64_t radix = 0;
  std::vector<std::pair<std::uint32_t, std::string>> above;  ///< addresses of its parent, grandparent, ... but the root
  template <class V>
  void fields(V& v) {
    v(count, radix, above);
  }
};

/// The other answer: end.
struct TurnedAway {
  static constexpr Kind kKind = Kind::turned_away;
  std::string why;
  template <class V>
  void fields(V& v) {
    v(why);
  }
};

/// Launcher to daemons, the same to all: what there is to know to start the ranks of their hosts.
struct Launch {
  static constexpr Kind kKind = Kind::launch;
  std::vector<pmix::HostRanks> hosts;  ///< index 0 is the launcher's own
  std::vector<std::string> arguments;
  std::vector<std::pair<std::string, std::string>> environment;  ///< for every rank
  std::string working_directory;
  std::uint8_t map = 0;   ///< launch::Map
  std::uint8_t bind = 0;  ///< launch::Bind
  std::uint8_t report_bindings = 0;
  std::uint8_t input = 0;  ///< launch::InputTarget
  std::uint32_t input_rank = 0;
  template <class V>
  void fields(V& v) {
    v(hosts, arguments, environment, working_directory, map, bind, report_bindings, input, input_rank);
  }
};

struct Started {
  static constexpr Kind kKind = Kind::started;
  std::uint32_t rank = 0;
  std::int64_t pid = 0;
  template <class V>
  void fields(V& v) {
    v(rank, pid);
  }
};

/// A rank did not start: `text` says why, `status` is what the job exits with.
struct Refused {
  static constexpr Kind kKind = Kind::refused;
  std::uint32_t rank = 0;
  std::uint32_t status = 0;
  std::string text;
  template <class V>
  void fields(V& v) {
    v(rank, status, text);
  }
};

struct Exited {
  static constexpr Kind kKind = Kind::exited;
  std::uint32_t rank = 0;
  std::uint32_t wait_status = 0;
  std::uint8_t left_properly = 0;
  template <class V>
  void fields(V& v) {
    v(rank, wait_status, left_properly);
  }
};

/// Something is wrong on the daemon's host that ends the job with `status`.
struct Trouble {
  static constexpr Kind kKind = Kind::trouble;
  std::uint32_t status = 0;
  std::string text;
  template <class V>
  void fields(V& v) {
    v(status, text);
  }
};

/// What a rank printed; channel 0: stdout, 1: stderr.
struct Output {
  static constexpr Kind kKind = Kind::output;
  std::uint32_t rank = 0;
  std::uint8_t channel = 0;
  std::string text;
  template <class V>
  void fields(V& v) {
    v(rank, channel, text);
  }
};
struct OutputEnd {
  static constexpr Kind kKind = Kind::output_end;
  std::uint32_t rank = 0;
  std::uint8_t channel = 0;
  template <class V>
  void fields(V& v) {
    v(rank, channel);
  }
};
/// Launcher to daemon: so many bytes of output have been taken, as many more may come.
struct Credit {
  static constexpr Kind kKind = Kind::credit;
  std::uint64_t bytes = 0;
  template <class V>
  void fields(V& v) {
    v(bytes);
  }
};

/// Launcher to daemon: stdin of rank 0; empty: its end.
struct Input {
  static constexpr Kind kKind = Kind::input;
  std::string text;
  template <class V>
  void fields(V& v) {
    v(text);
  }
};
/// Daemon to launcher: rank 0 has taken so many bytes of it.
struct InputTaken {
  static constexpr Kind kKind = Kind::input_taken;
  std::uint64_t bytes = 0;
  template <class V>
  void fields(V& v) {
    v(bytes);
  }
};

struct Signal {
  static constexpr Kind kKind = Kind::signal;
  std::int64_t signo = 0;
  std::uint8_t ends_the_job = 0;
  template <class V>
  void fields(V& v) {
    v(signo, ends_the_job);
  }
};

/// Messages that say all by their kind.
template <Kind K>
struct Plain {
  static constexpr Kind kKind = K;
  template <class V>
  void fields(V&) {}
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
  std::int64_t status = 0;
  std::string text;
  template <class V>
  void fields(V& v) {
    v(rank, status, text);
  }
};

/// A line for people.
struct Say {
  static constexpr Kind kKind = Kind::say;
  std::string line;
  template <class V>
  void fields(V& v) {
    v(line);
  }
};

/// What `rank` has committed is wanted by `host`, whose question has this number; by way of the launcher, or straight.
struct Modex {
  static constexpr Kind kKind = Kind::modex;
  std::uint32_t rank = 0;
  std::uint32_t host = 0;
  std::uint64_t question = 0;
  template <class V>
  void fields(V& v) {
    v(rank, host, question);
  }
};
/// Status of a modex or lookup whose answer is longer than the tree takes.
inline constexpr int kTooLong = PMIX_ERR_OUT_OF_RESOURCE;
struct ModexResult {
  static constexpr Kind kKind = Kind::modex_result;
  std::uint32_t host = 0;
  std::uint64_t question = 0;
  std::int64_t status = 0;
  std::string data;
  std::string owner;  ///< from the launcher: where the daemon that has answered is reached for more
  template <class V>
  void fields(V& v) {
    v(host, question, status, data, owner);
  }
};

/// Launcher to daemons: tell the ranks' event handlers.
struct Death {
  static constexpr Kind kKind = Kind::death;
  std::uint32_t rank = 0;
  template <class V>
  void fields(V& v) {
    v(rank);
  }
};

/// Launcher to daemons: these ranks have ended, in whatever way; they are not waited for any more.
struct Ended {
  static constexpr Kind kKind = Kind::ended;
  overlay::IdSet ranks;
  template <class V>
  void fields(V& v) {
    v(ranks);
  }
};

/// Daemon to launcher, launcher to the other daemons: tell the ranks' event handlers what a rank has raised.
struct Event {
  static constexpr Kind kKind = Kind::event;
  pmix::PackedEvent event;
  template <class V>
  void fields(V& v) {
    event.fields(v);
  }
};

/// Daemon to launcher: what a rank says about a checkpoint (runtime/checkpoint_words.hpp).
struct Checkpoint {
  static constexpr Kind kKind = Kind::checkpoint;
  std::uint32_t rank = 0;
  std::string text;
  template <class V>
  void fields(V& v) {
    v(rank, text);
  }
};

struct Publish {
  static constexpr Kind kKind = Kind::publish;
  std::uint64_t question = 0;
  std::vector<pmix::PackedItem> items;
  template <class V>
  void fields(V& v) {
    v(question, items);
  }
};
struct Published {
  static constexpr Kind kKind = Kind::published;
  std::uint64_t question = 0;
  std::int64_t status = 0;
  template <class V>
  void fields(V& v) {
    v(question, status);
  }
};
struct Lookup {
  static constexpr Kind kKind = Kind::lookup;
  std::uint64_t question = 0;
  std::vector<std::string> names;
  std::uint8_t wait = 0;
  std::uint64_t timeout_s = 0;
  template <class V>
  void fields(V& v) {
    v(question, names, wait, timeout_s);
  }
};
struct LookedUp {
  static constexpr Kind kKind = Kind::looked_up;
  std::uint64_t question = 0;
  std::int64_t status = 0;
  std::vector<pmix::PackedItem> items;
  template <class V>
  void fields(V& v) {
    v(question, status, items);
  }
};
struct Unpublish {
  static constexpr Kind kKind = Kind::unpublish;
  std::uint64_t question = 0;
  std::uint32_t owner = 0;
  std::vector<std::string> names;
  template <class V>
  void fields(V& v) {
    v(question, owner, names);
  }
};

}  // namespace runtime::daemon
