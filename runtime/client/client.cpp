// SPDX-License-Identifier: Apache-2.0
#include "runtime/client/client.hpp"

#include <pmix.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <utility>

#include "opal/am/bootstrap/secret_choice.hpp"
#include "opal/am/config.hpp"
#include "opal/core/clock.hpp"
#include "opal/core/config/store.hpp"
#include "opal/core/environment.hpp"
#include "opal/core/log.hpp"
#include "opal/core/text.hpp"
#include "opal/memory/events/monitor.hpp"
#include "runtime/checkpoint_words.hpp"
#include "runtime/pmix/info_list.hpp"
#include "runtime/pmix/status.hpp"
#include "runtime/variables.hpp"

namespace runtime {
namespace {

using opal::ByteSpan;
using opal::Errc;
using opal::Error;
using opal::Result;
using pmix::check;
using pmix::InfoList;
using pmix::to_error;

constexpr std::chrono::seconds kLongestFlush{1};

struct ReleaseValue {
  void operator()(pmix_value_t* value) const noexcept { PMIX_VALUE_RELEASE(value); }
};
using Value = std::unique_ptr<pmix_value_t, ReleaseValue>;

/// A process of this job.
pmix_proc_t proc_of(const std::string& job, pmix_rank_t rank) {
  pmix_proc_t proc;
  PMIX_LOAD_PROCID(&proc, job.c_str(), rank);
  return proc;
}

/// A key for libpmix, which wants it zero-terminated.
Result<std::string> key_text(std::string_view key) {
  if (key.empty() || key.size() > PMIX_MAX_KEYLEN) {
    return Error{Errc::invalid_argument, 0, "key: empty or too long", key.size()};
  }
  return std::string{key};
}

/// What the launcher says about the job or a rank without asking any rank; null when it says nothing.
Value ask(const pmix_proc_t& proc, const char* key) {
  InfoList infos;
  infos.add(PMIX_OPTIONAL, true);
  pmix_value_t* value = nullptr;
  if (PMIx_Get(&proc, key, infos.data(), infos.size(), &value) != PMIX_SUCCESS) return nullptr;
  return Value{value};
}

/// The value as a number.  Accepts any integer type, since launchers use different ones.
std::optional<std::uint64_t> number(const Value& value) {
  if (!value) return {};
  pmix_status_t status = PMIX_SUCCESS;
  std::uint64_t result = 0;
  PMIX_VALUE_GET_NUMBER(status, value.get(), result, std::uint64_t);
  if (status != PMIX_SUCCESS) return {};
  return result;
}

/// "0,1,5-7" -> {0, 1, 5, 6, 7}.  Leaves out parts without a number or with a rank >= `size`.
std::vector<unsigned> parse_ranks(std::string_view text, unsigned size) {
  std::vector<unsigned> ranks;
  for (const std::string_view part : opal::split(text, ',')) {
    const std::vector<std::string_view> bounds = opal::split(part, '-');
    const auto first = opal::parse_number<unsigned>(bounds.front());
    const auto last = opal::parse_number<unsigned>(bounds.back());
    if (!first || !last || *last >= size) continue;
    for (unsigned rank = *first; rank <= *last; ++rank) ranks.push_back(rank);
  }
  std::ranges::sort(ranks);
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

Result<Client::Bytes> bytes_of_value(const pmix_value_t& value) {
  if (value.type != PMIX_BYTE_OBJECT) return Error{Errc::protocol, 0, "a published value is not bytes", value.type};
  const auto* const begin = reinterpret_cast<const std::byte*>(value.data.bo.bytes);
  return Client::Bytes(begin, begin + value.data.bo.size);
}

/// A PMIx_Get_nb call and its answer.  Some launchers ignore PMIX_TIMEOUT, so ask_once() has its own timeout, and the
/// answer may come after that.  The cookie of the call is a shared_ptr to this object: libpmix reads the arguments
/// until it has answered.
struct Question {
  pmix_proc_t owner;
  std::string key;
  InfoList infos{};
  std::promise<Result<Client::Bytes>> answer{};
};

void on_value(pmix_status_t status, pmix_value_t* value, void* cookie) {
  const std::unique_ptr<std::shared_ptr<Question>> share{static_cast<std::shared_ptr<Question>*>(cookie)};
  const bool good = status == PMIX_SUCCESS && value != nullptr;
  (*share)->answer.set_value(good ? bytes_of_value(*value) : to_error(status, "PMIx_Get"));
}

Result<Client::Bytes> ask_once(const pmix_proc_t& owner, const std::string& key, const opal::Deadline& deadline) {
  const std::shared_ptr<Question> question{new Question{owner, key}};
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(deadline.remaining());
  question->infos.add(PMIX_TIMEOUT, static_cast<int>(seconds.count()) + 1);
  std::future<Result<Client::Bytes>> answer = question->answer.get_future();
  auto cookie = std::make_unique<std::shared_ptr<Question>>(question);
  const pmix_status_t status = PMIx_Get_nb(&question->owner, question->key.c_str(), question->infos.data(),
                                           question->infos.size(), on_value, cookie.get());
  if (status != PMIX_SUCCESS) return to_error(status, "PMIx_Get");
  (void)cookie.release();  // on_value() owns it now
  if (answer.wait_for(deadline.remaining()) == std::future_status::ready) return answer.get();
  return Error{Errc::timed_out, 0, "PMIx_Get"};
}

/// True for the answer that no process has published the key.
bool is_missing(const Result<Client::Bytes>& answer) {
  return !answer && answer.error().detail == static_cast<std::uint64_t>(-PMIX_ERR_NOT_FOUND);
}

/// A handler of events.  Not a member of the Client: libpmix may deliver an event after the Client is destroyed, and
/// its threads outlive static destructors.
template <class Argument>
class EventHandler {
 public:
  static EventHandler& only() {
    static EventHandler& handler = *new EventHandler;
    return handler;
  }
  void set(std::function<void(Argument)> handler, const std::string& job_id) {
    const std::lock_guard guard{mutex_};
    handler_ = std::move(handler);
    job_id_ = job_id;
  }
  void call(const pmix_proc_t* source, Argument argument) {
    const std::lock_guard guard{mutex_};
    if (handler_ && source != nullptr && job_id_ == source->nspace) handler_(argument);
  }

 private:
  std::mutex mutex_;
  std::function<void(Argument)> handler_;  // guarded by mutex_
  std::string job_id_;                     // guarded by mutex_
};
using Deaths = EventHandler<unsigned>;
using Checkpoints = EventHandler<const CheckpointStep&>;

void on_death_event(std::size_t /*id*/, pmix_status_t /*status*/, const pmix_proc_t* source, pmix_info_t* /*info*/,
                    std::size_t /*count*/, pmix_info_t* /*results*/, std::size_t /*result_count*/,
                    pmix_event_notification_cbfunc_fn_t done, void* cookie) {
  if (source != nullptr) Deaths::only().call(source, source->rank);
  if (done != nullptr) done(PMIX_EVENT_ACTION_COMPLETE, nullptr, 0, nullptr, nullptr, cookie);
}

/// "quiesce 3"; nothing when it is no such request.
std::optional<CheckpointStep> parse_step(std::string_view text) {
  const std::size_t space = text.find(' ');
  const auto* const name = std::ranges::find(kCheckpointSteps, text.substr(0, space));
  if (name == kCheckpointSteps.end() || space == std::string_view::npos) return {};
  CheckpointStep step{CheckpointStep::Kind(name - kCheckpointSteps.begin())};
  const auto round = opal::parse_number<decltype(step.round)>(text.substr(space + 1));
  if (!round) return {};
  step.round = *round;
  return step;
}

void on_checkpoint_event(std::size_t /*id*/, pmix_status_t /*status*/, const pmix_proc_t* source, pmix_info_t* infos,
                         std::size_t count, pmix_info_t* /*results*/, std::size_t /*result_count*/,
                         pmix_event_notification_cbfunc_fn_t done, void* cookie) {
  for (const pmix_info_t& info : std::span{infos, count}) {
    if (!PMIX_CHECK_KEY(&info, PMIX_JOB_CTRL_ID) || info.value.type != PMIX_STRING) continue;
    if (const auto step = parse_step(info.value.data.string)) Checkpoints::only().call(source, *step);
  }
  if (done != nullptr) done(PMIX_EVENT_ACTION_COMPLETE, nullptr, 0, nullptr, nullptr, cookie);
}

/// Sends a checkpoint message to the launcher; does not wait for the answer.
void tell_of_checkpoint(const std::string& text) {
  auto infos = std::make_unique<InfoList>();
  infos->add(PMIX_JOB_CTRL_ID, text);
  const auto release = [](pmix_status_t, pmix_info_t*, std::size_t, void* pointer, pmix_release_cbfunc_t release_info,
                          void* info_cookie) {
    const std::unique_ptr<InfoList> ended{static_cast<InfoList*>(pointer)};
    if (release_info != nullptr) release_info(info_cookie);
  };
  const pmix_status_t status = PMIx_Job_control_nb(nullptr, 0, infos->data(), infos->size(), release, infos.get());
  if (status == PMIX_SUCCESS) (void)infos.release();  // `release` owns it now
}

}  // namespace

struct Client::State {
  bool singleton = false;
  bool finalized = false;
  std::atomic<bool> hears_of_deaths{false};
  std::atomic<bool> hears_of_checkpoints{false};
  std::string job_id;
  unsigned rank = 0;
  unsigned size = 1;
  std::optional<unsigned> application;
  std::vector<unsigned> local_peers{0};

