// SPDX-License-Identifier: Apache-2.0
// runtime/pmix/admission.hpp — selects the connections that libpmix's listener accepts.  libpmix reads the first
// message of a connection with a blocking call, in the thread that does all its work: a silent connection would stop
// the job. So libpmix gets a connection only when its first message has arrived completely, and only if a process of
// this user made it (or the kernel does not report the user).  Threads: one owner (libpmix's listener thread).
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <optional>

#include "opal/core/clock.hpp"
#include "runtime/core_names.hpp"

namespace runtime::pmix {

/// The owner of the other end of a TCP connection.
enum class Ownership { ours, foreign, unknown };
/// `ours`: of the effective user of this process.  `foreign`: of another user, of another host, closed already, or not
/// TCP over IPv4.  `unknown`: the kernel does not report it.
[[nodiscard]] Ownership ownership_of(int fd);

class Admission {
 public:
  static constexpr std::size_t kHeader = 16;              ///< bytes of libpmix's message header
  static constexpr std::size_t kLongestMessage = 131072;  ///< bytes after the header; libpmix itself refuses more
  static constexpr std::chrono::seconds kTimeout{60};     ///< until the first message must be there

  explicit Admission(std::function<Ownership(int fd)> ownership = ownership_of,
                     std::chrono::milliseconds timeout = kTimeout);

  /// Replaces accept(2) of `listener`, which is non-blocking.  Returns a connection whose first message has arrived
  /// completely; the caller owns it.  Blocks while waiting() is not 0; returns -1 with errno EAGAIN when no connection
  /// is left.  Closes connections of other users, with a message that is too long, or without a complete message after
  /// the timeout.  When descriptors run out, it closes the oldest waiting connection, or returns EAGAIN after 10 ms.
  /// While waiting() is not 0, the caller must call again without waiting for `listener`.
  int next(int listener) noexcept;

  /// Number of accepted connections whose first message has not arrived completely.
  [[nodiscard]] std::size_t waiting() const noexcept { return waiting_.size(); }

 private:
  struct Waiting {
    Fd fd;
    opal::Deadline until;
  };
  enum class Progress { complete, partial, over };

  [[nodiscard]] static Progress look_at(int fd) noexcept;
  /// Accepts one connection and appends it to waiting_ if its owner is not foreign.  False when none can be accepted.
  bool take(int listener);
  std::optional<Fd> accept_one(int listener);
  std::optional<Fd> ready_one();

  const std::function<Ownership(int fd)> ownership_;
  const std::chrono::milliseconds timeout_;
  std::deque<Waiting> waiting_;  // the oldest first
  Fd reserve_;                   // closed to accept, and so to refuse, a connection when descriptors run out
};

}  // namespace runtime::pmix
