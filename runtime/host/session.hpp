// SPDX-License-Identifier: Apache-2.0
// runtime/host/session.hpp — the job's name and its private directory, and the removal of those of dead launchers.
// The directory is ours while its flock is held; a launcher that dies lets go of it.  Threads: one owner.
#pragma once
#include <sys/types.h>

#include <string>

#include "runtime/core_names.hpp"

namespace runtime::launch {

class Session {
 public:
  /// Chooses a name that no other job on this host has; creates nothing yet.
  static Session plan();

  Session(Session&&) noexcept = default;
  Session& operator=(Session&&) noexcept = default;
  ~Session() { remove(); }

  [[nodiscard]] const std::string& job_id() const noexcept { return job_id_; }
  [[nodiscard]] const std::string& directory() const noexcept { return directory_; }

  /// Makes the directory, mode 0700, and takes its lock.  Errors: os, permission.
  Result<void> create();

  /// Writes the job's secret where its ranks read it, mode 0600; the file's path.  Errors: os.
  Result<std::string> keep_secret(const std::string& text) const;

  /// Removes the directory with everything in it, if create() made it.
  void remove() noexcept;

 private:
  Session(std::string job_id, std::string directory) : job_id_(std::move(job_id)), directory_(std::move(directory)) {}
  std::string job_id_;
  std::string directory_;
  Fd lock_;
};

/// The directory of the launcher with this process id; empty: this user has none.
std::string find_session(pid_t launcher);

/// Removes the directories of this user's launchers that are dead, and kills what is left of their jobs.
void sweep_stale_sessions();

}  // namespace runtime::launch
