// SPDX-License-Identifier: Apache-2.0
// runtime/daemon/tree/bootstrap.hpp — what the launcher tells a daemon on its stdin, in one line, before they are
// connected. The secret travels only here: neither a command line nor an environment shows it.
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
  std::uint32_t host = 0;        ///< index in the job's list of hosts
  std::string launcher;          ///< address blob of its Context
  std::string secret;            ///< text for opal::Secret
  std::uint64_t silence_ms = 0;  ///< Timeouts::silence
  std::uint64_t start_ms = 0;    ///< Timeouts::start
  std::vector<std::pair<std::string, std::string>> settings;
};

inline constexpr std::string_view kBootstrapMark = "opald-2 ";  ///< the number changes with Bootstrap
inline constexpr std::size_t kLongestBootstrap = 1U << 20;

inline std::string to_line(const Bootstrap& bootstrap) {
  return std::string{kBootstrapMark} + oob::to_hex(oob::as_bytes(pack(bootstrap))) + "\n";
}

/// `line` without its newline.  Errors: version_mismatch (of a launcher of another version), protocol.
inline Result<Bootstrap> from_line(std::string_view line) {
  if (!line.starts_with(kBootstrapMark)) {
    const Errc code = line.starts_with("opald-") ? Errc::version_mismatch : Errc::protocol;
    return Error{code, 0, "opald: what came on stdin is not from an opalrun of this version"};
  }
  OPAL_TRY_ASSIGN(const std::string bytes, oob::from_hex(line.substr(kBootstrapMark.size())));
  return unpack<Bootstrap>(oob::as_bytes(bytes));
}

}  // namespace runtime::daemon
