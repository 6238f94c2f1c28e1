// SPDX-License-Identifier: Apache-2.0
// runtime/host/messages.hpp — the texts of the launcher's messages about ranks, and the exit statuses of the launcher.
// Pure functions.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "runtime/guard/protocol.hpp"

namespace runtime::launch {

/// "was killed by signal 9 (SIGKILL)", "exited with status 7".
std::string describe_end(int wait_status);

/// The exit status, 0..255, as a shell reports it: 128 + the signal's number for a signal.
int exit_status_of(int wait_status) noexcept;

/// "cannot start rank 3: ./a.out: Exec format error".
std::string describe_refusal(int rank, guard::Step step, int os_errno, const std::string& program,
                             const std::string& directory);

/// "SIGTERM"; "signal 40" for one without a name.
std::string signal_name(int signo);

/// "1 rank", "3 ranks".
std::string count_of_ranks(unsigned count);

/// "cpu 3", "ranks 0-2,7".  `what` is the noun in the singular; `numbers` ascend.
std::string list_numbers(std::string_view what, std::span<const std::uint32_t> numbers);

}  // namespace runtime::launch
