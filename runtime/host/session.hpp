// SPDX-License-Identifier: Apache-2.0
// runtime/host/session.hpp — the name and the private directory of a session: one launcher or daemon and its ranks.
// The owner holds the flock of the directory while it lives.  A directory without a lock belongs to a dead launcher or
// daemon; sweep_stale_sessions() removes it.  On a file system that hosts share, a lock may hold on its own host only,
// so the name has the host, and no other host removes the directory.  Threads: one owner.
#pragma once
#include <sys/types.h>

#include <string>

#include "runtime/core_names.hpp"

namespace runtime::launch {

class Session {
 public:
  /// Chooses a name that no other session has; creates nothing.
  static Session plan();

  Session(Session&&) noexcept = default;
  Session& operator=(Session&&) noexcept = default;
  ~Session() { remove(); }

  /// The name of the session.  In the launcher it is also the id of the job.
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] const std::string& directory() const noexcept { return directory_; }

  /// Makes the directory, mode 0700, and takes its lock.  Errors: os, permission.
  Result<void> create();

  /// Writes the job's secret into the directory, mode 0600; returns the file's path.  Requires: create().  Errors: os.
  Result<std::string> keep_secret(const std::string& text) const;

  /// Removes the directory with everything in it, if create() made it.
  void remove() noexcept;

 private:
  Session(std::string name, std::string directory) : name_(std::move(name)), directory_(std::move(directory)) {}
  std::string name_;
  std::string directory_;
  Fd lock_;
};

/// The session directory of the launcher with this process id; empty when this user has no such launcher.
std::string find_session(pid_t launcher);

/// Removes the session directories of this user's dead launchers and daemons of this host, and kills the processes that
/// they started.
void sweep_stale_sessions();

}  // namespace runtime::launch
