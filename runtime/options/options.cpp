// SPDX-License-Identifier: Apache-2.0
#include "runtime/options/options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

#include "opal/am/components.hpp"
#include "opal/core/build_info.hpp"
#include "opal/core/config/core_config.hpp"
#include "opal/core/config/store.hpp"
#include "opal/core/environment.hpp"
#include "opal/core/log.hpp"
#include "opal/core/text.hpp"
#include "runtime/options/config.hpp"

namespace runtime::launch {
namespace {

constexpr std::array<std::string_view, 1> kForeignPrefixes{"mpi_"};

void add(opal::config::Store& store, const std::vector<std::pair<std::string, std::string>>& settings) {
  for (const auto& [name, value] : settings) store.add({name, value, opal::config::Source::launcher, "--set"});
}

constexpr int kUsageError = 2;
constexpr double kLongestSeconds = 1e9;

constexpr char kFooter[] = R"(Examples:
  opalrun -n 4 ./solver input.mtx          four ranks on this host, one per core if there are enough
  opalrun -n 2 --set btl_sm_fbox_size=8K --tag-output opal-perf am_lat
  opalrun --host h1:8,h2:8 ./solver        16 ranks on two hosts, whose daemons ssh starts
  opalrun -n 8 --timeout 60 -x DEBUG=1 ./program --its-own-option
  opalrun --quiesce 4711 && criu dump ... && opalrun --resume 4711

Exit status: that of the first rank that failed (128 + signal number for a signal), else 0.
  124 the job ran into --timeout        126 the program cannot be executed
  127 the program was not found         2   the command line is wrong
When a rank fails, the others get SIGTERM and, after the grace period, SIGKILL.  After a rank that left the job in order
(MPI_Finalize) or never joined it, and whose exit status is not 0, they get the grace period to end by themselves first.
All variables that --set knows: opal-info --all)";

/// CLI11 knows nothing of a command that takes over the rest of the line.
class UsageFormatter final : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* /*app*/, std::string name) const override {
    return fmt::format("Usage: {} [OPTIONS] PROGRAM [ARGUMENTS...]\n\n", name);
  }
};

/// The accepted values of an option: `words` and the names of the levels.
std::vector<std::string> with_levels(std::vector<std::string> words) {
  words.insert(words.end(), kLevelNames.begin(), kLevelNames.end());
  words.emplace_back("socket");
  return words;
}

/// Requires: `word` is one of with_levels({}).
Level parse_level(const std::string& word) {
  if (word == "socket") return Level::package;
  return static_cast<Level>(std::ranges::find(kLevelNames, word) - kLevelNames.begin());
}

/// As CLI::Range, but refuses "nan", which CLI::Range accepts.
CLI::Validator in_range(double least, double most) {
  return CLI::Validator{[least, most](std::string& text) {
                          const auto value = opal::parse_number<double>(text);
                          const bool valid = value && *value >= least && *value <= most;
                          return valid ? std::string{}
                                       : fmt::format("Value {} not in range {:g} to {:g}", text, least, most);
                        },
                        fmt::format("FLOAT in [{:g} - {:g}]", least, most)};
}

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds{static_cast<std::int64_t>(std::ceil(seconds * 1000))};
}

[[noreturn]] void refuse(const std::string& why) { throw CLI::ValidationError{why}; }

InputTarget parse_input(const std::string& text) {
  if (text == "all") return {InputTarget::Kind::all, 0};
  if (text == "none") return {InputTarget::Kind::none, 0};
  const auto rank = opal::parse_number<unsigned>(text);
  if (!rank) refuse(fmt::format("--stdin {}: it takes a rank, all, or none", text));
  return {InputTarget::Kind::rank, *rank};
}

void add_settings(Options& options, const std::vector<std::string>& texts) {
  for (const std::string& text : texts) {
    auto setting = opal::config::parse_assignment(text);
    if (!setting) refuse(fmt::format("--set {}: it takes NAME=VALUE, such as --set btl_sm_fbox_size=8K", text));
    options.settings.push_back(std::move(*setting));
  }
}

