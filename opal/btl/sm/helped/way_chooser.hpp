// SPDX-License-Identifier: Apache-2.0
// opal/btl/sm/helped/way_chooser.hpp — which way large gets from one peer take: what is fastest differs from machine to
// machine (caches, kernel, huge pages), with the size, and with whether the peer has time for us.  So the ways are
// tried and timed on the transfers themselves: each a few times per size class at first, then the fastest, and now and
// then another one, in case the first tries met cold caches or a peer that was away, or the world has changed: after as
// many transfers as there have been (a bad start costs its own length again at most), later at fixed distances.
// Owned by an endpoint.  Threads: as the module.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

namespace opal::btl::sm {

enum class Way : std::uint8_t {
  alone,        ///< single copy by the initiator
  cooperative,  ///< single copy by both, each a share
  pipelined,    ///< two copies, by the target into chunks and by the initiator out of them
};
inline constexpr std::size_t kWays = 3;

/// The ways that are possible now.
struct Ways {
  std::array<bool, kWays> possible{};
  [[nodiscard]] bool has(Way way) const noexcept { return possible[static_cast<std::size_t>(way)]; }
};

class WayChooser {
 public:
  static constexpr std::uint32_t kTries = 4;  ///< of each way, at first
  /// Transfers of a size class between two tries of another way, in the long run.
  static constexpr std::uint32_t kLookAround = 1024;

  /// One of the possible ways, of which there is at least one.
  [[nodiscard]] Way choose(std::uint64_t size, const Ways& ways) noexcept {
    Class& sizes = classes_[class_of(size)];
    const std::uint32_t number = ++sizes.transfers;
    const bool look_around = std::has_single_bit(number) || number % kLookAround == 0;
    Way best = Way::alone;
    std::uint64_t best_ns = UINT64_MAX;
    Way rarest = Way::alone;
    std::uint32_t least = UINT32_MAX;
    for (std::size_t i = 0; i < kWays; ++i) {
      if (!ways.possible[i]) continue;
      if (sizes.ways[i].tries < least) {
        least = sizes.ways[i].tries;
        rarest = static_cast<Way>(i);
      }
      if (sizes.ways[i].ns < best_ns || best_ns == UINT64_MAX) {
        best_ns = sizes.ways[i].ns;
        best = static_cast<Way>(i);
      }
    }
    return least < kTries || look_around ? rarest : best;
  }

  /// A transfer took this long.
  void learn(std::uint64_t size, Way way, std::uint64_t ns) noexcept {
    Entry& entry = classes_[class_of(size)].ways[static_cast<std::size_t>(way)];
    // Sizes of a class differ by up to two.
    const std::uint64_t scaled =
        size == 0 ? ns
                  : static_cast<std::uint64_t>(static_cast<double>(ns) * floor_of(size) / static_cast<double>(size));
    if (entry.tries == 0 || scaled < entry.ns) {
      entry.ns = scaled;
    } else {  // an interruption of the process says little about the way: it counts for twice at most
      entry.ns += (std::min(scaled, 2 * entry.ns) - entry.ns) / 16;
    }
    if (entry.tries != UINT32_MAX) ++entry.tries;
  }

 private:
  struct Entry {
    std::uint64_t ns = 0;
    std::uint32_t tries = 0;
  };
  struct Class {
    std::array<Entry, kWays> ways{};
    std::uint32_t transfers = 0;
  };
  static constexpr std::size_t kFirst = 12;  // 4 KiB and less
  static constexpr std::size_t kClasses = 20;

  static std::size_t class_of(std::uint64_t size) noexcept {
    const auto log = static_cast<std::size_t>(std::bit_width(size | 1)) - 1;
    return std::min(log < kFirst ? 0 : log - kFirst, kClasses - 1);
  }
  static double floor_of(std::uint64_t size) noexcept {
    return static_cast<double>(std::uint64_t{1} << (class_of(size) + kFirst));
  }

  std::array<Class, kClasses> classes_{};
};

}  // namespace opal::btl::sm
