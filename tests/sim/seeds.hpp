// SPDX-License-Identifier: Apache-2.0
// tests/sim/seeds.hpp — one test body for many seeds.  The first seed that fails ends the test with the command that
// replays it alone.  The environment: OPAL_SIM_SEED=n runs that seed only, OPAL_SIM_SEEDS=n that many instead.
#pragma once
#include <cstdint>
#include <functional>
#include <string>

namespace opal::test {

/// Runs `body` with seeds 1 .. `count`, each under a trace that names it, until one fails the current test.
void for_each_seed(std::uint64_t count, const std::function<void(std::uint64_t seed)>& body);

/// The shell command that runs the current test with this seed alone.
std::string replay_command(std::uint64_t seed);

}  // namespace opal::test
