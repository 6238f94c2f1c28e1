// SPDX-License-Identifier: Apache-2.0
// docs/config.md: written by opal-info --markdown, compared by a test, so that it never differs from the code.
#include <fmt/format.h>

#include "opal/tools/info/report.hpp"

namespace opal::tools::info {
namespace {

constexpr std::string_view kIntroduction = R"(# Configuration variables

<!-- Written by `opal-info --markdown`; `cmake --build build --target config_docs` writes it again. Do not edit. -->

Every variable can be set in six places; a later one in this list wins:

1. the default below,
2. the system files `/etc/opal/opal.conf` and `PREFIX/etc/opal/opal.conf` of the tree that libopal lies in, also when it was moved; lines
   `btl_sm_fbox_size = 8K`, `#` for comments,
3. the user file `~/.config/opal/opal.conf` (`$XDG_CONFIG_HOME`; `OPAL_CONFIG_FILE` names another one),
4. the environment: `OPAL_BTL_SM_FBOX_SIZE=8K`,
5. the launcher: `opalrun --set btl_sm_fbox_size=8K`,
6. the program: `store.set("btl_sm_fbox_size", "8K")`.

Numbers are decimal or hexadecimal (`0x20`), sizes take K, M, G, T in powers of 1024 (`64K`, `64 KiB`), times take us, ms, s,
min, h (a bare number counts in the variable's own unit), switches are true/false, yes/no, on/off or 1/0. A value that is not
allowed is an error that names the variable, the value, who set it and what is allowed; nothing is clamped. An unknown name is
a warning with the nearest known name, or an error when `strict` is true.

Levels: *user* for everybody, *tuner* for performance work, *developer* for work on OPAL itself.
Beside each of these files may lie `tuned/MACHINE.conf`, which `opal-perf tune --store` writes: what was measured on machines
of this kind (CPU model and number of processors). It is read just before that file, so the file wins.
`opal-info` shows the paths of these files, `opal-info --all` the values in force and where they come from.
)";

/// Text in a cell of a table: a bar would end the cell.
std::string cell(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '|') escaped += '\\';
    escaped += c;
  }
  return escaped;
}

std::string code(const std::string& text) { return text.empty() ? "empty" : fmt::format("`{}`", text); }

}  // namespace

std::string to_markdown(const Report& report) {
  std::string text{kIntroduction};
  for (const Group& group : report.groups) {
    text += fmt::format("\n## {} (`{}`)\n\n", group.title, group.name);
    text += "| Variable | Type | Default | Allowed | Unit | Level | Meaning |\n|---|---|---|---|---|---|---|\n";
    for (const config::Listing& variable : group.variables) {
      text += fmt::format("| `{}` | {} | {} | {} | {} | {} | {} |\n", variable.name, name(variable.var.type),
                          cell(code(variable.default_text)), cell(to_string(variable.var.range, variable.var.type)),
                          variable.var.unit, name(variable.var.level), cell(variable.var.doc));
    }
  }
  return text;
}

}  // namespace opal::tools::info
