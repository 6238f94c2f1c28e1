// SPDX-License-Identifier: Apache-2.0
// opal-perf: measures every transport, and the limits of the machine for comparison.  Without a launcher it forks its
// second process; under a launcher it uses ranks 0 and 1.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>

#include "opal/am/components.hpp"
#include "opal/am/transports/transports.hpp"
#include "opal/core/build_info.hpp"
#include "opal/core/config/value.hpp"
#include "runtime/tools/perf/report/report.hpp"
#include "runtime/tools/perf/tests/tests.hpp"
#include "runtime/tools/perf/tune.hpp"

namespace opal::perf {
namespace {

struct Options {
  std::string test;
  std::string transport;
  std::string sizes;
  std::uint64_t iterations = 0;
  bool json = false;
  std::string plot_file;
  bool store = false;
  std::string store_file;  // empty: tuning_file()
};

struct TestInfo {
  PairTest* run;
  std::uint64_t first_size;
  std::uint64_t last_size;
  const char* summary;
};

const std::map<std::string, TestInfo> kPairTests{
    {"am_lat", {ping_pong, 8, 32768, "one-way time of an active message, by ping-pong"}},
    {"am_rate", {streams, 8, 1024, "active messages per second, one direction"}},
    {"am_bw", {streams, 64, 65536, "bytes per second in active messages"}},
    {"put_lat", {one_sided_latency, 8, 4 << 20, "time of one put until it is visible at the peer"}},
    {"put_bw", {one_sided_bandwidth, 1024, 4 << 20, "bytes per second, 16 puts in flight"}},
    {"get_lat", {one_sided_latency, 8, 4 << 20, "time of one get"}},
    {"get_bw", {one_sided_bandwidth, 1024, 4 << 20, "bytes per second, 16 gets in flight"}},
    {"atomic_lat", {atomic_latency, 8, 8, "time of one fetching 64-bit atomic"}},
};

/// Tests that --plot does not support, since they have no series of sizes.
constexpr std::string_view kNoLine[] = {"floor", "atomic_lat", "reg"};

constexpr std::uint64_t kRegionSize = 64ULL << 20;
constexpr int kUsageError = 2;

/// "8:1M" into 8, 16, 32 ... 1 MiB; "64" into 64; empty into the test's own range.
Result<std::vector<std::uint64_t>> parse_sizes(const std::string& text, std::uint64_t first, std::uint64_t last) {
  const auto number = [](std::string_view part) -> Result<std::uint64_t> {
    const config::Parsed size = config::parse(part, config::Type::size, {});
    if (size.problem.empty()) return std::get<ByteSize>(size.value).bytes;
    return Error{Errc::invalid_argument, 0, "--size: expected N or N:M, with K, M or G for powers of 1024"};
  };
  if (!text.empty()) {
    const std::size_t colon = text.find(':');
    OPAL_TRY_ASSIGN(first, number(text.substr(0, colon)));
    last = first;
    if (colon != std::string::npos) {
      OPAL_TRY_ASSIGN(last, number(text.substr(colon + 1)));
    }
  }
  if (first == 0 || last < first || last > kRegionSize) {
    return Error{Errc::invalid_argument, 0, "--size: sizes go from 1 byte to 64 MiB, the smaller one first"};
  }
  std::vector<std::uint64_t> sizes;
  for (std::uint64_t size = first; size <= last; size *= 2) sizes.push_back(size);
  return sizes;
}

/// The transports to measure: the one asked for, or every usable one that joins processes.
Result<std::vector<std::string>> transports(const Options& options) {
  if (!options.transport.empty()) return std::vector<std::string>{options.transport};
  OPAL_TRY_ASSIGN(const Secret own, Secret::from_text(Secret::random_text()));  // no other process is to connect
  OPAL_TRY_ASSIGN(const auto context, am::Context::open(config::Store::from_environment(), {.secret = own}));
  std::vector<std::string> names;
  for (const am::TransportState& state : context->transports()) {
    if (state.usable && state.name != "self") names.emplace_back(state.name);
  }
  return names;
}

class Program {
 public:
  explicit Program(Options options) : options_(std::move(options)) {}