void add_environment(Options& options, const std::vector<std::string>& texts) {
  for (const std::string& text : texts) {
    const std::size_t equals = text.find('=');
    const std::string name = text.substr(0, equals);
    if (name.empty()) refuse(fmt::format("-x {}: it takes NAME or NAME=VALUE", text));
    if (equals != std::string::npos) {
      options.environment.emplace_back(name, text.substr(equals + 1));
    } else if (!opal::environment(name.c_str())) {
      options.warnings.push_back(fmt::format("-x {}: there is no such environment variable to pass on", name));
    }
  }
}

using Word = const std::string&;
using Words = const std::vector<std::string>&;

void declare(CLI::App& app, Options& options) {
  const auto option = [&app](const char* names, auto& value, const char* takes, const char* about) {
    return app.add_option(names, value, about)->option_text(takes);
  };
  const auto word = [&app](const char* names, const char* takes, const char* about,
                           const std::function<void(Word)>& take) {
    return app.add_option_function<std::string>(names, take, about)->option_text(takes);
  };
  const auto seconds = [&app](const char* names, auto& value, double least, double most, const char* about) {
    const auto take = [&value](double given) { value = milliseconds(given); };
    app.add_option_function<double>(names, take, about)->option_text("SECONDS")->check(in_range(least, most));
  };
  const auto repeated = [](CLI::Option* option) { option->expected(1)->allow_extra_args(false)->take_all(); };
  const auto words = [&](const char* names, const char* takes, const char* about,
                         const std::function<void(Words)>& take) {
    repeated(app.add_option_function<std::vector<std::string>>(names, take, about)->option_text(takes));
  };
  option("-n,-c,--np", options.ranks, "N", "Number of ranks (default: one per core, or per slot of --host)")
      ->check(CLI::Range(1U, 1U << 20));
  word("--host", "NAME[:SLOTS],...", "Hosts to run on, with their numbers of slots", [&](Word text) {
    for (const std::string_view host : opal::split(text, ',')) options.hosts.emplace_back(host);
  });
  option("--hostfile", options.host_file, "FILE", "File with one \"NAME [slots=N]\" or \"NAME:N\" per line");
  words("--set", "NAME=VALUE", "Sets a configuration variable for all ranks; may be repeated",
        [&](Words texts) { add_settings(options, texts); });
  words("-x,--env", "NAME[=VALUE]", "Sets (or just passes on) an environment variable; may be repeated",
        [&](Words texts) { add_environment(options, texts); });
  word("--bind,--bind-to", "none|hwthread|core|l2cache|l3cache|numa|package",
       "Bind each rank to such an object, or do not bind (default: as mapped; core when there are enough)",
       [&](Word what) { options.bind = what == "none" ? Bind::none : by<Bind>(parse_level(what)); })
      ->check(CLI::IsMember(with_levels({"none"})));
  word("--map,--map-by", "slot|node|hwthread|core|l2cache|l3cache|numa|package",
       "Fill hosts one after the other, or go round the hosts, or round such objects in each (default: slot)",
       [&](Word what) {
         options.map = what == "slot" ? Map::slot : what == "node" ? Map::node : by<Map>(parse_level(what));
       })
      ->check(CLI::IsMember(with_levels({"slot", "node"})));
  word("--display", "map", "Say before the start where each rank runs, and then what it is bound to", [&](Word) {
    options.display_map = options.report_bindings = true;
  })->check(CLI::IsMember({"map"}));
  word("--launch-agent", "CMD",
       "Starts daemons on other hosts, called as \"CMD HOST DAEMON\" (default: ssh; srun in an allocation)",
       [&](Word command) {
         for (const std::string_view part : opal::split(command, ' ')) {
           if (!part.empty()) options.launch_agent.emplace_back(part);
         }
       });
  option("--agents", options.agents, "N", "How many launch agents start daemons at the same time (runtime_agents; 64)")
      ->check(CLI::Range(1U, 1U << 20));
  seconds("--daemon-timeout", options.timeouts.silence, 0.1, 86400.0,
          "A host that is silent for so long is lost (runtime_daemon_timeout; 30)");
  seconds("--start-timeout", options.timeouts.start, 0.1, 86400.0,
          "A host whose daemon has not come after so long is lost (default: 60)");
  option("--radix", options.radix, "N", "Children of each daemon in the tree that connects them (runtime_radix; 16)")
      ->check(CLI::Range(1U, 4096U));
  app.add_flag("--report-bindings", options.report_bindings, "Say where each rank is bound");
  app.add_flag("--continuous", options.continuous,
               "Go on when ranks or hosts fail; those that are left are told by PMIx events");
  app.add_flag("--oversubscribe", options.oversubscribe, "Allow more ranks than the slots given with --host");
  app.add_flag("--tag-output", options.tag_output, "Start each line of output with \"[job,rank]<stdout>: \"");
  app.add_flag("--timestamp-output", options.timestamp_output, "Start each line of output with when it was read");
  app.add_flag("--merge-stderr-to-stdout", options.merge_stderr, "Ranks' stderr goes where their stdout goes");
  option("--output-filename", options.output_directory, "DIR",
         "Write what rank N prints to DIR/rank.N/stdout and stderr instead of showing it");
  word("--stdin", "RANK|all|none", "The rank that gets the launcher's stdin, or all or none of them (default: 0)",
       [&](Word text) { options.input = parse_input(text); });
  option("--wdir,--wd", options.working_directory, "DIR", "Directory to start the program in");
  seconds("--timeout", options.timeout, 0.001, kLongestSeconds,
          "End the job after this time, with status 124; with --quiesce, wait that long for the ranks");
  seconds("--grace", options.grace, 0.0, 3600.0, "Time between SIGTERM and SIGKILL when a job is ended (default: 2)");
  CLI::Option* const quiesce =
      option("--quiesce", options.quiesce, "PID",
             "Starts nothing: bring the MPI job of the opalrun with this process id to rest, for a checkpoint")
          ->check(CLI::PositiveNumber);
  option("--resume", options.resume, "PID", "Starts nothing: let that job go on")
      ->check(CLI::PositiveNumber)
      ->excludes(quiesce);
  app.add_flag("--allow-run-as-root")->description("Accepted for existing scripts; root may always run jobs");
  const auto warn_of = [&](const std::vector<std::pair<std::string, std::string>>& foreign) {
    for (const auto& [name, value] : foreign) {
      options.warnings.push_back(fmt::format(
          "--mca {} {} is ignored: it is for Open MPI; variables of OPAL are set with --set NAME=VALUE", name, value));
    }
  };
  repeated(app.add_option_function<std::vector<std::pair<std::string, std::string>>>(
                  "--mca", warn_of, "Accepted for existing scripts and ignored with a warning")
               ->option_text("NAME VALUE"));
  app.prefix_command();  // the first argument that is no option begins the program's own command line
}

