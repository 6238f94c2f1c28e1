// SPDX-License-Identifier: Apache-2.0
// A rank that calls libpmix itself, as other programs do: pmix_rank SCENARIO.  Prints what it saw; exits with 0 when
// that is right.
#include <pmix.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

namespace {

pmix_proc_t g_self;

int fail(const char* what, pmix_status_t status) {
  std::printf("%s: %s\n", what, PMIx_Error_string(status));
  return 1;
}

int meet() { return PMIx_Fence(nullptr, 0, nullptr, 0); }

/// The answers to questions with the same qualifiers.
class Answers {
 public:
  explicit Answers(const std::vector<const char*>& keys, const std::vector<pmix_info_t>& qualifiers = {}) {
    pmix_query_t* query = nullptr;
    PMIX_QUERY_CREATE(query, 1);
    for (const char* key : keys) PMIX_ARGV_APPEND(status_, query->keys, key);
    if (!qualifiers.empty()) {
      PMIX_QUERY_QUALIFIERS_CREATE(query, qualifiers.size());
      for (std::size_t i = 0; i < qualifiers.size(); ++i) PMIX_INFO_XFER(&query->qualifiers[i], &qualifiers[i]);
    }
    status_ = PMIx_Query_info(query, 1, &infos_, &count_);
    PMIX_QUERY_FREE(query, 1);
  }
  Answers(const Answers&) = delete;
  Answers& operator=(const Answers&) = delete;
  ~Answers() {
    if (infos_ != nullptr) PMIX_INFO_FREE(infos_, count_);
  }
  [[nodiscard]] pmix_status_t status() const { return status_; }
  [[nodiscard]] const pmix_value_t* find(const char* key) const {
    for (std::size_t i = 0; i < count_; ++i) {
      if (PMIX_CHECK_KEY(&infos_[i], key)) return &infos_[i].value;
    }
    return nullptr;
  }

