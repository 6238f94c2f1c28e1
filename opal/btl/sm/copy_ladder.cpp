// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/sm/copy_ladder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "opal/btl/sm/cma.hpp"
#include "opal/btl/sm/probe_page.hpp"
#include "opal/core/log.hpp"

namespace opal::btl::sm {
namespace {

std::string text_of(const Error& error) {
  if (error.os_errno == 0) return error.where;
  return fmt::format("{}: {}", error.where,
                     std::strerror(error.os_errno));  // NOLINT(concurrency-mt-unsafe): glibc's is safe
}

}  // namespace

bool LadderOrder::has(RungKind kind) const noexcept {
  return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
}

Result<LadderOrder> LadderOrder::parse(std::string_view list) {
  LadderOrder order;
  while (!list.empty()) {
    const std::size_t comma = list.find(',');
    const std::string_view word = list.substr(0, comma);
    list = comma == std::string_view::npos ? std::string_view{} : list.substr(comma + 1);
    if (word == "none") return order;
    bool known = false;
    for (std::size_t i = 0; i < kRungKinds && !known; ++i) {
      const auto kind = static_cast<RungKind>(i);
      known = word == name(kind);
      if (known && !order.has(kind)) order.kinds.push_back(kind);
    }
    if (!known) {
      log::error("btl.sm", "btl_sm_single_copy: \"{}\" is none of shared, xpmem, cma, knem, none", word);
      return Error{Errc::invalid_argument, 0, "btl_sm_single_copy: allowed are shared, xpmem, cma, knem and none"};
    }
  }
  return order;
}

void CopyLadder::update() noexcept {
  reaches_all_ = std::any_of(rungs_.begin(), rungs_.end(), [](const Step& step) { return step.rung->reaches_all(); });
}

void CopyLadder::add(std::unique_ptr<Rung> rung, std::string why) {
  rungs_.push_back({std::move(rung), std::move(why)});
  update();
}

void CopyLadder::try_rung(std::unique_ptr<Rung> rung, const RemoteRange& page, std::uint64_t seed) {
  std::array<std::byte, ProbePage::kSize> copy{};
  const CopyOutcome outcome = rung->read(copy.data(), page);
  if (!outcome.ok()) {
    refuse(rung->kind(), text_of(outcome.error) + (rung->kind() == RungKind::cma ? CmaRung::ptrace_rule() : ""));
  } else if (!ProbePage::matches(seed, copy)) {
    refuse(rung->kind(), "the probe read something else, that process is not the peer");
  } else {
    add(std::move(rung), fmt::format("probe copied {} bytes", copy.size()));
  }
}

void CopyLadder::refuse(RungKind kind, std::string_view reason) {
  refused_ += fmt::format("{}no {}: {}", refused_.empty() ? "" : "; ", name(kind), reason);
}

void CopyLadder::refuse(RungKind kind, const Error& error) { refuse(kind, text_of(error)); }

void CopyLadder::refuse_all(std::string_view reason) { refused_ = fmt::format("no single copy: {}", reason); }

std::string CopyLadder::why() const {
  std::string text;
  for (const Step& step : rungs_) {
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", name(step.rung->kind()), step.why);
  }
  if (!refused_.empty()) text += (text.empty() ? "" : "; ") + refused_;
  return text.empty() ? "no single copy" : text;
}

bool CopyLadder::reaches(const RemoteRange& range) noexcept {
  return reaches_all_ ||
         std::any_of(rungs_.begin(), rungs_.end(), [&](const Step& step) { return step.rung->reaches(range); });
}

Rung* CopyLadder::find(RungKind kind) const noexcept {
  const auto found =
      std::find_if(rungs_.begin(), rungs_.end(), [&](const Step& step) { return step.rung->kind() == kind; });
  return found == rungs_.end() ? nullptr : found->rung.get();
}

std::byte* CopyLadder::map(const RemoteRange& range) noexcept {
  for (const Step& step : rungs_) {
    if (std::byte* const here = step.rung->map(range)) return here;
  }
  return nullptr;
}

void CopyLadder::demote(std::size_t index, const Error& error) noexcept {
  const RungKind kind = rungs_[index].rung->kind();
  const std::string reason = text_of(error);
  rungs_.erase(rungs_.begin() + static_cast<std::ptrdiff_t>(index));
  update();
  refuse(kind, "given up, " + reason);
  const std::string_view instead = index < rungs_.size() ? name(rungs_[index].rung->kind()) : "messages";
  log::once(log::Level::warn, "sm single copy demoted", "btl.sm", "{} does not work any more ({}); {} instead",
            name(kind), reason, instead);
}

}  // namespace opal::btl::sm
