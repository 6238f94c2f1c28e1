// SPDX-License-Identifier: Apache-2.0
// tests/sim/overlay_trial.hpp — one life of a tree of daemons under faults, by a seed, held against what it promises:
//   * the root gets what each member sent, in order, each once; of lost members a beginning of it;
//   * each member gets what the root sent to it, in order, each once; members that are out a beginning of it;
//   * each collective operation ends once at each of its participants, with the parts of all that are not lost and have
//     not given it up;
//   * members that nothing happened to are not lost; in the end all that live are attached, and no member holds
//   anything.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace opal::test {

struct Fault {
  enum class Kind : std::uint8_t { kill, crash, stop, partition, heal };
  Kind kind;
  std::uint64_t time_ns;
  std::uint32_t member;       ///< of kill, crash, stop
  std::uint64_t duration_ns;  ///< of stop
  std::uint64_t seed;         ///< of partition: the nodes that are cut off
};

struct TrialPlan {
  std::uint64_t seed = 1;
  std::uint32_t members = 8;
  unsigned radix = 2;
  double loss = 0;
  std::uint64_t wishes = 200;  ///< messages and arrivals
  std::vector<Fault> faults;
  /// Stops and partitions may separate members that live; then some may be out.
  [[nodiscard]] bool separates() const;
};

struct TrialOutcome {
  std::string problem;  ///< empty: all promises were kept
  std::uint64_t time_ns = 0;
  std::uint64_t messages = 0;
  std::uint64_t releases = 0;
  std::uint32_t lost = 0;
  std::uint32_t attached_anew = 0;  ///< members whose last parent was not their first
  friend bool operator==(const TrialOutcome&, const TrialOutcome&) = default;
};

struct TrialFaults {
  bool kills = false;
  bool crashes = false;
  bool stops = false;
  bool partitions = false;
};

/// What the seed says should happen.
TrialPlan plan_of(std::uint64_t seed, const TrialFaults& faults, double loss);
TrialOutcome run_trial(const TrialPlan& plan);
/// Takes faults, then wishes, then members away as long as something still goes wrong.
TrialPlan shrink(TrialPlan plan);
std::string describe(const TrialPlan& plan);

}  // namespace opal::test
