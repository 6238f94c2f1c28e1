// SPDX-License-Identifier: Apache-2.0
#include "opal/btl/sm/single_copy/copy_mechanisms.hpp"

#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "opal/btl/sm/single_copy/cma.hpp"
#include "opal/core/log.hpp"
#include "opal/core/text.hpp"

namespace opal::btl::sm {
namespace {

std::string text_of(const Error& error) {
  if (error.os_errno == 0) return error.where;
  return fmt::format("{}: {}", error.where,
                     std::strerror(error.os_errno));  // NOLINT(concurrency-mt-unsafe): glibc's is safe
}

}  // namespace

ProbePage probe_page(std::uint64_t seed) noexcept {
  ProbePage page;
  std::array<unsigned char, randombytes_SEEDBYTES> input{};
  std::memcpy(input.data(), &seed, sizeof seed);
  ::randombytes_buf_deterministic(page.data(), page.size(), input.data());
  return page;
}

bool MechanismOrder::has(MechanismKind kind) const noexcept { return std::ranges::find(kinds, kind) != kinds.end(); }

Result<MechanismOrder> MechanismOrder::parse(std::string_view list) {
  MechanismOrder order;
  for (const std::string_view word : elements(list, ',')) {
    if (word == "none") return order;
    bool known = false;
    for (std::size_t i = 0; i < kMechanismKinds && !known; ++i) {
      const auto kind = static_cast<MechanismKind>(i);
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

void CopyMechanisms::update() noexcept {
  reaches_all_ = std::ranges::any_of(mechanisms_, [](const Step& step) { return step.mechanism->reaches_all(); });
}

void CopyMechanisms::add(std::unique_ptr<CopyMechanism> mechanism, std::string why) {
  mechanisms_.push_back({std::move(mechanism), std::move(why)});
  update();
}

void CopyMechanisms::try_mechanism(std::unique_ptr<CopyMechanism> mechanism, const RemoteRange& page,
                                   std::uint64_t seed) {
  ProbePage copy{};
  const CopyOutcome outcome = mechanism->copy(page, copy.data(), false);
  if (!outcome.ok()) {
    refuse(mechanism->kind(),
           text_of(outcome.error) + (mechanism->kind() == MechanismKind::cma ? CmaMechanism::ptrace_rule() : ""));
  } else if (copy != probe_page(seed)) {
    refuse(mechanism->kind(), "the probe read other content: that process is not the peer");
  } else {
    add(std::move(mechanism), fmt::format("probe copied {} bytes", copy.size()));
  }
}

void CopyMechanisms::refuse(MechanismKind kind, std::string_view reason) {
  refused_ += fmt::format("{}no {}: {}", refused_.empty() ? "" : "; ", name(kind), reason);
}

void CopyMechanisms::refuse(MechanismKind kind, const Error& error) { refuse(kind, text_of(error)); }

void CopyMechanisms::refuse_all(std::string_view reason) { refused_ = fmt::format("no single copy: {}", reason); }

std::string CopyMechanisms::why() const {
  std::string text;
  for (const Step& step : mechanisms_) {
    text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", name(step.mechanism->kind()), step.why);
  }
  if (!refused_.empty()) text += (text.empty() ? "" : "; ") + refused_;
  return text.empty() ? "no single copy" : text;
}

bool CopyMechanisms::reaches(const RemoteRange& range) noexcept {
  return reaches_all_ ||
         std::ranges::any_of(mechanisms_, [&](const Step& step) { return step.mechanism->reaches(range); });
}

CopyMechanism* CopyMechanisms::find(MechanismKind kind) const noexcept {
  const auto found =
      std::ranges::find_if(mechanisms_, [&](const Step& step) { return step.mechanism->kind() == kind; });
  return found == mechanisms_.end() ? nullptr : found->mechanism.get();
}

CopyOutcome CopyMechanisms::copy(const RemoteRange& there, std::byte* here, bool write) noexcept {
  std::uint64_t done = 0;
  for (std::size_t i = 0; i < mechanisms_.size();) {
    const CopyOutcome outcome = mechanisms_[i].mechanism->copy(there.after(done), here + done, write);
    done += outcome.copied;
    if (outcome.ok()) return {there.size, {}};
    switch (outcome.error.code) {
      case Errc::busy: ++i; break;
      case Errc::not_supported: remove_broken(i, outcome.error); break;
      default: return {done, outcome.error};
    }
  }
  return {done, {Errc::not_supported, 0, "sm: no single-copy mechanism reaches this memory", there.address}};
}

void CopyMechanisms::remove_broken(std::size_t index, const Error& error) noexcept {
  const MechanismKind kind = mechanisms_[index].mechanism->kind();
  const std::string reason = text_of(error);
  mechanisms_.erase(mechanisms_.begin() + static_cast<std::ptrdiff_t>(index));
  update();
  refuse(kind, "given up, " + reason);
  const std::string_view instead = index < mechanisms_.size() ? name(mechanisms_[index].mechanism->kind()) : "messages";
  log::once(log::Level::warn, "sm single copy demoted", "btl.sm", "{} has stopped working ({}); uses {} instead",
            name(kind), reason, instead);
}

}  // namespace opal::btl::sm
