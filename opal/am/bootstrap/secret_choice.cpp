// SPDX-License-Identifier: Apache-2.0
#include "opal/am/bootstrap/secret_choice.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "opal/core/log.hpp"
#include "opal/core/system/fd.hpp"
#include "opal/core/system/machine.hpp"

namespace opal::am {
namespace {

namespace fs = std::filesystem;

/// Creates `folder` and its missing parents with mode 0700.  Fails for a folder of another user (a program under sudo
/// that kept HOME): the owner could not read a secret file there.
Result<void> make_folder(const fs::path& folder) {
  struct stat about {};
  if (::stat(folder.c_str(), &about) == 0) {
    if (about.st_uid == ::geteuid()) return {};
    return Error{Errc::permission, 0,
                 "this user's secret file: its folder belongs to another user (HOME, XDG_CONFIG_HOME)", about.st_uid};
  }
  if (errno != ENOENT || !folder.has_relative_path()) {
    return Error{Errc::os, errno, "this user's secret file: stat() of its folder failed"};
  }
  OPAL_TRY(make_folder(folder.parent_path()));
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
    return Error{Errc::os, errno, "this user's secret file: its folder cannot be created"};
  }
  return {};
}

/// Creates the file atomically (temporary file and link()).  If another process was first, its file stays.
Result<void> make_file(const fs::path& path) {
  OPAL_TRY(make_folder(path.parent_path()));
  std::string draft = path.string() + ".XXXXXX";
  const Fd file{::mkostemp(draft.data(), O_CLOEXEC)};  // 0600
  if (!file) return Error{Errc::os, errno, "this user's secret file: it cannot be made"};
  const std::string text = Secret::random_text();
  int failure = 0;
  errno = 0;  // a short write() does not set it
  if (::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) || ::fsync(file.get()) != 0) {
    failure = errno != 0 ? errno : EIO;
  } else if (::link(draft.c_str(), path.c_str()) != 0) {
    failure = errno;
  } else {
    log::warn("am", "made {}: only processes that have this secret can connect; see am_secret_file", path.string());
  }
  (void)::unlink(draft.c_str());
  if (failure != 0 && failure != EEXIST) return Error{Errc::os, failure, "this user's secret file: it cannot be made"};
  return {};
}

Result<std::string> user_secret_text(const std::string& path) {
  if (path.empty()) {
    return Error{
        Errc::invalid_argument, 0,
        "no secret to prove: neither HOME nor XDG_CONFIG_HOME is set, so this user has no secret file; set one "
        "of them, or name a file in am_secret_file"};
  }
  if (::access(path.c_str(), F_OK) != 0 && errno == ENOENT) OPAL_TRY(make_file(path));
  return Secret::read_file(path);
}

/// A random secret of this process and its forked children, so that its own Contexts can still connect to each other.
const Secret& secret_of_process() {
  static const Secret secret = Secret::from_text(Secret::random_text()).value();
  return secret;
}

}  // namespace

Result<std::optional<std::string>> named_secret_text(const std::string& secret_file) {
  if (secret_file.empty() || secret_file == kNoProofs) return std::optional<std::string>{};
  OPAL_TRY_ASSIGN(std::string text, Secret::read_file(secret_file));
  return std::optional<std::string>{std::move(text)};
}

std::string user_secret_file() {
  const std::string folder = user_config_folder();
  return folder.empty() ? folder : folder + "/secret";
}

Result<SecretChoice> choose_secret(const std::string& secret_file) {
  if (secret_file == kNoProofs) {
    log::once(
        log::Level::warn, "am.secret.none", "am",
        "am_secret_file=none: every process that knows an address of this one may connect, also one of another user");
    return SecretChoice{{}, "none: am_secret_file=none", {}};
  }
  OPAL_TRY_ASSIGN(const std::optional<std::string> named, named_secret_text(secret_file));
  if (named) {
    OPAL_TRY_ASSIGN(const Secret secret, Secret::from_text(*named));
    return SecretChoice{secret, secret_file, {}};
  }
  const std::string path = user_secret_file();
  const Result<std::string> text = user_secret_text(path);
  const Result<Secret> secret = text ? Secret::from_text(*text) : text.error();
  if (secret) return SecretChoice{*secret, path, {}};
  const std::string source =
      "random, known to this process only: " + (path.empty() ? "" : path + ": ") + to_string(secret.error());
  log::debug("am", "secret: {}", source);
  return SecretChoice{secret_of_process(), source, secret.error()};
}

}  // namespace opal::am
