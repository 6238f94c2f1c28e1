// SPDX-License-Identifier: Apache-2.0
#include "opal/core/error.hpp"

#include <fmt/format.h>

#include <cstring>
#include <mutex>
#include <set>

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

const char* kept_for_ever(const std::string& text) {
  static std::mutex mutex;
  static std::set<std::string> texts;
  constexpr std::size_t kMost = 1024;  // bounds the memory if a program produces ever new texts
  const std::lock_guard lock{mutex};
  if (texts.size() >= kMost && !texts.contains(text)) return "a value that is not known or not allowed; see the log";
  return texts.insert(text).first->c_str();
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