 private:
  pmix_status_t status_ = PMIX_SUCCESS;
  pmix_info_t* infos_ = nullptr;
  std::size_t count_ = 0;
};

/// Prints "rank host pid|-" of each process of a table.
int print_table(const char* key) {
  const Answers answers{{key}};
  if (answers.status() != PMIX_SUCCESS) return fail(key, answers.status());
  const pmix_value_t* const table = answers.find(key);
  if (table == nullptr || table->type != PMIX_DATA_ARRAY || table->data.darray->type != PMIX_PROC_INFO) {
    return std::printf("%s: no table\n", key), 1;
  }
  const auto* const procs = static_cast<const pmix_proc_info_t*>(table->data.darray->array);
  for (std::size_t i = 0; i < table->data.darray->size; ++i) {
    const pmix_proc_info_t& proc = procs[i];
    const bool own = proc.proc.rank == g_self.rank;
    if (own && proc.pid != ::getpid()) return std::puts("a wrong process id"), 1;
    if (own && proc.state != PMIX_PROC_STATE_CONNECTED) return std::puts("a wrong state"), 1;
    std::printf("%s: rank %u on %s%s\n", key == std::string{PMIX_QUERY_PROC_TABLE} ? "job" : "local", proc.proc.rank,
                proc.hostname, std::strstr(proc.executable_name, "pmix_rank") != nullptr ? "" : " of another program");
  }
  return 0;
}

/// Every key that is said to be supported gets an answer.
int ask_for_every_key() {
  const Answers list{{PMIX_QUERY_SUPPORTED_KEYS}};
  const pmix_value_t* const found = list.find(PMIX_QUERY_SUPPORTED_KEYS);
  if (found == nullptr || found->type != PMIX_STRING) return fail("supported keys", list.status());
  std::istringstream keys{found->data.string};
  unsigned count = 0;
  for (std::string key; std::getline(keys, key, ','); ++count) {
    if (key == PMIX_QUERY_GROUP_MEMBERSHIP) continue;  // wants to know of which group
    const Answers answers{{key.c_str()}};
    if (answers.status() != PMIX_SUCCESS) return fail(key.c_str(), answers.status());
    if (answers.find(key.c_str()) == nullptr) return std::printf("%s: no answer\n", key.c_str()), 1;
  }
  return count > 0 ? 0 : 1;
}

/// The status of the question for the table of a job's process.
pmix_status_t ask_for(const char* job, pmix_rank_t rank) {
  pmix_proc_t proc;
  PMIX_LOAD_PROCID(&proc, job, rank);
  std::vector<pmix_info_t> which(1);
  PMIX_INFO_LOAD(&which[0], PMIX_PROCID, &proc, PMIX_PROC);
  const pmix_status_t status = Answers{{PMIX_QUERY_PROC_TABLE}, which}.status();
  PMIX_INFO_DESTRUCT(&which[0]);
  return status;
}

void print_refusals() {
  const auto print = [](const char* what, pmix_status_t status) {
    std::printf("%s: %s\n", what, PMIx_Error_string(status));
  };
  print("another job", ask_for("no-such-job", 0));
  print("no rank", ask_for(g_self.nspace, 1U << 20));
  print("rank 0", ask_for(g_self.nspace, 0));
  print("queues and namespaces", Answers{{PMIX_QUERY_NAMESPACES, PMIX_QUERY_QUEUE_LIST}}.status());
  print("queues", Answers{{PMIX_QUERY_QUEUE_LIST}}.status());
  print("members of no group", Answers{{PMIX_QUERY_GROUP_MEMBERSHIP}}.status());
}

/// Prints the groups that are known here, with their members; not what libpmix remembers of an earlier answer.
int print_groups() {
  std::vector<pmix_info_t> which(2);
  PMIX_INFO_LOAD(&which[0], PMIX_QUERY_REFRESH_CACHE, nullptr, PMIX_BOOL);
  PMIX_INFO_LOAD(&which[1], PMIX_GROUP_ID, "evens", PMIX_STRING);
  const Answers names{{PMIX_QUERY_NUM_GROUPS, PMIX_QUERY_GROUP_NAMES}, which};
  const Answers members{{PMIX_QUERY_GROUP_MEMBERSHIP}, which};
  for (pmix_info_t& info : which) PMIX_INFO_DESTRUCT(&info);
  if (names.status() != PMIX_SUCCESS) return fail("groups", names.status());
  const pmix_value_t* const count = names.find(PMIX_QUERY_NUM_GROUPS);
  const pmix_value_t* const all = names.find(PMIX_QUERY_GROUP_NAMES);
  if (count == nullptr || all == nullptr || all->type != PMIX_DATA_ARRAY) return std::puts("no groups"), 1;
  std::printf("%zu groups", count->data.size);
  for (std::size_t i = 0; i < all->data.darray->size; ++i) {
    std::printf(" %s", static_cast<char**>(all->data.darray->array)[i]);
  }
  if (const pmix_value_t* const of_evens = members.find(PMIX_QUERY_GROUP_MEMBERSHIP); of_evens != nullptr) {
    for (std::size_t i = 0; i < of_evens->data.darray->size; ++i) {
      std::printf(" %u", static_cast<pmix_proc_t*>(of_evens->data.darray->array)[i].rank);
    }
  } else {
    std::printf(" %s", PMIx_Error_string(members.status()));
  }
  std::puts("");
  return 0;
}

int ask_for_groups() {
  if (g_self.rank % 2 == 0) {
    pmix_proc_t members[2];
    PMIX_LOAD_PROCID(&members[0], g_self.nspace, 0);
    PMIX_LOAD_PROCID(&members[1], g_self.nspace, 2);
    pmix_info_t wish;  // without it a group of one host is libpmix's own affair
    PMIX_INFO_LOAD(&wish, PMIX_GROUP_ASSIGN_CONTEXT_ID, nullptr, PMIX_BOOL);
    pmix_info_t* results = nullptr;
    std::size_t count = 0;
    const pmix_status_t made = PMIx_Group_construct("evens", members, 2, &wish, 1, &results, &count);
    if (made != PMIX_SUCCESS) return fail("construct", made);
    if (results != nullptr) PMIX_INFO_FREE(results, count);
    if (const int status = print_groups(); status != 0) return status;
    const pmix_status_t ended = PMIx_Group_destruct("evens", nullptr, 0);
    if (ended != PMIX_SUCCESS) return fail("destruct", ended);
    if (const int status = print_groups(); status != 0) return status;
  }
  return meet();
}

/// How publishing with that directive ends.
pmix_status_t publish(const char* name, const char* directive, const void* value, pmix_data_type_t type) {
  pmix_info_t infos[2];
  PMIX_INFO_LOAD(&infos[0], name, "a value", PMIX_STRING);
  PMIX_INFO_LOAD(&infos[1], directive, value, type);
  const pmix_status_t status = PMIx_Publish(infos, 2);
  for (pmix_info_t& info : infos) PMIX_INFO_DESTRUCT(&info);
  return status;
}

/// Rank 0 publishes and goes; the other one sees what is left.
int publish_in_ranges() {
  if (g_self.rank == 0) {
    for (const pmix_data_range_t range : {PMIX_RANGE_LOCAL, PMIX_RANGE_PROC_LOCAL, PMIX_RANGE_RM, PMIX_RANGE_CUSTOM}) {
      const pmix_status_t status = publish("narrow", PMIX_RANGE, &range, PMIX_DATA_RANGE);
      if (status != PMIX_ERR_NOT_SUPPORTED) return fail("a narrow range", status);
    }
    const pmix_data_range_t session = PMIX_RANGE_SESSION;
    if (publish("wide", PMIX_RANGE, &session, PMIX_DATA_RANGE) != PMIX_SUCCESS) return std::puts("not published"), 1;
    const pmix_persistence_t process = PMIX_PERSIST_PROC;
    if (publish("mine", PMIX_PERSISTENCE, &process, PMIX_PERSIST) != PMIX_SUCCESS) return std::puts("not published"), 1;
    return meet();
  }
  if (meet() != PMIX_SUCCESS) return 1;
  const auto look_up = [](const char* name) {
    pmix_pdata_t found;
    PMIX_PDATA_CONSTRUCT(&found);
    PMIX_LOAD_KEY(found.key, name);
    const pmix_status_t status = PMIx_Lookup(&found, 1, nullptr, 0);
    PMIX_PDATA_DESTRUCT(&found);
    return status;
  };
  while (look_up("mine") == PMIX_SUCCESS) ::usleep(1000);  // rank 0 is about to end
  std::printf("wide: %s, narrow: %s\n", PMIx_Error_string(look_up("wide")), PMIx_Error_string(look_up("narrow")));
  return 0;
}

/// Many requests at a time, of which the server's own thread answers some and libpmix's thread the others.
int ask_much_at_a_time() {
  constexpr int kRounds = 100;
  constexpr int kAtATime = 50;
  static std::atomic<int> answered{0};
  static std::atomic<int> wrong{0};
  const auto count = [](pmix_status_t status, void*) {
    if (status != PMIX_SUCCESS && status != PMIX_OPERATION_SUCCEEDED) ++wrong;
    ++answered;
    answered.notify_one();
  };
  for (int round = 0; round < kRounds; ++round) {
    std::array<pmix_info_t, kAtATime> infos;
    for (int i = 0; i < kAtATime; ++i) {
      const std::string name = std::to_string(g_self.rank) + ": " + std::to_string(round * kAtATime + i);
      PMIX_INFO_LOAD(&infos[i], name.c_str(), name.c_str(), PMIX_STRING);
      const pmix_status_t publishes = PMIx_Publish_nb(&infos[i], 1, count, nullptr);
      if (publishes != PMIX_SUCCESS) return fail("publish", publishes);
      const pmix_status_t notifies =
          PMIx_Notify_event(PMIX_EXTERNAL_ERR_BASE - 1, &g_self, PMIX_RANGE_LOCAL, nullptr, 0, count, nullptr);
      if (notifies != PMIX_SUCCESS) return fail("notify", notifies);
    }
    const int all = 2 * (round + 1) * kAtATime;
    for (int seen = answered; seen < all; seen = answered) answered.wait(seen);
    for (pmix_info_t& info : infos) PMIX_INFO_DESTRUCT(&info);
  }
  std::printf("%d answered, %d wrong\n", answered.load(), wrong.load());
  return meet();
}

int ask() {
  if (meet() != PMIX_SUCCESS) return 1;
  if (g_self.rank == 0) {
    const Answers known{{PMIX_QUERY_NAMESPACES, PMIX_RM_NAME, PMIX_QUERY_NUM_PSETS}};
    if (known.status() != PMIX_SUCCESS) return fail("namespaces", known.status());
    const pmix_value_t* const jobs = known.find(PMIX_QUERY_NAMESPACES);
    const pmix_value_t* const manager = known.find(PMIX_RM_NAME);
    if (jobs == nullptr || std::strcmp(jobs->data.string, g_self.nspace) != 0) return std::puts("other jobs"), 1;
    if (manager == nullptr || std::strcmp(manager->data.string, "opalrun") != 0) return std::puts("no name"), 1;
    if (const int status = print_table(PMIX_QUERY_PROC_TABLE); status != 0) return status;
    if (const int status = print_table(PMIX_QUERY_LOCAL_PROC_TABLE); status != 0) return status;

    if (const int status = ask_for_every_key(); status != 0) return status;
    print_refusals();
  }
  return meet();
}

/// What opalrun does not offer is refused at once, not ignored or left waiting.
int ask_for_too_much() {
  pmix_info_t directive;
  PMIX_INFO_LOAD(&directive, PMIX_JOB_CTRL_PAUSE, nullptr, PMIX_BOOL);
  pmix_info_t* results = nullptr;
  std::size_t count = 0;
  const pmix_status_t control = PMIx_Job_control(&g_self, 1, &directive, 1, &results, &count);
  const pmix_status_t allocation = PMIx_Allocation_request(PMIX_ALLOC_NEW, &directive, 1, &results, &count);
  PMIX_INFO_DESTRUCT(&directive);
  pmix_app_t app;
  PMIX_APP_CONSTRUCT(&app);
  app.cmd = ::strdup("true");
  app.maxprocs = 1;
  pmix_nspace_t spawned;
  const pmix_status_t spawn = PMIx_Spawn(nullptr, 0, &app, 1, spawned);
  PMIX_APP_DESTRUCT(&app);
  for (const auto& [what, status] :
       {std::pair{"job control", control}, std::pair{"allocation", allocation}, std::pair{"spawn", spawn}}) {
    std::printf("%s: %s\n", what, status == PMIX_ERR_NOT_SUPPORTED ? "not supported" : PMIx_Error_string(status));
  }
  return meet();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string scenario = argc < 2 ? "" : argv[1];
  if (const pmix_status_t status = PMIx_Init(&g_self, nullptr, 0); status != PMIX_SUCCESS) return fail("init", status);
  int status = 2;
  if (scenario == "query") status = ask();
  if (scenario == "groups") status = ask_for_groups();
  if (scenario == "ranges") status = publish_in_ranges();
  if (scenario == "much") status = ask_much_at_a_time();
  if (scenario == "unsupported") status = ask_for_too_much();
  std::fflush(stdout);
  return PMIx_Finalize(nullptr, 0) == PMIX_SUCCESS ? status : 1;
}