  // A singleton's own data; there is no other process that could ask for it.
  std::mutex mutex;
  std::map<std::string, Bytes, std::less<>> uncommitted;  // guarded by mutex
  std::map<std::string, Bytes, std::less<>> committed;    // guarded by mutex

  /// In Slurm, a fence that collects no data does not wait for other hosts (mpi.conf: PMIxFenceBarrier).
  [[nodiscard]] InfoList infos_of_fence() const {
    InfoList infos;
    if (job_id.starts_with("slurm.pmix.")) infos.add(PMIX_COLLECT_DATA, true);
    return infos;
  }

  Result<void> join();
};

Result<void> Client::State::join() {
  pmix_proc_t self;
  OPAL_TRY(check(PMIx_Init(&self, nullptr, 0), "PMIx_Init: the launcher of this process does not answer"));
  job_id = self.nspace;
  rank = self.rank;
  const pmix_proc_t all_ranks = proc_of(job_id, PMIX_RANK_WILDCARD);
  const std::optional<std::uint64_t> count = number(ask(all_ranks, PMIX_JOB_SIZE));
  if (!count || *count == 0 || *count > UINT32_MAX || rank >= *count) {
    PMIx_Finalize(nullptr, 0);
    return Error{Errc::protocol, 0, "the launcher does not say how large the job is"};
  }
  size = static_cast<unsigned>(*count);
  application = number(ask(self, PMIX_APPNUM));
  const Value peers = ask(all_ranks, PMIX_LOCAL_PEERS);
  if (peers && peers->type == PMIX_STRING && peers->data.string != nullptr) {
    local_peers = parse_ranks(peers->data.string, size);
  }
  if (!std::ranges::binary_search(local_peers, rank)) local_peers = {rank};
  return {};
}

Client::Client(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}

Client::~Client() {
  if (const auto left = finalize(); !left) opal::log::warn("runtime", "leaving the job: {}", to_string(left.error()));
}

Result<std::unique_ptr<Client>> Client::open() {
  auto state = std::make_unique<State>();
  state->singleton = !opal::environment("PMIX_NAMESPACE").has_value();
  if (state->singleton) {
    state->job_id = "opal-singleton-" + opal::host_name() + "-" + std::to_string(::getpid());
  } else {
    // Before join(): with PMIx's threads, the monitor's registration with membarrier takes 10 ms (RCU grace period).
    OPAL_TRY_ASSIGN(const opal::memory::Config memory,
                    opal::config::Store::from_environment().load(opal::memory::kGroup));
    opal::memory::start_monitor(memory);
    OPAL_TRY(state->join());
  }
  return std::unique_ptr<Client>{new Client{std::move(state)}};
}

unsigned Client::rank() const noexcept { return state_->rank; }
unsigned Client::size() const noexcept { return state_->size; }
bool Client::singleton() const noexcept { return state_->singleton; }
std::optional<unsigned> Client::application() const noexcept { return state_->application; }
const std::string& Client::job_id() const noexcept { return state_->job_id; }
const std::vector<unsigned>& Client::local_peers() const noexcept { return state_->local_peers; }
unsigned Client::local_size() const noexcept { return static_cast<unsigned>(state_->local_peers.size()); }

bool Client::is_local(unsigned rank) const noexcept { return std::ranges::binary_search(state_->local_peers, rank); }

Result<void> Client::put(std::string_view key, ByteSpan value) {
  OPAL_TRY_ASSIGN(const std::string name, key_text(key));
  if (state_->singleton) {
    const std::lock_guard guard{state_->mutex};
    state_->uncommitted[name].assign(value.begin(), value.end());
    return {};
  }
  pmix_value_t item;
  PMIX_VALUE_CONSTRUCT(&item);
  item.type = PMIX_BYTE_OBJECT;
  item.data.bo.bytes = const_cast<char*>(reinterpret_cast<const char*>(value.data()));  // PMIx_Put copies it
  item.data.bo.size = value.size();
  return check(PMIx_Put(PMIX_GLOBAL, name.c_str(), &item), "PMIx_Put");
}

Result<void> Client::commit() {
  if (state_->singleton) {
    const std::lock_guard guard{state_->mutex};
    for (auto& [key, value] : state_->uncommitted) state_->committed[key] = std::move(value);
    state_->uncommitted.clear();
    return {};
  }
  return check(PMIx_Commit(), "PMIx_Commit");
}

Result<void> Client::fence() {
  if (state_->singleton) return {};
  const pmix_proc_t all_ranks = proc_of(state_->job_id, PMIX_RANK_WILDCARD);
  InfoList infos = state_->infos_of_fence();
  return check(PMIx_Fence(&all_ranks, 1, infos.data(), infos.size()), "PMIx_Fence");
}

Result<void> Client::fence_while(const std::function<void()>& work) {
  if (state_->singleton) return {};
  struct Answer {
    std::atomic<bool> came{false};
    pmix_status_t status = PMIX_SUCCESS;  // written before `came`
  } answer;
  const auto on_answer = [](pmix_status_t status, void* cookie) {
    auto* const to = static_cast<Answer*>(cookie);
    to->status = status;
    to->came.store(true, std::memory_order_release);
  };
  const pmix_proc_t all_ranks = proc_of(state_->job_id, PMIX_RANK_WILDCARD);
  InfoList infos = state_->infos_of_fence();
  pmix_status_t status = PMIx_Fence_nb(&all_ranks, 1, infos.data(), infos.size(), on_answer, &answer);
  if (status == PMIX_SUCCESS) {
    while (!answer.came.load(std::memory_order_acquire)) work();
    status = answer.status;
  }
  return check(status, "PMIx_Fence");
}

Result<Client::Bytes> Client::get(unsigned rank, std::string_view key, std::chrono::seconds timeout) {
  if (rank >= state_->size) return Error{Errc::invalid_argument, 0, "get: no such rank", rank};
  OPAL_TRY_ASSIGN(const std::string name, key_text(key));
  if (state_->singleton) {
    const std::lock_guard guard{state_->mutex};
    const auto entry = state_->committed.find(key);
    if (entry == state_->committed.end()) return Error{Errc::invalid_argument, 0, "no such key"};
    return entry->second;
  }
  const opal::Deadline deadline = opal::Deadline::after(timeout);
  // libpmix's store in shared memory may answer that there is no such key instead of waiting for the owner's commit,
  // and every store does so for a key that the owner adds after its first commit.
  for (std::chrono::microseconds pause{100};; pause = std::min(pause * 2, std::chrono::microseconds{20'000})) {
    Result<Bytes> answer = ask_once(proc_of(state_->job_id, rank), name, deadline);
    if (!is_missing(answer)) return answer;
    if (deadline.expired()) return Error{Errc::timed_out, 0, "PMIx_Get: the rank has not published the key", rank};
    std::this_thread::sleep_for(pause);
  }
}

Result<opal::Secret> Client::secret(const opal::config::Store& store) {
  constexpr std::string_view kKey = "opal.secret";
  OPAL_TRY_ASSIGN(const opal::am::Config config, store.load(opal::am::kGroup));
  OPAL_TRY_ASSIGN(const std::optional<std::string> named, opal::am::named_secret_text(config.secret_file));
  if (named) return opal::Secret::from_text(*named);
  if (state_->singleton) return opal::Secret::from_text(opal::Secret::random_text());
  if (state_->rank == 0) {
    const std::string fresh = opal::Secret::random_text();
    OPAL_TRY(put(kKey, std::as_bytes(std::span{fresh})));
    OPAL_TRY(commit());
  }
  OPAL_TRY_ASSIGN(const Bytes text, get(0, kKey));  // waits for rank 0
  return opal::Secret::from_text({reinterpret_cast<const char*>(text.data()), text.size()});
}

void Client::on_death(std::function<void(unsigned)> handler) {
  if (state_->singleton) return;
  const bool wanted = static_cast<bool>(handler);
  Deaths::only().set(std::move(handler), state_->job_id);
  if (!wanted || state_->hears_of_deaths.exchange(true)) return;
  static pmix_status_t codes[] = {PMIX_ERR_PROC_TERM_WO_SYNC};
  // The result is not needed: a launcher without such events sends none.  With a callback the call does not wait.
  PMIx_Register_event_handler(
      codes, 1, nullptr, 0, on_death_event, [](pmix_status_t, std::size_t, void*) {}, nullptr);
}

void Client::on_checkpoint(std::function<void(const CheckpointStep&)> handler) {
  if (state_->singleton || opal::environment(kJobIdVariable) != state_->job_id) return;
  const bool wanted = static_cast<bool>(handler);
  Checkpoints::only().set(std::move(handler), state_->job_id);
  if (wanted && !state_->hears_of_checkpoints.exchange(true)) {
    static pmix_status_t codes[] = {PMIX_JCTRL_CHECKPOINT};
    PMIx_Register_event_handler(
        codes, 1, nullptr, 0, on_checkpoint_event, [](pmix_status_t, std::size_t, void*) {}, nullptr);
  }
  // The server gets the registration of the handler before this message.
  tell_of_checkpoint(std::string{wanted ? kJoinsCheckpoints : kLeavesCheckpoints});
}

void Client::answer_checkpoint(const CheckpointStep& step, const std::string& problem) {
  if (state_->singleton) return;
  std::string text{kCheckpointSteps.at(static_cast<std::size_t>(step.kind))};
  text += ' ' + std::to_string(step.round);
  if (!problem.empty()) text += ' ' + problem;
  tell_of_checkpoint(text);
}

void Client::flush_files() noexcept try {
  // In a thread: fflush() waits for a FILE's lock, which a thread that reads stdin may hold for ever.
  std::promise<void> flushed;
  std::future<void> all = flushed.get_future();
  std::thread{[flushed = std::move(flushed)]() mutable {
    std::fflush(nullptr);
    flushed.set_value();
  }}.detach();
  all.wait_for(kLongestFlush);
} catch (const std::exception&) {  // no thread
  std::fflush(nullptr);
}

void Client::abort(int status, std::string_view text) noexcept {
  flush_files();
  // opalrun reports the text; other launchers do not.
  if (opal::environment(kJobIdVariable) != state_->job_id) {
    std::fprintf(stderr, "rank %u aborted the job with status %d: %.*s\n", state_->rank, status,
                 static_cast<int>(text.size()), text.data());
  }
  // Open MPI 4's mpirun crashes or hangs after PMIx_Abort; a non-zero exit status ends its jobs.
  const bool open_mpi = opal::environment("OMPI_MCA_ess_base_jobid") == state_->job_id;
  if (!state_->singleton && !open_mpi) {
    PMIx_Abort(status, std::string{text}.c_str(), nullptr, 0);
  }
  const int shown = status & 0xff;
  ::_exit(shown == 0 ? EXIT_FAILURE : shown);
}

Result<void> Client::finalize() {
  if (state_->singleton || state_->finalized) return {};
  state_->finalized = true;
  return check(PMIx_Finalize(nullptr, 0), "PMIx_Finalize");
}

}  // namespace runtime
