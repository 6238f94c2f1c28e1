// SPDX-License-Identifier: Apache-2.0
// runtime/pmix/admission.hpp — which connections libpmix's listener gets, and when.  libpmix reads the first message of
// a connection blocking, in the thread that does all its work: a silent connection would stop the job.  So a connection
// is handed over only when its first message is there whole, and only if a process of this user made it.
// Threads: one owner (libpmix's listener thread).
#pragma once
#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <optional>

#include "opal/core/clock.hpp"
#include "runtime/core_names.hpp"

namespace runtime::pmix {

/// The user that owns the other end of the TCP connection `fd`, if that is a socket of this host.
enum class Ownership { ours, foreign, unknown };
/// `ours`: of the effective user of this process.  `foreign`: of another user, of another host, or closed already.
/// `unknown`: the kernel does not tell.
[[nodiscard]] Ownership ownership_of(int fd);

class Admission {
 public:
  static constexpr std::size_t kHeader = 16;              ///< bytes of libpmix's message header
  static constexpr std::size_t kLongestMessage = 131072;  ///< behind the header; libpmix refuses more itself
  static constexpr std::chrono::seconds kTimeout{60};     ///< until the first message must be there

  explicit Admission(std::function<Ownership(int fd)> ownership = ownership_of,
                     std::chrono::milliseconds timeout = kTimeout);

  /// accept(2) of `listener`, which is non-blocking, for one connection whose first message is there whole.  Waits
  /// while there are connections whose message is not; -1 with errno EAGAIN when there are none.  Connections of other
  /// users, those that send nonsense, and those that send nothing for too long are closed.  A lack of descriptors is no
  /// error: the longest silent connection is closed, else the caller is to try again.
  /// The caller is to call again, without waiting for the listener, as long as waiting() is not 0.
  int next(int listener) noexcept;

  /// Connections whose first message is awaited.
  [[nodiscard]] std::size_t waiting() const noexcept { return waiting_.size(); }

 private:
  struct Guest {
    Fd fd;
    opal::Deadline until;
  };
  enum class Progress { complete, partial, over };

  [[nodiscard]] static Progress look_at(int fd) noexcept;
  /// False when nothing can be accepted now.
  bool take(int listener);
  std::optional<Fd> accept_one(int listener);
  std::optional<Fd> ready_one();

  const std::function<Ownership(int fd)> ownership_;
  const std::chrono::milliseconds timeout_;
  std::deque<Guest> waiting_;  // the oldest first
  Fd reserve_;                 // given up to accept, and so to refuse, when there are no descriptors left
};

}  // namespace runtime::pmix