/// Long options that other launchers spell with one dash.
std::string modern_spelling(const std::string& argument) {
  for (const char* const old : {"-np", "-host", "-hostfile", "-mca", "-wdir", "-wd", "-timeout", "-oversubscribe"}) {
    if (argument == old) return fmt::format("-{}", argument);
  }
  return argument;
}

/// An option that is not ours, and what may have been meant.
std::string explain_unknown(const CLI::App& app, const std::string& unknown) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  const std::string_view nearest = opal::nearest_name(unknown.substr(0, unknown.find('=')),
                                                      std::vector<std::string_view>(names.begin(), names.end()));
  return fmt::format("unknown option {}{}", unknown, nearest.empty() ? "" : fmt::format("; did you mean {}?", nearest));
}

ParsedCommandLine usage_error(const std::string& name, const std::string& what) {
  return {{}, fmt::format("{}: {}\nTry '{} --help'.\n", name, what, name), kUsageError};
}

/// Takes the options that the command line does not set from the configuration.  Returns an empty text or the problem.
std::string take_variables(const CLI::App& app, Options& options) {
  const auto config = store_with(options.settings).load(kGroup);
  if (!config) return to_string(config.error());
  if (app.count("--radix") == 0) options.radix = config->radix;
  if (app.count("--agents") == 0) options.agents = config->agents;
  if (app.count("--daemon-timeout") == 0) options.timeouts.silence = config->daemon_timeout;
  return {};
}

}  // namespace

