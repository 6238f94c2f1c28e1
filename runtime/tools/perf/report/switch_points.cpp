// SPDX-License-Identifier: Apache-2.0
#include "runtime/tools/perf/report/switch_points.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

#include "opal/btl/registry.hpp"
#include "runtime/tools/perf/report/report.hpp"

namespace opal::perf {
namespace {

constexpr double kClear = 0.95;          // what costs memory must be better than noise
constexpr double kNoise = 1.05;          // times that differ by less are equal
constexpr std::uint64_t kHeaders = 128;  // of the layers above, which count as part of a message in a box
constexpr std::uint64_t kMostEager = 64 << 10;
constexpr std::uint64_t kNever = 1ULL << 30;

const Times* find(const Measurements& measured, Path path) {
  const auto found = measured.find(path);
  return found == measured.end() || found->second.empty() ? nullptr : &found->second;
}

/// The transport's default of a size, by the name of its variable.
std::uint64_t default_of(std::string_view variable) {
  const btl::Registry registry = btl::Registry::with_builtins();
  const config::GroupInfo& vars = *registry.find("sm")->vars;
  for (std::size_t i = 0; i < vars.size(); ++i) {
    if (vars.full_name(i) == variable) return std::get<ByteSize>(vars.default_value(i)).bytes;
  }
  return 0;
}

/// The lower of both at each size; with one of them missing, the other.
Times fastest(const Times* a, const Times* b) {
  Times times = a != nullptr ? *a : Times{};
  if (b == nullptr) return times;
  for (const auto& [size, ns] : *b) {
    const auto [place, fresh] = times.emplace(size, ns);
    if (!fresh) place->second = std::min(place->second, ns);
  }
  return times;
}

/// The largest size up to which `small` nowhere takes more than this share of the time of `large`; 0 when it is at the
/// first already.
std::uint64_t last_good(const Times& small, const Times& large, double share = kNoise) {
  std::uint64_t last = 0;
  for (const auto& [size, ns] : small) {
    const auto other = large.find(size);
    if (other == large.end()) continue;
    if (ns > other->second * share) break;
    last = size;
  }
  return last;
}

/// The smallest size from which on `large` is nowhere slower than `small`; kNever when it is at the end.
std::uint64_t first_good(const Times& large, const Times& small) {
  std::uint64_t first = kNever;
  for (auto point = large.rbegin(); point != large.rend(); ++point) {
    const auto other = small.find(point->first);
    if (other == small.end()) continue;
    if (point->second > other->second * kNoise) break;
    first = point->first;
  }
  return first;
}

std::string figure(const Times& times, std::uint64_t size) {
  const auto found = times.find(size);
  return found == times.end() ? "-" : fmt::format("{:.2f}", found->second / 1e3);
}

/// "message against get in us: 2.10 against 2.60 at 4 KiB, 3.20 against 2.90 at 8 KiB" around a switch at `size`.
std::string reason(const char* ways, const Times& small, const Times& large, std::uint64_t size) {
  std::string text = fmt::format("{} in us:", ways);
  const char* separator = " ";
  for (const auto& [at, ns] : small) {
    if (large.find(at) == large.end() || at < size / 2 || at > size * 2) continue;
    text += fmt::format("{}{:.2f} against {} at {}", separator, ns / 1e3, figure(large, at), size_text(at));
    separator = ", ";
  }
  return text;
}

}  // namespace

const char* name(Path path) noexcept {
  constexpr const char* kNames[] = {"message, fast box", "message, fragment", "get", "get, mapped memory",
                                    "get, mapped memory, cooperative"};
  return kNames[static_cast<std::size_t>(path)];
}

std::vector<SwitchPoint> switch_points(const Measurements& measured) {
  std::vector<SwitchPoint> points;
  const Times* const box = find(measured, Path::box);
  const Times* const fragment = find(measured, Path::fragment);
  if (box != nullptr && fragment != nullptr) {
    const std::uint64_t last = std::max<std::uint64_t>(last_good(*box, *fragment, kClear), 64);
    const std::string why = reason("box against fragment", *box, *fragment, last);
    points.push_back({"btl_sm_fbox_limit", last + kHeaders, why});
    // A message takes at most a quarter of its box, and two should fit beside what is being read.
    const std::uint64_t ring =
        std::clamp<std::uint64_t>(std::bit_ceil(4 * (last + kHeaders)), default_of("btl_sm_fbox_size"), 1 << 20);
    points.push_back({"btl_sm_fbox_size", ring, fmt::format("holds four messages of {}", size_text(last))});
  }

  const Times* const get = find(measured, Path::get);
  const Times message = fastest(box, fragment);
  std::uint64_t eager = default_of("btl_sm_eager");
  if (!message.empty() && get != nullptr) {
    eager = std::clamp<std::uint64_t>(last_good(message, *get), 256, kMostEager);
    points.push_back({"btl_sm_eager", eager, reason("message against offer and get", message, *get, eager)});
  }
  // A message of `eager` bytes has headers besides, and four of the largest must fit into a segment.
  if (eager >= default_of("btl_sm_max_send")) {
    points.push_back({"btl_sm_max_send", eager + 4096, fmt::format("above {} and its headers", size_text(eager))});
    points.push_back({"btl_sm_segment_size", std::max(default_of("btl_sm_segment_size"), std::bit_ceil(16 * eager)),
                      "sixteen of the largest messages"});
  }

  const Times* const mapped = find(measured, Path::mapped);
  const Times* const mapped_cooperative = find(measured, Path::mapped_cooperative);
  if (mapped != nullptr && mapped_cooperative != nullptr) {
    const std::uint64_t first = first_good(*mapped_cooperative, *mapped);
    points.push_back({"btl_sm_shared_help_from", first,
                      reason("mapped memory, helped against alone", *mapped_cooperative, *mapped, first)});
  }
  return points;
}

}  // namespace opal::perf
