// SPDX-License-Identifier: Apache-2.0
// A rank that calls libpmix itself, as other programs do: pmix_rank SCENARIO.  Prints what it saw; exits with 0 when
// that is right.
#include <pmix.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <string>

namespace {

pmix_proc_t g_self;

int fail(const char* what, pmix_status_t status) {
  std::printf("%s: %s\n", what, PMIx_Error_string(status));
  return 1;
}

int meet() { return PMIx_Fence(nullptr, 0, nullptr, 0); }

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
  pmix_query_t* query = nullptr;
  pmix_status_t appended = PMIX_SUCCESS;
  PMIX_QUERY_CREATE(query, 1);
  PMIX_ARGV_APPEND(appended, query->keys, PMIX_QUERY_PROC_TABLE);
  const pmix_status_t asked = appended == PMIX_SUCCESS ? PMIx_Query_info(query, 1, &results, &count) : appended;
  PMIX_QUERY_FREE(query, 1);
  const pmix_status_t group = PMIx_Group_construct("group", &g_self, 1, nullptr, 0, &results, &count);
  for (const auto& [what, status] : {std::pair{"job control", control}, std::pair{"allocation", allocation},
                                     std::pair{"spawn", spawn}, std::pair{"query", asked}, std::pair{"group", group}}) {
    std::printf("%s: %s\n", what, status == PMIX_ERR_NOT_SUPPORTED ? "not supported" : PMIx_Error_string(status));
  }
  return meet();
}

}  // namespace

int main(int argc, char** argv) {
  const std::string scenario = argc < 2 ? "" : argv[1];
  if (const pmix_status_t status = PMIx_Init(&g_self, nullptr, 0); status != PMIX_SUCCESS) return fail("init", status);
  int status = 2;
  if (scenario == "ranges") status = publish_in_ranges();
  if (scenario == "much") status = ask_much_at_a_time();
  if (scenario == "unsupported") status = ask_for_too_much();
  std::fflush(stdout);
  return PMIx_Finalize(nullptr, 0) == PMIX_SUCCESS ? status : 1;
}
