// SPDX-License-Identifier: Apache-2.0
// A rank that uses runtime::Client: client_rank SCENARIO.  Prints what it saw; exits with 0 when that is right.
#include <pmix.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "opal/am/context.hpp"
#include "runtime/client/client.hpp"

namespace {

using runtime::Client;

/// Different for every rank, and of a size that takes several packets.
Client::Bytes value_of(unsigned rank) {
  Client::Bytes bytes(100'000 + rank);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 31 + rank);
  return bytes;
}

opal::ByteSpan text_bytes(std::string_view text) { return std::as_bytes(std::span{text}); }

int fail(const char* what, const opal::Error& error) {
  std::printf("%s: %s\n", what, opal::to_string(error).c_str());
  return 1;
}

/// A fence of the whole job that brings everything committed to every host.
pmix_status_t collecting_fence(const Client& client) {
  pmix_proc_t all;
  PMIX_LOAD_PROCID(&all, client.job_id().c_str(), PMIX_RANK_WILDCARD);
  pmix_info_t collect;
  bool yes = true;
  PMIX_INFO_LOAD(&collect, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
  const pmix_status_t status = PMIx_Fence(&all, 1, &collect, 1);
  PMIX_INFO_DESTRUCT(&collect);
  return status;
}

int exchange(Client& client, bool collects) {
  const Client::Bytes mine = value_of(client.rank());
  if (auto done = client.put(runtime::kAddressKey, mine); !done) return fail("put", done.error());
  if (auto done = client.commit(); !done) return fail("commit", done.error());
  // Without a launcher there is no server for PMIx_Fence.
  const bool collecting = collects && !client.singleton();
  if (collecting && collecting_fence(client) != PMIX_SUCCESS) return std::puts("no fence"), 1;
  if (auto done = client.fence(); !collecting && !done) return fail("fence", done.error());
  for (unsigned i = 0; i < client.size(); ++i) {
    const unsigned peer = (client.rank() + i) % client.size();
    const auto got = client.get(peer, runtime::kAddressKey);
    if (!got) return fail("get", got.error());
    if (*got != value_of(peer)) return std::printf("rank %u got something else from %u\n", client.rank(), peer), 1;
  }
  // Its owner must not be gone before all have asked: Slurm's server ends with the ranks of its host.
  if (auto done = client.fence(); !done) return fail("fence", done.error());
  std::printf("rank %u of %u, %u of them local: same\n", client.rank(), client.size(), client.local_size());
  return 0;
}

/// No rank waits in a fence: get() itself waits until the owner has committed.
int without_fence(Client& client) {
  const unsigned next = (client.rank() + 1) % client.size();
  if (const auto early = client.get(client.rank(), "nothing", std::chrono::seconds{1}); early) return 1;
  if (client.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds{100});
  if (!client.put("key", value_of(client.rank())) || !client.commit()) return 1;
  const auto got = client.get(next, "key");
  if (!got) return fail("get", got.error());
  const bool same = *got == value_of(next);
  // Its owner must not be gone before all have asked.
  if (auto done = client.fence(); !done) return fail("fence", done.error());
  std::printf("%s\n", same ? "same" : "different");
  return same ? 0 : 1;
}

/// Every rank adds one key after the other and asks its neighbour for the same key at once.
int one_key_after_another(Client& client) {
  const unsigned next = (client.rank() + 1) % client.size();
  for (int i = 0; i < 20; ++i) {
    const std::string key = "key-" + std::to_string(i);
    if (auto done = client.put(key, text_bytes(key)); !done) return fail("put", done.error());
    if (auto done = client.commit(); !done) return fail("commit", done.error());
    const auto got = client.get(next, key);
    if (!got) return fail("get", got.error());
    if (*got != Client::Bytes(text_bytes(key).begin(), text_bytes(key).end())) return std::puts("different"), 1;
  }
  // Its owner must not be gone before all have asked.
  if (auto done = client.fence(); !done) return fail("fence", done.error());
  const auto never = client.get(next, "never", std::chrono::seconds{1});
  const opal::Errc expected = client.singleton() ? opal::Errc::invalid_argument : opal::Errc::timed_out;
  if (never || never.error().code != expected) return std::puts("found what was never put"), 1;
  if (auto done = client.fence(); !done) return fail("fence", done.error());
  std::puts("same");
  return 0;
}

/// How far a Context with this secret gets with rank 0's address, over tcp: whether its message is answered.
bool is_answered(const std::optional<opal::Secret>& secret, const Client::Bytes& address) {
  opal::config::Store store = opal::config::Store::from_environment();
  store.set("am_transports", "tcp");
  opal::am::Options options;
  options.secret = secret;
  auto context = opal::am::Context::open(store, options);
  if (!context) return fail("open", context.error()) == 0;
  struct Answer {
    bool came = false;
    void on_message(opal::btl::Delivery& /*message*/) noexcept { came = true; }
  } answer;
  if (!(*context)->set_handler(opal::kUserTags.first, opal::btl::bind<&Answer::on_message>(answer, "answer")))
    return false;
  const auto peer = (*context)->connect(address);
  if (!peer) return false;
  (void)(*peer)->send_or_queue(opal::kUserTags.first, text_bytes("hello"), {});
  (*context)->wait_until([&] { return answer.came || (*peer)->dead(); }, std::chrono::seconds{20});
  return answer.came;
}

/// Rank 0 answers messages; the last rank, with its address, gets an answer with the job's secret and with no other.
int secret(Client& client) {
  const opal::config::Store store = opal::config::Store::from_environment();
  opal::am::Options options;
  const auto own = client.secret(store);
  if (!own) return fail("secret", own.error());
  options.secret = *own;
  auto context = opal::am::Context::open(store, options);
  if (!context) return fail("open", context.error());
  struct Echo {
    int count = 0;
    void on_message(opal::btl::Delivery& message) noexcept {
      ++count;
      (void)opal::am::sender(message).send_or_queue(message.tag, message.data, {});
    }
  } echo;
  if (!(*context)->set_handler(opal::kUserTags.first, opal::btl::bind<&Echo::on_message>(echo, "echo"))) return 1;
  if (!client.put(runtime::kAddressKey, (*context)->address()) || !client.commit()) return 1;
  if (auto done = client.fence(); !done) return fail("fence", done.error());
  std::atomic<bool> over{false};
  int status = 0;
  std::thread meeting{[&] {
    if (client.rank() == client.size() - 1) {
      const auto address = client.get(0, runtime::kAddressKey);
      const bool ours = address && is_answered(*own, *address);
      const bool none = address && is_answered(opal::Secret{}, *address);
      const bool another = address && is_answered(*opal::Secret::from_text("0123456789abcdef"), *address);
      std::printf("ours %d, none %d, another %d\n", ours, none, another);
      if (!ours || none || another) status = 1;
    }
    if (client.rank() == client.size() - 1) {
      if (!client.put("through", text_bytes("yes")) || !client.commit()) status = 1;
    } else if (const auto through = client.get(client.size() - 1, "through"); !through) {
      status = fail("through", through.error());
    }
    over = true;
  }};
  while (!over) (*context)->wait(std::chrono::milliseconds{10});
  meeting.join();
  if (auto done = client.fence(); !done) return fail("fence", done.error());
  if (client.rank() == 0 && echo.count != 1) return std::printf("%d messages handled\n", echo.count), 1;
  return status;
}

pmix_status_t publish(const std::string& name, const Client::Bytes& value) {
  const pmix_byte_object_t bytes{const_cast<char*>(reinterpret_cast<const char*>(value.data())), value.size()};
  pmix_info_t info;
  PMIX_INFO_LOAD(&info, name.c_str(), &bytes, PMIX_BYTE_OBJECT);
  const pmix_status_t status = PMIx_Publish(&info, 1);
  PMIX_INFO_DESTRUCT(&info);
  return status;
}

/// Waits for at most `seconds`, if that is not 0.
pmix_status_t lookup(const char* name, int seconds, Client::Bytes& value) {
  pmix_pdata_t found;
  PMIX_PDATA_CONSTRUCT(&found);
  PMIX_LOAD_KEY(found.key, name);
  pmix_info_t infos[2];
  int all = 0;
  PMIX_INFO_LOAD(&infos[0], PMIX_WAIT, &all, PMIX_INT);
  PMIX_INFO_LOAD(&infos[1], PMIX_TIMEOUT, &seconds, PMIX_INT);
  const pmix_status_t status = PMIx_Lookup(&found, 1, infos, seconds == 0 ? 0 : 2);
  if (status == PMIX_SUCCESS && found.value.type == PMIX_BYTE_OBJECT) {
    const auto* const begin = reinterpret_cast<const std::byte*>(found.value.data.bo.bytes);
    value.assign(begin, begin + found.value.data.bo.size);
  }
  PMIX_PDATA_DESTRUCT(&found);
  return status;
}

int names(Client& client) {
  const Client::Bytes value(10, std::byte{7});
  Client::Bytes found;
  if (client.rank() == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds{50});
    if (publish("port-a", value) != PMIX_SUCCESS) return std::puts("not published"), 1;
  } else {
    if (lookup("port-a", 60, found) != PMIX_SUCCESS) return std::puts("not found"), 1;
    std::printf("lookup: %s\n", found == value ? "same" : "different");
    if (lookup("port-b", 0, found) == PMIX_SUCCESS) return std::puts("found what was never published"), 1;
    if (lookup("port-b", 1, found) != PMIX_ERR_TIMEOUT) return std::puts("no timeout"), 1;
  }
  if (auto done = client.fence(); !done) return fail("fence", done.error());
  std::string name = "port-a";
  char* names[] = {name.data(), nullptr};
  if (client.rank() == 0 && PMIx_Unpublish(names, nullptr, 0) != PMIX_SUCCESS) return std::puts("not withdrawn"), 1;
  if (auto done = client.fence(); !done) return fail("fence", done.error());
  if (lookup("port-a", 0, found) == PMIX_SUCCESS) return std::puts("found what was unpublished"), 1;
  return 0;
}

int name_twice(Client& client) {
  const std::string name = "twice-" + std::to_string(client.rank());
  if (publish(name, {}) != PMIX_SUCCESS) return std::puts("not published"), 1;
  if (publish(name, {}) == PMIX_SUCCESS) return std::puts("a name was published twice"), 1;
  return 0;
}

/// More than one message between daemons takes: every question is answered, and the job goes on.
int large_values(Client& client) {
  const Client::Bytes half(5U << 20, std::byte{1});
  const std::string own = "half-" + std::to_string(client.rank());
  if (publish(own, half) != PMIX_SUCCESS) return std::puts("not published"), 1;
  if (publish(own + "-whole", Client::Bytes(9U << 20)) == PMIX_SUCCESS) {
    return std::puts("published what is too long"), 1;
  }
  if (auto done = client.fence(); !done) return fail("fence", done.error());
  const std::string names[] = {"half-0", "half-1"};
  pmix_pdata_t found[2];
  for (int i = 0; i < 2; ++i) {
    PMIX_PDATA_CONSTRUCT(&found[i]);
    PMIX_LOAD_KEY(found[i].key, names[i].c_str());
  }
  const pmix_status_t status = PMIx_Lookup(found, 2, nullptr, 0);
  for (pmix_pdata_t& one : found) PMIX_PDATA_DESTRUCT(&one);
  std::printf("rank %u: %s\n", client.rank(), status == PMIX_SUCCESS ? "found" : "refused");
  if (auto done = client.fence(); !done) return fail("fence", done.error());
  return 0;
}

int abort_job(Client& client) {
  if (client.rank() == 1) client.abort(9, "no convergence");
  (void)client.fence();
  return 0;
}

/// Rank 0 dies.  The others must not be told that the fence succeeded; with the argument "abort" they end the job.
int die_in_fence(Client& client, char** arguments) {
  ::signal(SIGTERM, SIG_IGN);
  if (client.rank() == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds{100});
    ::kill(::getpid(), SIGKILL);
  }
  const auto done = client.fence();
  std::printf("fence %s\n", done ? "succeeded" : "failed");
  std::fflush(stdout);
  if (!done && arguments[0] != nullptr) client.abort(1, "the fence failed");
  ::_exit(0);
}

std::atomic<bool> g_told{false};

void on_event(size_t /*id*/, pmix_status_t /*status*/, const pmix_proc_t* /*source*/, pmix_info_t* /*info*/,
              size_t /*ninfo*/, pmix_info_t* /*results*/, size_t /*nresults*/, pmix_event_notification_cbfunc_fn_t done,
              void* cookie) {
  g_told = true;
  if (done != nullptr) done(PMIX_EVENT_ACTION_COMPLETE, nullptr, 0, nullptr, nullptr, cookie);
}

int death_event(Client& client) {
  ::signal(SIGTERM, SIG_IGN);
  pmix_status_t code = PMIX_ERR_PROC_TERM_WO_SYNC;
  if (PMIx_Register_event_handler(&code, 1, nullptr, 0, on_event, nullptr, nullptr) < 0) return 1;
  if (auto done = client.fence(); !done) return fail("fence", done.error());
  if (client.rank() == 0) ::kill(::getpid(), SIGKILL);
  while (!g_told) std::this_thread::sleep_for(std::chrono::milliseconds{1});
  std::puts("told");
  return 0;
}

std::atomic<unsigned> g_dead_ranks{0};
std::atomic<unsigned> g_dead_hosts{0};

void count_loss(size_t /*id*/, pmix_status_t status, const pmix_proc_t* /*source*/, pmix_info_t* infos, size_t ninfo,
                pmix_info_t* /*results*/, size_t /*nresults*/, pmix_event_notification_cbfunc_fn_t done, void* cookie) {
  for (size_t i = 0; i < ninfo; ++i) {
    if (status == PMIX_EVENT_NODE_DOWN && PMIX_CHECK_KEY(&infos[i], PMIX_HOSTNAME)) {
      std::printf("host %s is down\n", infos[i].value.data.string);
      ++g_dead_hosts;
    }
    if (status == PMIX_ERR_PROC_TERM_WO_SYNC && PMIX_CHECK_KEY(&infos[i], PMIX_EVENT_AFFECTED_PROC)) ++g_dead_ranks;
  }
  if (done != nullptr) done(PMIX_EVENT_ACTION_COMPLETE, nullptr, 0, nullptr, nullptr, cookie);
}

std::vector<pmix_proc_t> ranks_named(const pmix_proc_t& self, char** numbers) {
  std::vector<pmix_proc_t> ranks;
  for (; *numbers != nullptr; ++numbers) {
    pmix_proc_t& one = ranks.emplace_back();
    PMIX_LOAD_PROCID(&one, self.nspace, static_cast<pmix_rank_t>(std::atoi(*numbers)));
  }
  return ranks;
}

/// The ranks with these numbers meet again and again.
int meet(const pmix_proc_t& self, char** numbers) {
  const std::vector<pmix_proc_t> ranks = ranks_named(self, numbers);
  for (int round = 0; round < 20; ++round) {
    if (PMIx_Fence(ranks.data(), ranks.size(), nullptr, 0) != PMIX_SUCCESS) return std::puts("no fence"), 1;
  }
  std::printf("rank %u went on\n", self.rank);
  return 0;
}

/// Waits until it is told that so many hosts and ranks are gone; those that are left meet without them.
/// Arguments: hosts, ranks, and the numbers of the ranks that are left.
int survive(Client& client, char** arguments) {
  pmix_status_t codes[] = {PMIX_EVENT_NODE_DOWN, PMIX_ERR_PROC_TERM_WO_SYNC};
  if (PMIx_Register_event_handler(codes, 2, nullptr, 0, count_loss, nullptr, nullptr) < 0) return 1;
  if (auto done = client.fence(); !done) return fail("fence", done.error());
  std::printf("up %u\n", client.rank());
  std::fflush(stdout);
  const auto hosts = static_cast<unsigned>(std::atoi(arguments[0]));
  const auto ranks = static_cast<unsigned>(std::atoi(arguments[1]));
  while (g_dead_hosts < hosts || g_dead_ranks < ranks) std::this_thread::sleep_for(std::chrono::milliseconds{1});
  if (client.fence()) return std::puts("a fence with dead members succeeded"), 1;
  pmix_proc_t self;
  if (PMIx_Init(&self, nullptr, 0) != PMIX_SUCCESS || PMIx_Finalize(nullptr, 0) != PMIX_SUCCESS) return 1;
  return meet(self, arguments + 2);
}

/// Rank 1 ends and has committed nothing; rank 0 asks for its data before, most likely, and after.
int ask_the_dead(Client& client, const pmix_proc_t& self) {
  if (auto done = client.fence(); !done) return fail("fence", done.error());
  if (client.rank() != 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds{200});
    ::kill(::getpid(), SIGKILL);
  }
  pmix_proc_t dead;
  PMIX_LOAD_PROCID(&dead, self.nspace, 1);
  for (int round = 0; round < 2; ++round) {
    pmix_value_t* value = nullptr;
    const pmix_status_t status = PMIx_Get(&dead, "key", nullptr, 0, &value);
    if (status != PMIX_ERR_PROC_TERM_WO_SYNC) return std::printf("get: %s\n", PMIx_Error_string(status)), 1;
  }
  std::puts("answered");
  return 0;
}