  /// What is wrong with the command line, before anything is measured; empty if nothing is.
  [[nodiscard]] std::string problem() const {
    const auto sizes = parse_sizes(options_.sizes, 1, 2);
    if (!sizes) return fmt::format("{}, not {}", sizes.error().where, options_.sizes);
    const btl::Registry registry = am::find_components(config::Store::from_environment()).registry;
    if (!options_.transport.empty() && registry.find(options_.transport) == nullptr) {
      return "--btl: " + am::why_unknown(options_.transport, registry);
    }
    if (options_.plot_file.empty()) return {};
    if (sizes->size() < 2 || std::find(std::begin(kNoLine), std::end(kNoLine), options_.test) != std::end(kNoLine)) {
      return "--plot draws lines over message size: it needs a test with sizes, and more than one size";
    }
    if (!std::ofstream{options_.plot_file, std::ios::app}) {
      return fmt::format("--plot {}: {}", options_.plot_file, std::strerror(errno));
    }
    return {};
  }

  Result<void> run() {
    const Result<void> measured = measure();
    if (!options_.plot_file.empty() && (pairing_ == nullptr || pairing_->rank() == 0)) {
      const Result<void> drawn = plot(rows_, options_.plot_file);
      std::error_code ignored;
      if (!drawn && std::filesystem::is_empty(options_.plot_file, ignored)) {
        std::filesystem::remove(options_.plot_file, ignored);
      }
      if (!drawn && measured) return drawn;
      if (drawn && !options_.json) fmt::print("\nplot: {}\n", options_.plot_file);
    }
    return measured;
  }

 private:
  Result<void> measure() {
    const Report report = [this](const Row& row) {
      rows_.push_back(row);
      if (options_.json)
        fmt::print("{}\n", to_json(row));
      else
        table_.print(row);
    };
    if (options_.test == "tune") return tune(report);
    if (options_.test == "oob_lat") return oob(report);
    if (kPairTests.contains(options_.test) || options_.test == "overview" || options_.test == "floor") {
      return paired(report);
    }
    return local(report);
  }

  /// For a test whose own range of sizes is this.
  [[nodiscard]] Result<Plan> plan_for(std::uint64_t first, std::uint64_t last) const {
    Plan plan;
    plan.iterations = options_.iterations;
    OPAL_TRY_ASSIGN(plan.sizes, parse_sizes(options_.sizes, first, last));
    return plan;
  }

  Result<void> local(const Report& report) {
    OPAL_TRY_ASSIGN(const Plan plan, plan_for(16, 65536));
    return options_.test == "reg" ? registration_cache(plan, report) : allocators(plan, report);
  }

  Result<void> tune(const Report& report) {
    OPAL_TRY_ASSIGN(pairing_, Pairing::create());
    OPAL_TRY_ASSIGN(const Plan plan, plan_for(256, 1 << 20));
    OPAL_TRY_ASSIGN(const Measurements measured, measure_paths(*pairing_, plan, report));
    if (pairing_->rank() != 0) return {};
    const std::vector<SwitchPoint> points = switch_points(measured);
    report_switch_points(points, options_.json);
    if (!options_.store) return {};
    if (options_.store_file.empty()) {
      OPAL_TRY_ASSIGN(options_.store_file, tuning_file());
    }
    OPAL_TRY(store(points, options_.store_file));
    if (!options_.json) fmt::print("\nstored: {}\n", options_.store_file);
    return {};
  }

  Result<void> oob(const Report& report) {
    OPAL_TRY_ASSIGN(pairing_, Pairing::create());
    OPAL_TRY_ASSIGN(const Plan plan, plan_for(8, 32768));
    OPAL_TRY_ASSIGN(const std::vector<std::string> names, transports(options_));
    for (const std::string& name : names) {
      const Result<void> measured = oob_latency(*pairing_, name, plan, report);
      if (!measured && (measured.error().code != Errc::not_supported || names.size() == 1)) return measured;
      if (!measured) fmt::print(stderr, "opal-perf: {}: {}\n", name, to_string(measured.error()));
    }
    return {};
  }

  Result<void> paired(const Report& report) {
    // The second process is forked before a Context with its threads exists.
    OPAL_TRY_ASSIGN(pairing_, Pairing::create());
    const std::optional<Latency> line = cache_line_floor(pairing_->rank(), pairing_->shared_page());
    const bool overview = options_.test == "overview";
    if (pairing_->rank() == 0 && (overview || options_.test == "floor")) report_floor(line, report);
    if (options_.test == "floor") return {};

    OPAL_TRY_ASSIGN(const std::vector<std::string> names, transports(options_));
    std::vector<std::string> tests{options_.test};
    if (overview) tests = {"am_lat", "am_rate", "am_bw", "put_lat", "get_bw", "put_bw", "atomic_lat"};
    for (const std::string& name : names) {
      const auto measure = [&](Conversation& with) -> Result<void> {
        for (const std::string& test : tests) {
          const TestInfo& info = kPairTests.at(test);
          OPAL_TRY_ASSIGN(Plan plan, plan_for(info.first_size, info.last_size));
          if (line) plan.floor_ns = line->p50;
          if (overview) thin_out(plan.sizes);
          const std::size_t before = rows_.size();
          OPAL_TRY(info.run(with, plan, report, test));
          const std::size_t measured = rows_.size() - before;
          if (measured == 0 || (!options_.sizes.empty() && measured < plan.sizes.size() && test != "atomic_lat")) {
            fmt::print(stderr, "opal-perf: {} over {}: {} sizes left out: a message takes 8 B to {}\n", test, name,
                       plan.sizes.size() - measured, size_text(with.max_send()));
          }
          // A run that is ended early leaves what it has.
          if (!options_.plot_file.empty()) (void)plot(rows_, options_.plot_file);
        }
        return {};
      };
      OPAL_TRY(Conversation::run(*pairing_, name, kRegionSize, {}, measure));
    }
    if (pairing_->rank() == 0 && rows_.empty()) return Error{Errc::invalid_argument, 0, "nothing could be measured"};
    return {};
  }

