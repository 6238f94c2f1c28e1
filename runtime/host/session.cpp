// SPDX-License-Identifier: Apache-2.0
#include "runtime/host/session.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "opal/btl/peer_id.hpp"
#include "opal/core/environment.hpp"
#include "opal/core/system/random.hpp"
#include "runtime/guard/processes.hpp"
#include "runtime/variables.hpp"

namespace runtime::launch {
namespace {

namespace fs = std::filesystem;

std::string base_directory() {
  const std::optional<std::string> wanted = opal::environment("TMPDIR");
  return wanted && !wanted->empty() ? *wanted : "/tmp";
}

/// Of the sessions of this user on this host.  No name of a host has the '@', so none of them is the start of another.
std::string name_prefix() { return fmt::format("opal-job-{}-{}@", ::geteuid(), opal::host_name()); }

/// Opens `directory` and takes its lock; nothing when another process has it, or it is not a directory of ours.
Fd open_and_lock(const std::string& directory) {
  Fd fd{::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)};
  struct stat about {};
  if (!fd || ::fstat(fd.get(), &about) != 0 || about.st_uid != ::geteuid()) return {};
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) return {};
  return fd;
}

/// A symbolic link is none.
bool is_own_directory(const fs::path& path) {
  struct stat about {};
  return ::lstat(path.c_str(), &about) == 0 && S_ISDIR(about.st_mode) && about.st_uid == ::geteuid();
}

/// A variable of the environment that a process was started with; empty: it has none, or is not ours to look at.
std::string variable_of(pid_t process, std::string_view name) {
  std::ifstream file{fmt::format("/proc/{}/environ", process), std::ios::binary};
  for (std::string variable; std::getline(file, variable, '\0');) {
    if (variable.starts_with(name) && variable[name.size()] == '=') return variable.substr(name.size() + 1);
  }
  return {};
}

/// Kills every process of this user that was started from `session`.
void kill_members(const std::string& session) {
  for (const pid_t pid : guard::all_processes()) {
    if (pid != ::getpid() && variable_of(pid, kSessionVariable) == session) ::kill(pid, SIGKILL);
  }
}

}  // namespace

Session Session::plan() {
  const auto random = static_cast<std::uint32_t>(opal::random_u64());
  std::string name = fmt::format("{}{}-{:08x}", name_prefix(), ::getpid(), random);
  std::string directory = fmt::format("{}/{}", base_directory(), name);
  return Session{std::move(name), std::move(directory)};
}

/// Repeats mkdir and flock when a sweep_stale_sessions() of another process has removed the directory between them.
Result<void> Session::create() {
  constexpr int kMostAttempts = 100;
  for (int attempt = 0; attempt < kMostAttempts; ++attempt) {
    if (::mkdir(directory_.c_str(), 0700) != 0 && (errno != EEXIST || attempt == 0)) {
      const Errc code = errno == EACCES || errno == EPERM || errno == EROFS ? Errc::permission : Errc::os;
      return Error{code, errno, "mkdir(session directory)"};
    }
    Fd lock = open_and_lock(directory_);
    struct stat ours {};
    struct stat there {};
    if (lock && ::fstat(lock.get(), &ours) == 0 && ::stat(directory_.c_str(), &there) == 0 &&
        ours.st_ino == there.st_ino) {
      lock_ = std::move(lock);
      return {};
    }
    ::usleep(1000);
  }
  return Error{Errc::os, EBUSY, "flock(session directory)"};
}

Result<std::string> Session::keep_secret(const std::string& text) const {
  const std::string path = directory_ + "/secret";
  const Fd file{::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)};
  if (!file) return Error{Errc::os, errno, "open(secret of the job)"};
  if (::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return Error{Errc::os, errno, "write(secret of the job)"};
  }
  return path;
}

void Session::remove() noexcept {
  if (!lock_) return;
  std::error_code ignored;
  fs::remove_all(directory_, ignored);
  lock_.reset();
}

void sweep_stale_sessions() {
  const std::string prefix = name_prefix();
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator{base_directory(), error}) {
    const std::string name = entry.path().filename();
    if (!name.starts_with(prefix)) continue;
    // Only the lock shows whether the owner lives: its pid may be reused or hidden by a pid namespace.
    // An owner between mkdir and flock makes its directory again.
    if (const Fd lock = open_and_lock(entry.path()); lock) {
      kill_members(name);
      fs::remove_all(entry.path(), error);
    }
  }
}

std::string find_session(pid_t launcher) {
  const std::string base = variable_of(launcher, "TMPDIR");
  const std::string prefix = fmt::format("{}{}-", name_prefix(), launcher);
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator{base.empty() ? "/tmp" : base, error}) {
    // Others may make entries of any name there, but none that is this user's.
    if (entry.path().filename().string().starts_with(prefix) && is_own_directory(entry.path())) return entry.path();
  }
  return {};
}

}  // namespace runtime::launch
