// SPDX-License-Identifier: Apache-2.0
// Streams and events: operations wait in their streams until they are due, and complete in order within a stream.
#include <algorithm>
#include <cstring>

#include "tests/gpu/double/machine.hpp"

namespace opal::cuda_double {
namespace {

std::uint64_t mixed(std::uint64_t value) noexcept {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9U;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebU;
  return value ^ (value >> 31);
}

}  // namespace

Stream* Machine::stream_of(CUstream handle, Id context) {
  const bool is_default = handle == nullptr || handle == kLegacyStream;
  if (is_default) {
    Stream& stream = streams[context];
    stream.id = stream.context = context;
    return &stream;
  }
  const auto found = streams.find(id_of(handle));
  return found == streams.end() ? nullptr : &found->second;
}

void Machine::submit(Stream& stream, Operation operation) {
  operation.serial = ++operations_;
  const std::uint64_t late = setting(Setting::late);
  operation.due = queries + (late == 0 ? 0 : 1 + mixed(operation.serial + setting(Setting::seed) * 0x9e37U) % late);
  stream.operations.push_back(std::move(operation));
  run_due();
}

void Machine::query() {
  ++queries;
  run_due();
}

void Machine::run_due() {
  for (bool some = true; some;) {
    some = false;
    for (auto& [id, stream] : streams) {
      while (run_one(stream, When::due)) some = true;
    }
  }
}

void Machine::release(unsigned operations) {
  const std::lock_guard lock{mutex};
  while (operations > 0) {
    const auto done = std::find_if(streams.rbegin(), streams.rend(),
                                   [this](auto& entry) { return run_one(entry.second, When::released); });
    if (done == streams.rend()) return;
    --operations;
  }
}

void Machine::finish(Stream& stream) {
  while (run_one(stream, When::waited_for)) {
  }
}

void Machine::finish_all() {
  for (auto& [id, stream] : streams) finish(stream);
}

void Machine::finish_until(Stream& stream, std::uint64_t serial) {
  while (!stream.operations.empty() && stream.operations.front().serial <= serial) run_one(stream, When::waited_for);
}

/// Whether what the first operation has to wait for is done; if it is waited for, it is done here.
bool Machine::ready(Stream& stream, When when) {
  const Operation& first = stream.operations.front();
  const auto earlier = [&first](const Stream& other) {
    return !other.operations.empty() && other.operations.front().serial < first.serial;
  };
  // The default stream and the blocking ones of its context wait for each other.
  const bool is_default = stream.id == stream.context;
  if (!stream.non_blocking) {
    for (auto& [id, other] : streams) {
      const bool other_is_default = other.id == other.context;
      if (&other == &stream || other.context != stream.context || other.non_blocking) continue;
      if (is_default == other_is_default || !earlier(other)) continue;
      if (when != When::waited_for) return false;
      finish_until(other, first.serial);
    }
  }
  if (first.kind != Operation::Kind::wait) return true;
  const auto event = events.find(first.event);
  if (event == events.end() || event->second.done >= first.recording) return true;
  if (when != When::waited_for) return false;
  for (auto& [id, other] : streams) {
    for (const Operation& operation : other.operations) {
      if (operation.kind != Operation::Kind::record || operation.event != first.event) continue;
      if (operation.recording != first.recording) continue;
      finish_until(other, operation.serial);
      return true;
    }
  }
  return true;
}

bool Machine::run_one(Stream& stream, When when) {
  if (stream.operations.empty()) return false;
  const bool not_yet = setting(Setting::hold) != 0 || stream.operations.front().due > queries;
  if (when == When::due && not_yet) return false;
  if (!ready(stream, when)) return false;
  Operation operation = std::move(stream.operations.front());
  stream.operations.pop_front();
  execute(operation);
  return true;
}

void Machine::execute(Operation& operation) {
  switch (operation.kind) {
    case Operation::Kind::copy:
      std::memmove(operation.to.bytes, operation.staged.empty() ? operation.from.bytes : operation.staged.data(),
                   operation.size);
      return;
    case Operation::Kind::fill: std::memset(operation.to.bytes, operation.value, operation.size); return;
    case Operation::Kind::record:
      if (const auto event = events.find(operation.event); event != events.end()) {
        event->second.done = std::max(event->second.done, operation.recording);
      }
      return;
    case Operation::Kind::wait: return;
    case Operation::Kind::free:
      if (blocks.contains(operation.address)) remove_block(operation.address);
      return;
  }
}

}  // namespace opal::cuda_double