  /// An overview shows every fourth power of two.
  static void thin_out(std::vector<std::uint64_t>& sizes) {
    std::vector<std::uint64_t> kept;
    for (std::size_t i = 0; i < sizes.size(); i += 2) kept.push_back(sizes[i]);
    sizes = kept;
  }

  void report_floor(const std::optional<Latency>& line, const Report& report) const {
    if (line) {
      Row row{.test = "floor", .btl = {}, .size = kCacheLine, .iterations = 80'000};
      row.op = "cache line, one way";
      row.latency = *line;
      report(row);
    }
    for (std::uint64_t size = 1024; size <= 4 << 20; size *= 4) {
      Row row{.test = "floor", .btl = {}, .size = size, .iterations = 5};
      row.op = "memcpy";
      row.memcpy_Bps = memcpy_Bps(size);
      row.bandwidth_Bps = row.memcpy_Bps;
      report(row);
    }
  }

  Options options_;
  std::unique_ptr<Pairing> pairing_;
  std::vector<Row> rows_;
  TablePrinter table_;
};

int main_program(int argc, char** argv) {
  CLI::App app{"Measures OPAL's transports beside what this machine can do at all."};
  Options options;
  std::string tests =
      "What to measure:\n  overview    the floor, and a selection of all tests over every transport\n"
      "  floor       a cache line between two cores, and memcpy\n";
  for (const auto& [name, info] : kPairTests) tests += fmt::format("  {:<11} {}\n", name, info.summary);
  tests +=
      "  oob_lat     one-way time of a message between two daemons, which sleep in between\n"
      "  tune        where the shared-memory transport should switch between its ways\n"
      "  reg         the registration cache: hit, miss, evict, invalidate\n"
      "  alloc       the allocators";
  std::vector<std::string> names{"overview", "floor", "oob_lat", "tune", "reg", "alloc"};
  for (const auto& [name, info] : kPairTests) names.push_back(name);
  app.add_option("TEST", options.test, tests)->required()->check(CLI::IsMember(names));
  app.add_option("--btl", options.transport, "Only this transport; the default is every usable one");
  app.add_option("--size", options.sizes, "N or N:M: bytes, in powers of two from N to M; K, M, G are powers of 1024");
  app.add_option("--iters", options.iterations,
                 "Operations per point; the default takes a fifth of a second, at most twice that");
  app.add_flag("--json", options.json, "One JSON object per line instead of a table");
  app.add_option("--plot", options.plot_file,
                 "Draws latency and bandwidth over size into this SVG file, also when a part fails");
  auto* const store = app.add_option("--store", options.store_file,
                                     "Of tune: write the switch points to this file, or, without a name, to the one "
                                     "that every later process on machines of this kind reads");
  store->expected(0, 1);
  app.footer(
      "Started alone, opal-perf runs its second process itself, one on each of two cores.\n"
      "Under a launcher it measures between ranks 0 and 1: opalrun -n 2 opal-perf am_lat --btl sm\n"
      "Exit status: 0; 1 when a measurement failed; 2 for a wrong command line.");
  app.set_version_flag("--version", std::string{"opal-perf "} + build_info().version);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsageError;
  }
  options.store = store->count() != 0;
  Program program{std::move(options)};
  if (const std::string problem = program.problem(); !problem.empty()) {
    fmt::print(stderr, "opal-perf: {}\n", problem);
    return kUsageError;
  }
  if (auto done = program.run(); !done) {
    fmt::print(stderr, "opal-perf: {}\n", to_string(done.error()));
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace opal::perf

int main(int argc, char** argv) { return opal::perf::main_program(argc, argv); }