/// Some rank ends before it joins: fences with it fail, and those that are left meet without it.
/// Arguments: a directory for a file that tells that this rank has joined, and the numbers of the ranks that are left.
int without(Client& client, const pmix_proc_t& self, char** arguments) {
  std::fclose(std::fopen((std::string{arguments[0]} + "/up-" + std::to_string(client.rank())).c_str(), "w"));
  for (int round = 0; round < 3; ++round) {
    const auto done = client.fence();
    if (done) return std::puts("a fence with a rank that never joined succeeded"), 1;
    if (done.error().code != opal::Errc::peer_gone) return fail("fence", done.error());
  }
  return meet(self, arguments + 1);
}

/// A rank goes, and the ones named meet with it, which must fail.  Arguments: how it goes, "left" or "killed", its
/// number, and those of the others that meet.
int miss(Client& client, const pmix_proc_t& self, char** arguments) {
  if (auto done = client.fence(); !done) return fail("fence", done.error());
  const auto missed = static_cast<unsigned>(std::atoi(arguments[1]));
  if (client.rank() == missed) {
    if (arguments[0] == std::string{"killed"}) ::kill(::getpid(), SIGKILL);
    return 0;
  }
  const std::vector<pmix_proc_t> members = ranks_named(self, arguments + 1);
  const bool takes_part = std::any_of(members.begin(), members.end(),
                                      [&](const pmix_proc_t& member) { return member.rank == client.rank(); });
  for (int round = 0; takes_part && round < 3; ++round) {
    const pmix_status_t status = PMIx_Fence(members.data(), members.size(), nullptr, 0);
    if (status != PMIX_ERR_PROC_TERM_WO_SYNC) return std::printf("fence: %s\n", PMIx_Error_string(status)), 1;
  }
  if (takes_part) std::printf("rank %u missed it\n", client.rank());
  return 0;
}

