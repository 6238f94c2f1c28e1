// SPDX-License-Identifier: Apache-2.0
#include "opal/am/components.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <link.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "opal/am/config.hpp"
#include "opal/btl/component_record.hpp"
#include "opal/core/config/core_config.hpp"
#include "opal/core/system/fd.hpp"
#include "opal/core/text.hpp"
#include "opal/gpu/config.hpp"
#include "opal/memory/config.hpp"
#include "opal/mpool/config.hpp"
#include "opal/rcache/config.hpp"

namespace opal::am {
namespace {

namespace fs = std::filesystem;

std::string os_error(std::string_view call) {
  return fmt::format("{}: {}", call, std::generic_category().message(errno));
}

/// Why dlopen() must not have the file: it blocks on a FIFO, and faults (SIGBUS) on a truncated object.  Empty if it
/// may. All other faults are errors of dlopen() itself.
std::string why_not_to_open(const std::string& path) {
  const Fd fd{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  struct stat status {};
  if (!fd || ::fstat(fd.get(), &status) != 0) return os_error("open");
  if (!S_ISREG(status.st_mode)) return "not a regular file";
  const auto size = static_cast<std::uint64_t>(status.st_size);
  ElfW(Ehdr) header{};
  constexpr unsigned char kClass = sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32;
  if (::pread(fd.get(), &header, sizeof header, 0) != ssize_t{sizeof header} ||
      !std::equal(header.e_ident, header.e_ident + SELFMAG, ELFMAG) || header.e_ident[EI_CLASS] != kClass) {
    return {};
  }
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    ElfW(Phdr) part{};
    const std::uint64_t at = header.e_phoff + std::uint64_t{i} * sizeof part;
    if (::pread(fd.get(), &part, sizeof part, static_cast<off_t>(at)) != ssize_t{sizeof part}) return {};
    if (part.p_type == PT_LOAD && (part.p_offset > size || part.p_filesz > size - part.p_offset)) {
      return fmt::format("truncated: it has {} bytes", size);
    }
  }
  return {};
}

bool is_name(std::string_view name) {
  const auto allowed = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  return !name.empty() && name.size() <= 15 && std::all_of(name.begin(), name.end(), allowed);
}

/// Why the registry does not take `component`; empty if it does.
std::string objection(const btl::Component* component, const Components& known) {
  if (component == nullptr) return "its record names no component";
  if (!is_name(component->name))
    return fmt::format("\"{}\" is no name of a transport: [a-z0-9]{{1,15}}", component->name);
  if (component->usable == nullptr || component->open == nullptr) return "its function usable or open is null";
  if (component->vars != nullptr && component->vars->name() != "btl_" + std::string{component->name}) {
    return fmt::format("its variables are called {}_*, not btl_{}_*", component->vars->name(), component->name);
  }
  const btl::Component* const other = known.registry.find(component->name);
  if (other == nullptr) return {};
  const auto file = std::find_if(known.files.begin(), known.files.end(),
                                 [&](const ComponentFile& each) { return each.component == other; });
  return fmt::format("the name {} is taken by {}", component->name,
                     file == known.files.end() ? "a transport of libopal" : file->path);
}

ComponentFile refused(std::string path, std::string why) { return {std::move(path), nullptr, std::move(why)}; }

ComponentFile load(const std::string& path, const Components& known) {
  if (std::string why = why_not_to_open(path); !why.empty()) return refused(path, std::move(why));
  // Never closed: modules, variables and threads of the component may outlive every Context.
  void* const object = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (object == nullptr) {
    const std::string_view why{::dlerror()};
    return refused(path, std::string{why.starts_with(path + ": ") ? why.substr(path.size() + 2) : why});
  }
  const auto* const record = static_cast<const btl::ComponentRecord*>(::dlsym(object, btl::kRecordSymbol));
  if (record == nullptr) {
    return refused(path, fmt::format("no component: it has no symbol {}, so no ABI version; needed is version {}",
                                     btl::kRecordSymbol, btl::kComponentAbi));
  }
  if (record->abi != btl::kComponentAbi) {
    return refused(path, fmt::format("its component ABI is version {}; needed is version {}: compile it with the "
                                     "headers of this OPAL",
                                     record->abi, btl::kComponentAbi));
  }
  if (std::string why = objection(record->component, known); !why.empty()) return refused(path, std::move(why));
  return {path, record->component, {}};
}

/// The shared objects of a directory, by name.
std::vector<std::string> shared_objects(const std::string& directory, std::error_code& error) {
  std::vector<std::string> paths;
  for (fs::directory_iterator entry{directory, error}, end; !error && entry != end; entry.increment(error)) {
    if (entry->path().extension() == ".so") paths.push_back(entry->path().string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace

Components find_components(const config::Store& store) {
  Components found{btl::Registry::with_builtins(), {}};
  const std::string directories = store.present_value(kGroup, "am_component_path");
  if (!directories.empty() && ::getauxval(AT_SECURE) != 0) {
    found.files.push_back(refused(directories, "ignored: this process has more rights than its user"));
    return found;
  }
  for (const std::string_view element : elements(directories, ':')) {
    const std::string directory{element};
    if (!directory.starts_with('/')) {
      found.files.push_back(refused(directory, "not the absolute path of a directory"));
      continue;
    }
    std::error_code error;
    for (const std::string& path : shared_objects(directory, error)) {
      found.files.push_back(load(path, found));
      if (const btl::Component* const loaded = found.files.back().component) found.registry.add(*loaded);
    }
    if (error) found.files.push_back(refused(directory, error.message()));
  }
  return found;
}

std::vector<const config::GroupInfo*> config_groups(const btl::Registry& registry) {
  std::vector<const config::GroupInfo*> groups{&config::kCoreGroup, &kGroup};
  for (const btl::Component* component : registry.components()) {
    if (component->vars != nullptr) groups.push_back(component->vars);
  }
  groups.push_back(&gpu::kGroup);
  groups.push_back(&memory::kGroup);
  groups.push_back(&mpool::kGroup);
  groups.push_back(&rcache::kGroup);
  return groups;
}

}  // namespace opal::am
