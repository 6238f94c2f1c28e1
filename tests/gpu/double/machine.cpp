// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/double/machine.hpp"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string_view>

namespace opal::cuda_double {
namespace {

constexpr std::array<const char*, 11> kWords{"devices",      "peer_access",  "already_mapped", "ipc_limit",
                                             "memory_limit", "reuse",        "late",           "seed",
                                             "hold",         "unknown_kind", "api_version"};

std::string without_version(std::string_view function) {
  for (const std::string_view version : {"_v2", "_v3", "_v4"}) {
    if (function.ends_with(version)) function.remove_suffix(version.size());
  }
  return std::string{function};
}

/// Devices of the machine that CUDA_VISIBLE_DEVICES leaves to the process, in its order; as with the real driver, the
/// list ends before the first word that names none.
std::vector<unsigned> visible(unsigned in_machine) {
  std::vector<unsigned> list;
  const char* const text = std::getenv("CUDA_VISIBLE_DEVICES");
  if (text == nullptr) {
    for (unsigned i = 0; i < in_machine; ++i) list.push_back(i);
    return list;
  }
  std::istringstream words{text};
  for (std::string word; std::getline(words, word, ',');) {
    char* end = nullptr;
    const unsigned long number = std::strtoul(word.c_str(), &end, 10);
    if (word.empty() || *end != '\0' || number >= in_machine) break;
    list.push_back(static_cast<unsigned>(number));
  }
  return list;
}

}  // namespace

Machine& Machine::get() {
  static auto* const machine = new Machine;  // never destroyed: programs call drivers from their last destructors
  return *machine;
}

Machine::Machine() { load_settings(); }

void Machine::load_settings() {
  settings_.fill(0);
  const auto preset = [this](Setting setting, std::uint64_t value) {
    settings_[static_cast<std::size_t>(setting)] = value;
  };
  preset(Setting::devices, 2);
  preset(Setting::peer_access, 1);
  preset(Setting::reuse, 1);
  preset(Setting::api_version, CUDA_VERSION);
  const char* const text = std::getenv("OPAL_CUDA_DOUBLE");
  if (text == nullptr) return;
  std::istringstream words{text};
  for (std::string word; std::getline(words, word, ',');) {
    const std::size_t equals = word.find('=');
    bool known = false;
    for (std::size_t i = 0; i < kWords.size(); ++i) {
      if (equals == std::string::npos || word.substr(0, equals) != kWords[i]) continue;
      settings_[i] = std::strtoull(word.c_str() + equals + 1, nullptr, 0);
      known = true;
    }
    if (!known) {
      std::fprintf(stderr, "driver double: OPAL_CUDA_DOUBLE has no \"%s\"\n", word.c_str());
      std::abort();
    }
  }
}

void Machine::set(Setting which, std::uint64_t value) {
  const std::lock_guard lock{mutex};
  settings_[static_cast<std::size_t>(which)] = value;
}

std::uint64_t Machine::count(Count what) const {
  const std::lock_guard lock{mutex};
  std::uint64_t number = 0;
  switch (what) {
    case Count::opened:
    case Count::allocations:
      for (const auto& [base, block] : blocks) {
        const bool foreign = block.foreign || block.kind == Kind::imported || block.kind == Kind::pool_imported;
        number += foreign == (what == Count::opened) ? 1 : 0;
      }
      return number;
    case Count::streams:
      for (const auto& [id, stream] : streams) number += id != stream.context ? 1 : 0;  // not the default ones
      return number;
    case Count::events: return events.size();
    case Count::contexts: return contexts.size();
    case Count::unfinished:
      for (const auto& [id, stream] : streams) number += stream.operations.size();
      return number;
  }
  return 0;
}

std::uint64_t Machine::calls(const char* function) const {
  const std::lock_guard lock{mutex};
  const auto found = calls_.find(function);
  return found == calls_.end() ? 0 : found->second;
}

void Machine::fail(const char* function, CUresult result, unsigned times) {
  const std::lock_guard lock{mutex};
  failures_[function] = {result, times};
}

void Machine::reset() {
  const std::lock_guard lock{mutex};
  load_settings();
  failures_.clear();
}

void Machine::make_devices() {
  for (const unsigned physical : visible(static_cast<unsigned>(setting(Setting::devices)))) {
    Device device;
    device.physical = physical;
    std::memcpy(device.uuid.bytes, "opal-gpu-double", 15);
    device.uuid.bytes[15] = static_cast<char>(physical);
    devices.push_back(device);
  }
}

bool Machine::peer_access(int from, int to) const { return from != to && setting(Setting::peer_access) != 0; }

/// A context goes, and everything in it.
void Machine::forget_context(Id id) {
  for (auto& [stream_id, stream] : streams) {
    if (stream.context == id) finish(stream);
  }
  std::erase_if(streams, [id](const auto& entry) { return entry.second.context == id; });
  std::erase_if(events, [id](const auto& entry) { return entry.second.context == id; });
  for (auto at = blocks.begin(); at != blocks.end();) {
    const Block& block = at->second;
    const std::uintptr_t base = at->first;
    ++at;
    // Virtual-memory mappings and pools belong to the device, not to a context.
    const bool of_context = block.kind != Kind::mapped && block.kind != Kind::pool && block.kind != Kind::pool_imported;
    if (block.context == id && of_context) remove_block(base);
  }
  contexts.erase(id);
}

std::vector<Id>& context_stack() {
  thread_local std::vector<Id> stack;
  return stack;
}

Call::Call(const char* function, bool needs_init)
    : function_(function), machine_(Machine::get()), lock_(machine_.mutex) {
  const std::string name = without_version(function);
  ++machine_.calls_[name];
  if (needs_init && machine_.pid != ::getpid()) {  // also in a forked child: contexts do not survive that
    refused_ = CUDA_ERROR_NOT_INITIALIZED;
    return;
  }
  const auto failure = machine_.failures_.find(name);
  if (failure == machine_.failures_.end()) return;
  refused_ = failure->second.result;
  if (--failure->second.times == 0) machine_.failures_.erase(failure);
}

void Call::misuse(const char* what) const {
  std::fprintf(stderr, "driver double: %s of %s: the real driver does not check that, and corrupts its memory\n",
               function_, what);
  std::abort();
}

Id Call::context_id() const {
  const std::vector<Id>& stack = context_stack();
  return stack.empty() ? 0 : stack.back();
}

Context* Call::context() const {
  const auto found = machine_.contexts.find(context_id());
  return found == machine_.contexts.end() ? nullptr : &found->second;
}

}  // namespace opal::cuda_double

extern "C" opal::cuda_double::Control* opal_cuda_double_control() { return &opal::cuda_double::Machine::get(); }
