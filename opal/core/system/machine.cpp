// SPDX-License-Identifier: Apache-2.0
#include "opal/core/system/machine.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>

#include "opal/core/environment.hpp"
#include "opal/core/system/fd.hpp"
#include "opal/core/text.hpp"

namespace opal {
namespace {

/// The value of the first line "key : value"; empty if there is none.
std::string_view value_of(std::string_view cpuinfo, std::string_view key) {
  for (const std::string_view line : split(cpuinfo, '\n')) {
    const std::size_t colon = line.find(':');
    if (colon != std::string_view::npos && trimmed(line.substr(0, colon)) == key)
      return trimmed(line.substr(colon + 1));
  }
  return {};
}

/// Appends the letters and digits of `text` in lower case, with one dash for each run of other characters.
void add_words(std::string& name, std::string_view text) {
  bool gap = !name.empty();
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte > 127 || std::isalnum(byte) == 0) {
      gap = !name.empty();
      continue;
    }
    if (gap) name += '-';
    gap = false;
    name += static_cast<char>(std::tolower(byte));
  }
}

}  // namespace

std::string machine_kind(std::string_view cpuinfo, long processors) {
  // x86 has the model's name and numbers; the numbers count because virtual machines use one name for all models.  ARM
  // has numbers only.
  constexpr std::string_view kKeys[] = {"model name", "cpu family", "model", "CPU implementer", "CPU part", "cpu"};
  constexpr std::size_t kLongest = 120;  // a file's name has 255 bytes
  std::string kind;
  for (const std::string_view key : kKeys) add_words(kind, value_of(cpuinfo, key));
  if (kind.empty()) kind = "unknown";
  kind.resize(std::min(kind.size(), kLongest));
  return kind + '-' + std::to_string(processors) + "cpus";
}

std::string machine_kind() {
  // The first 4 KiB contain the block of the first processor, and the kernel formats only what is read.
  std::array<char, 4096> text{};
  const Fd file{::open("/proc/cpuinfo", O_RDONLY | O_CLOEXEC)};
  const ssize_t size = file ? ::read(file.get(), text.data(), text.size()) : 0;
  return machine_kind({text.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0))},
                      ::sysconf(_SC_NPROCESSORS_CONF));
}

std::vector<std::string> system_config_folders() {
  std::vector<std::string> folders{"/etc/opal"};
  Dl_info libopal;
  if (::dladdr(reinterpret_cast<const void*>(&system_config_folders), &libopal) == 0) return folders;
  std::error_code failed;
  const std::filesystem::path library = std::filesystem::canonical(libopal.dli_fname, failed);
  if (failed) return folders;
  std::string own = (library.parent_path() / OPAL_LIB_TO_SYSCONF / "opal").lexically_normal();
  if (own != folders.front()) folders.push_back(std::move(own));
  return folders;
}

std::string user_config_folder() {
  if (const auto base = environment("XDG_CONFIG_HOME"); base && !base->empty()) return *base + "/opal";
  if (const auto home = environment("HOME"); home && !home->empty()) return *home + "/.config/opal";
  return {};
}

std::string user_config_file() {
  if (const auto named = environment(kUserConfigFileName)) return *named;
  const std::string folder = user_config_folder();
  return folder.empty() ? folder : folder + "/opal.conf";
}

std::vector<std::string> config_files() {
  const std::string measured = machine_kind() + ".conf";
  std::vector<std::string> files;
  for (const std::string& folder : system_config_folders()) {
    files.push_back(fmt::format("{}/tuned/{}", folder, measured));
    files.push_back(folder + "/opal.conf");
  }
  if (const std::string folder = user_tuning_folder(); !folder.empty()) files.push_back(folder + '/' + measured);
  if (std::string file = user_config_file(); !file.empty()) files.push_back(std::move(file));
  return files;
}

std::string user_tuning_folder() {
  const std::string folder = user_config_folder();
  return folder.empty() ? folder : folder + "/tuned";
}

}  // namespace opal
