// SPDX-License-Identifier: Apache-2.0
// opal/core/config/store.hpp — the settings of a process: value and source of each variable, and the loaded groups.
// A Store is an ordinary object: programs take Store::from_environment(), tests add the settings they want.
// Precedence: default < system file < user file < environment < launcher < API; among equals the last one counts.
// Nothing is clamped and nothing is dropped silently: load() fails on a bad value, problems() lists everything odd.
// Threads: add and set before sharing; const members are safe from any thread.
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

/// Where a value comes from, weakest first.
enum class Source : std::uint8_t { builtin, system_file, user_file, environment, launcher, api };

/// "default", "system file", "user file", "environment", "launcher" or "API".
OPAL_EXPORT const char* name(Source source) noexcept;

/// One variable that a source has set.
struct Setting {
  std::string name;   ///< full name: "btl_sm_fbox_size"
  std::string value;  ///< as written
  Source source;
  std::string origin;     ///< the exact place: "OPAL_BTL_SM_FBOX_SIZE", "/etc/opal/opal.conf:3"; may be empty
  bool measured = false;  ///< by a program, not chosen by a person: a bad one counts as not set, with a warning
};

/// Something a person should know about a setting.
struct Problem {
  enum class Severity : std::uint8_t { warning, error };
  Severity severity;
  std::string text;  ///< one line naming variable, value, source, what is allowed and the nearest name
};

/// A variable as opal-info shows it.
struct Listing {
  std::string name;
  VarInfo var;
  std::string default_text;
  std::string value;  ///< what is in force; the default when the setting is bad
  Source source = Source::builtin;
  std::string origin;
  std::string problem;  ///< empty, or what is wrong with the setting
};

/// The environment variable by which a launcher says that it has logged what is wrong with the settings.
inline constexpr char kSettingsReported[] = "OPAL_INTERNAL_SETTINGS_REPORTED";

class OPAL_EXPORT Store {
 public:
  /// Nothing set: every group loads its defaults.
  Store() = default;

  /// This process's settings: system file, user file (OPAL_CONFIG_FILE names another), OPAL_* variables, and what the
  /// launcher handed down in OPAL_SET.  What could not be read is among problems().
  static Store from_environment();

  /// Sets a variable from the program; strongest of all.
  void set(std::string_view name, std::string_view value);

  void add(Setting setting);

  /// Adds OPAL_* variables {name, value}: OPAL_SET as the launcher's settings, names starting OPAL_INTERNAL_ not at
  /// all.
  void add_environment(std::span<const std::pair<std::string, std::string>> variables);

  /// Adds the "name = value" lines of a file; '#' starts a comment.  A file that is not there is fine unless
  /// `required`.
  void add_file(Source source, const std::string& path, bool required);

  /// The same for values that were measured: nothing that is wrong with the file is more than a warning.
  void add_measured_file(Source source, const std::string& path);

  /// Adds the lines of `text` as add_file does; `path` is what messages call it.
  void add_text(Source source, std::string_view text, const std::string& path);

  [[nodiscard]] std::span<const Setting> settings() const noexcept { return settings_; }

  /// The group's struct with every setting applied.  A bad value is Errc::invalid_argument whose `where` is the whole
  /// message ("btl_sm_fbox_size: value "5000" (environment ...) is not ..."); each bad value is also logged once.
  template <class C>
  Result<C> load(const Group<C>& group) const {
    OPAL_TRY(check_values(group));
    C config{};
    for (std::size_t i = 0; i < group.size(); ++i) {
      if (const std::optional<Value> value = value_of(group, i)) group.assign(config, i, *value);
    }
    return config;
  }

  /// Everything wrong with the settings, given all groups of this process: bad values, unreadable files and lines, and
  /// unknown names, which are warnings unless the program set them or OPAL_STRICT is true.  Unknown names that start
  /// with one of `foreign_prefixes` ("mpi_") belong to a layer this process may not have and are not mentioned.
  [[nodiscard]] std::vector<Problem> problems(std::span<const GroupInfo* const> groups,
                                              std::span<const std::string_view> foreign_prefixes = {}) const;

  /// Logs each of problems() once; the first error among them is the result, with its text as `where`.  Warnings are
  /// not logged in a process whose launcher has logged them (kSettingsReported).
  Result<void> verify(std::span<const GroupInfo* const> groups,
                      std::span<const std::string_view> foreign_prefixes = {}) const;

  /// Every variable of `group` with the value in force.
  [[nodiscard]] std::vector<Listing> list(const GroupInfo& group) const;

  /// The value of OPAL_SET that hands `settings` to the processes a launcher starts.
  static std::string encode_for_launch(std::span<const std::pair<std::string, std::string>> settings);

 private:
  /// The strongest setting of `name`; of measured ones only those that are values of `var`.
  [[nodiscard]] const Setting* find(std::string_view name, const VarInfo& var) const;
  Result<void> check_values(const GroupInfo& group) const;
  std::optional<Value> value_of(const GroupInfo& group, std::size_t index) const;
  [[nodiscard]] bool strict() const;

  std::vector<Setting> settings_;
  std::vector<Problem> unreadable_;
};

/// Splits "name=value", as `--set` takes it.  Errors: invalid_argument when there is no '=', or the name is not one.
OPAL_EXPORT Result<std::pair<std::string, std::string>> parse_assignment(std::string_view text);

/// True for names a variable can have: lower-case letters, digits and underscores.
OPAL_EXPORT bool is_variable_name(std::string_view name) noexcept;

}  // namespace opal::config