std::vector<pmix_proc_t> ranks_from_to(const char* name_space, unsigned from, unsigned end) {
  std::vector<pmix_proc_t> ranks(end - from);
  for (unsigned i = 0; i < ranks.size(); ++i) PMIX_LOAD_PROCID(&ranks[i], name_space, from + i);
  return ranks;
}

std::atomic<unsigned> g_raised{0};

void on_raised(size_t /*id*/, pmix_status_t status, const pmix_proc_t* source, pmix_info_t* infos, size_t ninfo,
               pmix_info_t* /*results*/, size_t /*nresults*/, pmix_event_notification_cbfunc_fn_t done, void* cookie) {
  for (size_t i = 0; i < ninfo; ++i) {
    if (!PMIX_CHECK_KEY(&infos[i], "test.text")) continue;
    std::printf("event %d of rank %u: %s\n", status, source->rank, infos[i].value.data.string);
    std::fflush(stdout);
    ++g_raised;
  }
  if (done != nullptr) done(PMIX_EVENT_ACTION_COMPLETE, nullptr, 0, nullptr, nullptr, cookie);
}

/// The rank of ARGUMENT 1 raises three events, for the session, the namespace and all processes, and one for its host
/// alone; the others wait for the three.
int raise_events(Client& client, const pmix_proc_t& self, char** arguments) {
  constexpr pmix_status_t kEvent = PMIX_EXTERNAL_ERR_BASE - 7;
  pmix_status_t codes[] = {kEvent, kEvent - 1};
  if (PMIx_Register_event_handler(codes, 2, nullptr, 0, on_raised, nullptr, nullptr) < 0) return 1;
  if (auto done = client.fence(); !done) return fail("fence", done.error());
  if (client.rank() == static_cast<unsigned>(std::atoi(arguments[0]))) {
    const auto raise = [&](pmix_status_t code, pmix_data_range_t range, const char* text) {
      pmix_info_t about;
      PMIX_INFO_LOAD(&about, "test.text", text, PMIX_STRING);
      const pmix_status_t status = PMIx_Notify_event(code, &self, range, &about, 1, nullptr, nullptr);
      PMIX_INFO_DESTRUCT(&about);
      return status == PMIX_SUCCESS || status == PMIX_OPERATION_SUCCEEDED;
    };
    if (!raise(kEvent - 1, PMIX_RANGE_LOCAL, "near")) return std::puts("not raised"), 1;
    if (!raise(kEvent, PMIX_RANGE_SESSION, "session")) return std::puts("not raised"), 1;
    if (!raise(kEvent, PMIX_RANGE_NAMESPACE, "namespace")) return std::puts("not raised"), 1;
    if (!raise(kEvent, PMIX_RANGE_GLOBAL, "global")) return std::puts("not raised"), 1;
  } else {
    while (g_raised < 3) std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
  if (auto done = client.fence(); !done) return fail("fence", done.error());
  return 0;
}

/// Pairs of neighbours, then all ranks, connect and disconnect.
int connect_ranks(Client& client, const pmix_proc_t& self) {
  const unsigned left = client.rank() / 2 * 2;
  for (int round = 0; round < 3; ++round) {
    for (const auto& members : {ranks_from_to(self.nspace, left, std::min(left + 2, client.size())),
                                ranks_from_to(self.nspace, 0, client.size())}) {
      const pmix_status_t in = PMIx_Connect(members.data(), members.size(), nullptr, 0);
      if (in != PMIX_SUCCESS) return std::printf("connect: %s\n", PMIx_Error_string(in)), 1;
      const pmix_status_t out = PMIx_Disconnect(members.data(), members.size(), nullptr, 0);
      if (out != PMIX_SUCCESS) return std::printf("disconnect: %s\n", PMIx_Error_string(out)), 1;
    }
  }
  std::puts("connected");
  return 0;
}

/// A scenario that needs libpmix's name of this process.
template <class Scenario>
int as_process(Client& client, Scenario scenario) {
  pmix_proc_t self;
  if (PMIx_Init(&self, nullptr, 0) != PMIX_SUCCESS) return 1;
  const int status = scenario(client, self);
  return PMIx_Finalize(nullptr, 0) == PMIX_SUCCESS ? status : 1;
}

int leave_without_finalize() { ::_exit(0); }

int count_fences(Client& client) {
  for (int i = 0; i < 200; ++i) {
    if (auto done = client.fence(); !done) return fail("fence", done.error());
  }
  std::puts("fenced");
  return 0;
}

int wait_for_ever(Client& client) {
  if (auto done = client.fence(); !done) return fail("fence", done.error());
  std::puts("up");
  std::fflush(stdout);
  while (true) (void)client.get((client.rank() + 1) % client.size(), "never");
}

/// Stays in the job until the file is there.
int until(Client& client, char** arguments) {
  if (auto done = client.fence(); !done) return fail("fence", done.error());
  std::puts("up");
  std::fflush(stdout);
  while (::access(arguments[0], F_OK) != 0) std::this_thread::sleep_for(std::chrono::milliseconds{2});
  return 0;
}

/// Each rank leaves a file in the folder before the fence, the last one late, and finds those of all after it.
int barrier(Client& client, char** arguments) {
  const auto file_of = [&](unsigned rank) { return std::string{arguments[0]} + "/" + std::to_string(rank); };
  if (client.rank() == client.size() - 1) std::this_thread::sleep_for(std::chrono::milliseconds{300});
  std::ofstream{file_of(client.rank())} << "here";
  if (auto done = client.fence(); !done) return fail("fence", done.error());
  int missing = 0;
  for (unsigned rank = 0; rank < client.size(); ++rank) missing += ::access(file_of(rank).c_str(), F_OK) != 0 ? 1 : 0;
  if (missing != 0) std::printf("rank %u left the fence before %d others came\n", client.rank(), missing);
  return missing != 0 ? 1 : 0;
}

/// Prints each step of a checkpoint and answers it; rank `arguments[0]` cannot do the third.
int take_checkpoint_steps(Client& client, char** arguments) {
  using Step = runtime::CheckpointStep;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Step> steps;
  client.on_checkpoint([&](const Step& step) {
    const std::lock_guard guard{mutex};
    steps.push_back(step);
    changed.notify_one();
  });
  if (auto done = client.fence(); !done) return fail("fence", done.error());
  std::printf("ready\n");
  std::fflush(stdout);
  for (int count = 1;; ++count) {
    std::unique_lock lock{mutex};
    changed.wait(lock, [&] { return !steps.empty(); });
    const Step step = steps.front();
    steps.pop_front();
    lock.unlock();
    std::printf("%d of round %d\n", static_cast<int>(step.kind), static_cast<int>(step.round));
    std::fflush(stdout);
    if (step.kind == Step::Kind::resume) break;
    const bool can = count != 3 || arguments[0] != std::to_string(client.rank());
    client.answer_checkpoint(step, can ? "" : "the disk is full");
  }
  client.on_checkpoint({});
  return 0;
}

int run(Client& client, const std::string& scenario, char** arguments) {
  if (scenario == "barrier") return barrier(client, arguments);
  if (scenario == "exchange") return exchange(client, false);
  if (scenario == "collect") return exchange(client, true);
  if (scenario == "without_fence") return without_fence(client);
  if (scenario == "keys") return one_key_after_another(client);
  if (scenario == "names") return names(client);
  if (scenario == "secret") return secret(client);
  if (scenario == "name_twice") return name_twice(client);
  if (scenario == "large_values") return large_values(client);
  if (scenario == "abort") return abort_job(client);
  if (scenario == "die_in_fence") return die_in_fence(client, arguments);
  if (scenario == "death_event") return death_event(client);
  if (scenario == "leave") return leave_without_finalize();
  if (scenario == "fences") return count_fences(client);
  if (scenario == "forever") return wait_for_ever(client);
  if (scenario == "until") return until(client, arguments);
  if (scenario == "connect") return as_process(client, connect_ranks);
  if (scenario == "raise") {
    return as_process(client, [&](Client& c, const pmix_proc_t& self) { return raise_events(c, self, arguments); });
  }
  if (scenario == "ask_the_dead") return as_process(client, ask_the_dead);
  if (scenario == "miss") {
    return as_process(client, [&](Client& c, const pmix_proc_t& self) { return miss(c, self, arguments); });
  }
  if (scenario == "without") {
    return as_process(client, [&](Client& c, const pmix_proc_t& self) { return without(c, self, arguments); });
  }
  if (scenario == "checkpoint") return take_checkpoint_steps(client, arguments);
  if (scenario == "survive") return survive(client, arguments);
  std::printf("unknown scenario %s\n", scenario.c_str());
  return 2;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  auto client = Client::open();
  if (!client) return fail("open", client.error());
  const int status = run(**client, argv[1], argv + 2);
  if (auto left = (*client)->finalize(); !left) return fail("finalize", left.error());
  return status;
}
