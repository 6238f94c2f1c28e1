// SPDX-License-Identifier: Apache-2.0
// opal/btl/tcp/connections/sockets.hpp — the calls that make and set up sockets.  Everything is non-blocking and
// close-on-exec.
#pragma once
#include <sys/uio.h>

#include <cstdint>

#include "opal/btl/tcp/config.hpp"
#include "opal/btl/tcp/connections/address.hpp"
#include "opal/core/result.hpp"
#include "opal/core/system/fd.hpp"

namespace opal::btl::tcp {

struct ListeningSocket {
  Fd fd;
  std::uint16_t port;
};

/// Listens on `only` if it is not null, else on every address, IPv6 included where there is any; on a port of
/// Config's range.  Errors: limit_reached (every port of the range is taken), os.
Result<ListeningSocket> listen_on(const Config& config, const SocketAddress* only);

/// A socket on its way to `address`.  Errors: unreachable (with errno), os.
Result<Fd> start_connect(const SocketAddress& address);

/// Options of a connection that stands.  What cannot be set is said once in the log and left as it is.
void tune(const Config& config, int fd);

/// This end's and the other end's address; all zero if the kernel does not say.
SocketAddress local_address(int fd) noexcept;
SocketAddress peer_address(int fd) noexcept;

/// Sends without waiting and without a signal.  Returns the bytes taken, 0 when full, or -errno.
std::int64_t send_some(int fd, iovec* vectors, std::size_t count) noexcept;

/// Receives without waiting.  Returns the bytes, 0 at the end of the stream, or -errno (EAGAIN: nothing there).
std::int64_t receive_some(int fd, MutableBytes to) noexcept;

/// True when the other host should have acknowledged something and nothing has come from it for `period_ns`.
/// A peer that merely does not read answers the kernel's probes, and is not silent however rare these are.
bool is_silent(int fd, std::uint64_t period_ns) noexcept;

/// Bytes that the other host has not acknowledged; 0 if the kernel does not say.
std::size_t unacknowledged(int fd) noexcept;

}  // namespace opal::btl::tcp
