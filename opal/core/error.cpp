// SPDX-License-Identifier: Apache-2.0
#include "opal/core/error.hpp"

#include <fmt/format.h>

#include <cstring>

namespace opal {

const char* name(Errc code) noexcept {
  switch (code) {
    case Errc::busy: return "busy";
    case Errc::timed_out: return "timed_out";
    case Errc::no_memory: return "no_memory";
    case Errc::no_space: return "no_space";
    case Errc::limit_reached: return "limit_reached";
    case Errc::invalid_argument: return "invalid_argument";
    case Errc::not_supported: return "not_supported";
    case Errc::permission: return "permission";
    case Errc::unreachable: return "unreachable";
    case Errc::peer_gone: return "peer_gone";
    case Errc::protocol: return "protocol";
    case Errc::version_mismatch: return "version_mismatch";
    case Errc::canceled: return "canceled";
    case Errc::os: return "os";
    case Errc::internal: return "internal";
  }
  return "unknown";
}

std::string to_string(const Error& error) {
  std::string text = fmt::format("{}: {}", error.where, name(error.code));
  if (error.os_errno != 0) {
    char buffer[128];
    text += fmt::format(" (errno {}: {})", error.os_errno, strerror_r(error.os_errno, buffer, sizeof buffer));
  }
  if (error.detail != 0) text += fmt::format(" [{}]", error.detail);
  return text;
}

}  // namespace opal
