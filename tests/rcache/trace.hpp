// SPDX-License-Identifier: Apache-2.0
// tests/rcache/trace.hpp — what is done to a cache, as data: random traces, and the short one that is left of a failing
// one when everything is taken out without which it fails as well.
#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "opal/rcache/registrations/registration.hpp"

namespace opal::rcache::test {

struct Step {
  enum class Kind : std::uint8_t { get, give, invalidate, flush };
  Kind kind = Kind::get;
  std::uint32_t page = 0;   ///< get, invalidate: the first one
  std::uint32_t pages = 1;  ///< of them
  Access access = 1;        ///< get
  std::uint32_t which = 0;  ///< give: of the leases at hand, modulo their number; nothing when there is none
};
using Trace = std::vector<Step>;

inline std::string to_string(const Trace& trace) {
  std::string text;
  for (const Step& step : trace) {
    switch (step.kind) {
      case Step::Kind::get: text += fmt::format("get [{}+{}] rights {}; ", step.page, step.pages, step.access); break;
      case Step::Kind::give: text += fmt::format("give {}; ", step.which); break;
      case Step::Kind::invalidate: text += fmt::format("invalidate [{}+{}]; ", step.page, step.pages); break;
      case Step::Kind::flush: text += "flush; "; break;
    }
  }
  return text;
}

/// `steps` random steps over `space` pages with rights out of 1..`rights`.
inline Trace random_trace(std::uint64_t seed, std::size_t steps, std::uint32_t space, Access rights) {
  std::mt19937_64 random{seed};
  Trace trace(steps);
  for (Step& step : trace) {
    const auto kind = random() % 1000;
    step.kind = kind < 480   ? Step::Kind::get
                : kind < 970 ? Step::Kind::give
                : kind < 999 ? Step::Kind::invalidate
                             : Step::Kind::flush;
    step.page = static_cast<std::uint32_t>(random() % space);
    step.pages = static_cast<std::uint32_t>(1 + random() % (random() % 8 == 0 ? space / 8 : 4));
    step.access = static_cast<Access>(1 + random() % rights);
    step.which = static_cast<std::uint32_t>(random());
  }
  return trace;
}

/// The smallest trace found by taking out pieces, halves first and single steps last, that still `fails`.
inline Trace shrunk(Trace trace, const std::function<bool(const Trace&)>& fails) {
  for (std::size_t piece = std::max<std::size_t>(1, trace.size() / 2);;) {
    bool smaller = false;
    for (std::size_t at = 0; at < trace.size();) {
      Trace without{trace.begin(), trace.begin() + static_cast<std::ptrdiff_t>(at)};
      without.insert(without.end(), trace.begin() + static_cast<std::ptrdiff_t>(std::min(at + piece, trace.size())),
                     trace.end());
      if (fails(without)) {
        trace = std::move(without);
        smaller = true;
      } else {
        at += piece;
      }
    }
    if (piece == 1 && !smaller) return trace;
    piece = std::max<std::size_t>(1, piece / 2);
  }
}

}  // namespace opal::rcache::test
