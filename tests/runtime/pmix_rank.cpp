// SPDX-License-Identifier: Apache-2.0
// A rank that calls libpmix itself, as other programs do: pmix_rank SCENARIO.  Prints what it saw; exits with 0 when
// that is right.
#include <pmix.h>
#include <unistd.h>

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
  print("groups", Answers{{PMIX_QUERY_NUM_GROUPS}}.status());
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
  if (scenario == "unsupported") status = ask_for_too_much();
  std::fflush(stdout);
  return PMIx_Finalize(nullptr, 0) == PMIX_SUCCESS ? status : 1;
}
