// SPDX-License-Identifier: Apache-2.0
// opal/core/config/store.hpp — the settings of a process: values of configuration variables with their sources.
// Programs call Store::from_environment(); tests make an empty Store and add settings.
// Precedence: default < system file < user file < environment < launcher < API; among equals the last one counts.
// No value is clamped and no setting is ignored silently: load() fails on a bad value, problems() lists all faults.
// Threads: const members are safe from any thread; no other member may run at the same time.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "opal/core/config/config.hpp"
#include "opal/core/export.hpp"
#include "opal/core/result.hpp"

namespace opal::config {

/// The source of a value, in ascending precedence.
enum class Source : std::uint8_t { builtin, system_file, user_file, environment, launcher, api };

/// "default", "system file", "user file", "environment", "launcher" or "API".
OPAL_EXPORT const char* name(Source source) noexcept;

/// The value that one source gives to one variable.
struct Setting {
  std::string name;   ///< full name: "btl_sm_fbox_size"
  std::string value;  ///< as written in the source; not yet parsed
  Source source;
  std::string origin;     ///< the exact place: "OPAL_BTL_SM_FBOX_SIZE", "/etc/opal/opal.conf:3"; may be empty
  bool measured = false;  ///< written by opal-perf tune: a bad value counts as not set and causes only a warning
};

/// A fault of a setting, or of a file or line that should contain settings.
struct Problem {
  enum class Severity : std::uint8_t { warning, error };
  Severity severity;
  std::string text;  ///< one line: the variable, its value and source, and the allowed values or the nearest name
};

/// One variable and its present value, for opal-info.
struct Listing {
  std::string name;
  VarInfo var;
  std::string default_text;
  std::string value;                ///< the value in force; the default if the setting is bad
  Source source = Source::builtin;  ///< of the strongest setting, also if that is bad
  std::string origin;               ///< Setting::origin of that setting
  std::string problem;              ///< the fault of that setting; empty if it is good
};

/// A launcher sets this environment variable for its ranks after it has logged the faults of the settings itself.
inline constexpr char kSettingsReported[] = "OPAL_INTERNAL_SETTINGS_REPORTED";

class OPAL_EXPORT Store {
 public:
  /// A Store without settings: every group loads its defaults.
  Store() = default;

  /// The settings of this process: the files of config_files(), the OPAL_* environment variables, and the settings of
  /// the launcher in OPAL_SET.  Files and lines that cannot be read are listed by problems().
  static Store from_environment();

  /// Adds a setting of Source::api, the strongest.  `name` is the full name.  problems() reports a wrong name or value.
  void set(std::string_view name, std::string_view value);

  void add(Setting setting);

  /// Adds environment variables {name, value} whose names start with OPAL_.  The lines of OPAL_SET become settings of
  /// Source::launcher.  Names that start with OPAL_INTERNAL_ are skipped.
  void add_environment(std::span<const std::pair<std::string, std::string>> variables);

  /// Adds the "name = value" lines of a file.  A '#' at the start of a line or after a blank starts a comment.
  /// A missing file is an entry of problems() only if `required`.
  void add_file(Source source, const std::string& path, bool required);

  /// As add_file() with required = false, for measured settings: all faults of the file are warnings.
  void add_measured_file(Source source, const std::string& path);

  /// Adds the lines of `text` as add_file() does.  `path` is the name of the text in messages.
  void add_text(Source source, std::string_view text, const std::string& path);

  [[nodiscard]] std::span<const Setting> settings() const noexcept { return settings_; }

  /// Returns the group's struct: its defaults, overwritten by the settings.
  /// Errors: invalid_argument for a bad value; `where` is the complete message for the user.  Each bad value is also
  /// logged once per process.
  template <class C>
  Result<C> load(const Group<C>& group) const {
    OPAL_TRY(check_values(group));
    C config{};
    for (std::size_t i = 0; i < group.size(); ++i) {
      if (const std::optional<Value> value = value_of(group, i)) group.assign(config, i, *value);
    }
    return config;
  }

  /// All faults of the settings; `groups` are all groups of this process.  Faults are bad values, unreadable files and
  /// lines, and unknown names.  An unknown name is an error if its source is the API, or if `strict` is true and the
  /// setting is not measured; else it is a warning.  Unknown names that start with one of `foreign_prefixes` ("mpi_")
  /// are skipped: they are of a library that this process may not have loaded.
  [[nodiscard]] std::vector<Problem> problems(std::span<const GroupInfo* const> groups,
                                              std::span<const std::string_view> foreign_prefixes = {}) const;

  /// Logs each entry of problems() once per process.  The result is the first error, with its text as `where`.
  /// Warnings are not logged if the launcher has logged them (kSettingsReported).
  Result<void> verify(std::span<const GroupInfo* const> groups,
                      std::span<const std::string_view> foreign_prefixes = {}) const;

  /// All variables of `group` with their present values.
  [[nodiscard]] std::vector<Listing> list(const GroupInfo& group) const;

  /// Listing::value of the variable with this full name; empty if `group` does not contain it.  Unlike load() it needs
  /// no good values of other variables, and logs nothing.
  [[nodiscard]] std::string present_value(const GroupInfo& group, std::string_view name) const;

  /// Encodes the launcher's `settings` {name, value} as a value of OPAL_SET for the processes that it starts.
  /// Requires: each value is one line.
  static std::string encode_for_launch(std::span<const std::pair<std::string, std::string>> settings);

 private:
  /// The strongest setting of `name`, null if there is none.  Measured settings with a bad value are skipped.
  [[nodiscard]] const Setting* find(std::string_view name, const VarInfo& var) const;
  Result<void> check_values(const GroupInfo& group) const;
  std::optional<Value> value_of(const GroupInfo& group, std::size_t index) const;

  std::vector<Setting> settings_;
  std::vector<Problem> unreadable_;
};

/// Splits "name=value", the argument of `--set`, and trims both.  Errors: invalid_argument if there is no '=', the name
/// is empty or has other characters than lower-case letters, digits and underscores, or the value has several lines.
OPAL_EXPORT Result<std::pair<std::string, std::string>> parse_assignment(std::string_view text);

}  // namespace opal::config
