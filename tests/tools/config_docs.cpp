// SPDX-License-Identifier: Apache-2.0
// Prints docs/config.md: every variable with its default.  It depends on no setting and no host.  A test compares the
// file with it.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>

#include "opal/am/components.hpp"
#include "opal/tools/info/report.hpp"

namespace opal {
namespace {

constexpr std::size_t kColumns = 100;

constexpr std::string_view kIntroduction = R"(# Configuration variables

<!-- Written by the target config_docs. -->

A variable has the value of the last of these places that sets it:

1. the default below, if none does,
2. the system files `/etc/opal/opal.conf` and then `PREFIX/etc/opal/opal.conf`, where PREFIX is the
   tree that contains libopal, also after it was moved; lines `btl_sm_fbox_size = 8K`, `#` for
   comments,
3. the user file `~/.config/opal/opal.conf` (`$XDG_CONFIG_HOME/opal/opal.conf` if that is set; the
   environment variable `OPAL_CONFIG_FILE` names another file),
4. the environment: `OPAL_BTL_SM_FBOX_SIZE=8K`,
5. the launcher: `opalrun --set btl_sm_fbox_size=8K`,
6. the program: `store.set("btl_sm_fbox_size", "8K")`.

* Numbers are decimal or hexadecimal (`0x20`).
* Sizes take K, M, G, T in powers of 1024 (`64K`, `64 KiB`).
* Times take us, ms, s, min, h. A number alone is in ms; of `am_spin` in us.
* Values of type yes/no are true/false, yes/no, on/off or 1/0.

A value that is not allowed is an error. It names the variable, the value, the place where it is
set, and the allowed values. An unknown name is a warning with the nearest known name, or an error
if `strict` is true.

The folders of these files may contain `tuned/MACHINE.conf`, which `opal-perf tune --store` writes:
values measured on machines of this kind. MACHINE stands for the CPU model and the number of
processors. It is read just before the settings file of its folder, which wins. A bad value in it
is only a warning. `opal-info` shows the paths of these files, `opal-info --all` the values in force
and where they come from.

The level names the users of a variable: *user* for all users, *tuner* for performance work,
*developer* for work on OPAL itself.
)";

/// `text` as an item of a list, in lines of at most kColumns.
std::string item(std::string_view text) {
  std::string out = "*";
  std::size_t column = out.size();
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    if (!word.empty()) {
      const bool fits = column + 1 + word.size() <= kColumns;
      out += fits ? " " : "\n  ";
      column = fits ? column + 1 : 2;
      out += word;
      column += word.size();
    }
    begin = end + 1;
  }
  return out + '\n';
}

std::string code(const std::string& text) { return text.empty() ? "empty" : fmt::format("`{}`", text); }

std::string markdown() {
  std::string text{kIntroduction};
  std::vector<const config::GroupInfo*> groups = am::config_groups(btl::Registry::with_builtins());
  for (const config::GroupInfo* group : tools::info::upper_groups()) groups.push_back(group);
  for (const config::GroupInfo* group : groups) {
    text += fmt::format("\n## {} (`{}`)\n\n", group->title(), group->name());
    for (const config::Listing& variable : config::Store{}.list(*group)) {
      std::string kind{name(variable.var.type)};
      if (const std::string range = to_string(variable.var.range, variable.var.type); !range.empty()) {
        kind += ", " + range;
      }
      if (*variable.var.unit != '\0') kind += fmt::format(" {}", variable.var.unit);
      text += item(fmt::format("`{}` = {} ({}; {}): {}", variable.name, code(variable.default_text), kind,
                               name(variable.var.level), variable.var.doc));
    }
  }
  return text;
}

}  // namespace
}  // namespace opal

int main() { std::fputs(opal::markdown().c_str(), stdout); }