opal::config::Store store_with(const std::vector<std::pair<std::string, std::string>>& settings) {
  opal::config::Store store = opal::config::Store::from_environment();
  add(store, settings);
  return store;
}

std::string check_settings(const Options& options) {
  const opal::config::Store all = store_with(options.settings);
  (void)opal::config::apply_to_process(all);  // an error is one of the problems below
  auto groups = opal::am::config_groups(opal::am::find_components(all).registry);
  groups.push_back(&kGroup);
  opal::config::Store ours;
  add(ours, options.settings);
  std::string text;
  // A name that would only be warned about in a rank is a mistake here: the user typed it for this one command.
  for (const opal::config::Problem& problem : ours.problems(groups, kForeignPrefixes)) {
    if (!text.empty()) text += '\n';
    text += problem.text;
  }
  // Errors in the environment would end every rank, so they are printed once here.  So are warnings: kSettingsReported.
  for (const opal::config::Problem& problem :
       opal::config::Store::from_environment().problems(groups, kForeignPrefixes)) {
    if (problem.severity != opal::config::Problem::Severity::error) {
      opal::log::once(opal::log::Level::warn, problem.text, "config", "{}", problem.text);
      continue;
    }
    if (!text.empty()) text += '\n';
    text += problem.text;
  }
  return text;
}

ParsedCommandLine parse_command_line(const std::string& name, const std::vector<std::string>& arguments) {
  CLI::App app{
      "Starts the ranks of a parallel program on this host or several, connects them, and cleans up after them.", name};
  const auto formatter = std::make_shared<UsageFormatter>();
  formatter->column_width(34);
  app.formatter(formatter);
  app.footer(kFooter);
  const std::string version = fmt::format("opalrun (OPAL) {}", opal::build_info().version);
  app.set_version_flag("-V,--version", version);
  Options options;
  declare(app, options);

  std::vector<std::string> reversed;  // the order in which CLI11 takes a vector
  std::transform(arguments.rbegin(), arguments.rend(), std::back_inserter(reversed), modern_spelling);
  try {
    app.parse(reversed);
  } catch (const CLI::CallForHelp&) {
    return {{}, app.help(), 0};
  } catch (const CLI::CallForVersion&) {
    return {{}, fmt::format("{}\n", version), 0};
  } catch (const CLI::ParseError& error) {
    if (app.get_help_ptr()->count() > 0) return {{}, app.help(), 0};
    return usage_error(name, error.what());
  }
  const std::vector<std::string> rest = app.remaining();
  const std::string first = rest.empty() ? "" : rest.front();
  const bool after_two_dashes = first == "--";
  if (first.starts_with('-') && first != "-" && !after_two_dashes)
    return usage_error(name, explain_unknown(app, first));
  // In their own spelling.
  options.command.assign(arguments.end() - static_cast<std::ptrdiff_t>(rest.size()), arguments.end());
  if (after_two_dashes) options.command.erase(options.command.begin());
  if (const std::string wrong = take_variables(app, options); !wrong.empty()) return usage_error(name, wrong);
  if (options.quiesce != 0 || options.resume != 0) {
    if (!options.command.empty())
      return usage_error(name, "--quiesce and --resume are for a job that runs: no program");
    return {std::move(options), {}, 0};
  }
  if (options.command.empty()) return usage_error(name, "no program to run");
  const auto colon = std::find(options.command.begin() + 1, options.command.end(), ":");
  if (options.command.end() - colon > 1 && !after_two_dashes) {  // the last argument separates nothing
    return usage_error(
        name,
        "several programs in one job (\"PROGRAM : -n N OTHER\") are not supported; an argument \":\" of the "
        "program's own needs \"--\" before the program");
  }
  return {std::move(options), {}, 0};
}

}  // namespace runtime::launch
