// SPDX-License-Identifier: Apache-2.0
#include "runtime/tools/perf/tune.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "opal/core/system/machine.hpp"
#include "runtime/tools/perf/tests/conversation.hpp"
#include "runtime/tools/perf/tests/sampling.hpp"

namespace opal::perf {
namespace {

/// The variable that selects a protocol, and the sizes that the protocol supports.
struct Forced {
  Path path;
  const char* variable;
  const char* value;  ///< null: the default
  std::uint64_t first;
  std::uint64_t last;
  bool message;      ///< one message; else an offer and a get
  bool shared_pool;  ///< the memory lies in a shared pool
};

constexpr std::uint64_t kLargestMessage = 32 << 10;
constexpr std::uint64_t kLargestGet = 1 << 20;
constexpr Forced kForced[] = {
    {Path::box, "btl_sm_fbox_max", nullptr, 64, kLargestMessage, true, false},
    {Path::fragment, "btl_sm_fbox_max", "0", 64, kLargestMessage, true, false},
    {Path::get, "btl_sm_large_get", nullptr, 64, kLargestGet, false, false},
    {Path::mapped, "btl_sm_large_get", "alone", 4096, kLargestGet, false, true},
    {Path::mapped_cooperative, "btl_sm_large_get", "cooperative", 4096, kLargestGet, false, true},
};

/// The time from the post until rank 1 says that the bytes are in its buffer; the sender has just written them.
Result<Times> deliveries(Conversation& with, const Forced& forced, const Plan& plan, const Report& report) {
  Times times;
  for (const std::uint64_t size : plan.sizes) {
    if (size < forced.first || size > forced.last) continue;
    // A time for each, since what is written between them does not count.
    constexpr std::uint64_t kBudgetNs = 50'000'000;
    constexpr std::uint64_t kWarm = 30;
    const std::uint64_t most = plan.iterations != 0 ? plan.iterations : 2000;
    std::vector<double> samples;
    const std::uint64_t begin = now_ns();
    for (std::uint64_t i = 0; i < kWarm + most && (samples.size() < 20 || now_ns() - begin < kBudgetNs); ++i) {
      for (std::uint64_t at = 0; at < size; at += kCacheLine) with.local()[at] = static_cast<std::byte>(i + at);
      const std::uint64_t answers = with.answers() + 1;
      const std::uint64_t start = now_ns();
      const bool sent =
          forced.message ? with.send(kCopy, true, {with.local(), size}) : with.send(kFetch, true, bytes_of(size));
      with.await_answers(answers);
      if (!sent || with.peer().dead()) return with.peer().error();
      if (i >= kWarm) samples.push_back(static_cast<double>(now_ns() - start));
    }
    Row row{.test = "tune", .btl = "sm", .size = size, .iterations = samples.size()};
    row.op = name(forced.path);
    row.latency = statistics(samples);
    report(row);
    times[size] = row.latency->p50;
  }
  return times;
}

}  // namespace

Result<Measurements> measure_paths(Pairing& pairing, const Plan& plan, const Report& report) {
  Measurements measured;
  for (const Forced& forced : kForced) {
    // Wide enough for every message that is measured, so that only the way differs.
    ConversationOptions options{.settings = {{"btl_sm_max_send", "128K"},
                                             {"btl_sm_segment_size", "4M"},
                                             {"btl_sm_fbox_size", "256K"},
                                             {"btl_sm_fbox_limit", "64K"}},
                                .shared_pool = forced.shared_pool};
    if (forced.value != nullptr) options.settings.emplace_back(forced.variable, forced.value);
    OPAL_TRY(Conversation::run(pairing, "sm", 1 << 20, options, [&](Conversation& with) -> Result<void> {
      OPAL_TRY_ASSIGN(measured[forced.path], deliveries(with, forced, plan, report));
      return {};
    }));
  }
  return measured;
}

Result<std::string> tuning_file() {
  const std::string folder = user_tuning_folder();
  if (folder.empty())
    return Error{Errc::unreachable, 0, "--store: neither HOME nor XDG_CONFIG_HOME is set: name a file"};
  return folder + '/' + machine_kind() + ".conf";
}

Result<void> store(const std::vector<SwitchPoint>& points, const std::string& path) {
  std::string text = fmt::format("# Measured by opal-perf tune on machine kind {}.\n", machine_kind());
  for (const SwitchPoint& point : points) {
    text += fmt::format("\n# {}\n{} = {}\n", point.reason, point.variable, point.bytes);
  }
  // Renamed into place, so that no process that starts meanwhile reads half of it.
  const std::string fresh = fmt::format("{}.{}", path, ::getpid());
  std::error_code failed;
  const std::filesystem::path folder = std::filesystem::path{path}.parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder, failed);
  if (failed) return Error{Errc::os, failed.value(), "--store: mkdir"};
  std::ofstream file{fresh};
  if (!file) return Error{Errc::os, errno, "--store: open"};
  file << text;
  file.close();
  if (!file || std::rename(fresh.c_str(), path.c_str()) != 0) {
    const Error error{Errc::os, errno, "--store: write"};
    (void)::unlink(fresh.c_str());
    return error;
  }
  return {};
}

}  // namespace opal::perf
