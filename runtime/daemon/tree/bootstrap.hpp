// SPDX-License-Identifier: Apache-2.0
// runtime/daemon/tree/bootstrap.hpp — the line that the launcher writes to the stdin of a daemon, before they are
// connected.  The secret travels only in this line, so no command line and no environment shows it.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "runtime/oob/wire.hpp"
#include "runtime/packing.hpp"

namespace runtime::daemon {

struct Bootstrap {
  std::string job_id;
  std::uint32_t host = 0;                                     ///< index in the job's list of hosts
  std::string launcher;                                       ///< address of the launcher's Context
  std::string secret;                                         ///< text for opal::Secret
  std::uint64_t silence_ms = 0;                               ///< Timeouts::silence
  std::uint64_t start_ms = 0;                                 ///< Timeouts::start
  std::vector<std::pair<std::string, std::string>> settings;  ///< names and values of --set
};

inline constexpr std::string_view kBootstrapMark =
    "opald-3 ";  ///< begins the line; change Bootstrap or a message between daemons => bump the number
inline constexpr std::size_t kLongestBootstrap = 1U << 20;  ///< bytes of the line

inline std::string to_line(const Bootstrap& bootstrap) {
  return std::string{kBootstrapMark} + oob::to_hex(oob::as_bytes(pack(bootstrap))) + "\n";
}

/// Parses `line`, which has no newline.  Errors: version_mismatch (opalrun is of another version), protocol.
inline Result<Bootstrap> from_line(std::string_view line) {
  if (!line.starts_with(kBootstrapMark)) {
    const Errc code = line.starts_with("opald-") ? Errc::version_mismatch : Errc::protocol;
    return Error{code, 0, "opald: what came on stdin is not from an opalrun of this version"};
  }
  OPAL_TRY_ASSIGN(const std::string bytes, oob::from_hex(line.substr(kBootstrapMark.size())));
  return unpack<Bootstrap>(oob::as_bytes(bytes));
}

}  // namespace runtime::daemon
