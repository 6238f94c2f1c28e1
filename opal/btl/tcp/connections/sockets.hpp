// SPDX-License-Identifier: Apache-2.0
// opal/btl/tcp/connections/sockets.hpp — system calls on sockets.  All sockets are non-blocking and close-on-exec.
// Functions without state.
#pragma once
#include <sys/uio.h>

#include <cstdint>

#include "opal/btl/tcp/config.hpp"
#include "opal/btl/tcp/connections/address.hpp"
#include "opal/core/result.hpp"
#include "opal/core/system/fd.hpp"

namespace opal::btl::tcp {

/// Listens on the first free port of Config's range: on `only`, or if it is null on all addresses (IPv6 and IPv4, or
/// IPv4 alone if IPv6 fails).  Errors: limit_reached (no port of the range can be bound), os.
Result<Fd> listen_on(const Config& config, const SocketAddress* only);

/// Returns a socket that connects to `address`; the connection need not be complete.
/// Errors: unreachable (with errno), os.
Result<Fd> start_connect(const SocketAddress& address);

/// Sets the options of an established connection.  An option that cannot be set causes one log line, no error.
void tune(const Config& config, int fd);

/// The addresses of the two ends; all zero after an error.
SocketAddress local_address(int fd) noexcept;
SocketAddress peer_address(int fd) noexcept;

/// Sends without waiting and without SIGPIPE.  Returns the number of bytes taken, 0 if the buffer is full, or -errno.
std::int64_t send_some(int fd, iovec* vectors, std::size_t count) noexcept;
std::int64_t send_some(int fd, ByteSpan bytes) noexcept;

/// Receives without waiting.  Returns the number of bytes, 0 at the end of the stream, or -errno (EAGAIN: no input).
std::int64_t receive_some(int fd, MutableBytes to) noexcept;
/// As above, first into `to`, then into `after`.  -EFAULT: `to` is not accessible.
std::int64_t receive_some(int fd, MutableBytes to, MutableBytes after) noexcept;

/// True when the input has data, its end, or an error, none of which it takes.
bool has_input(int fd) noexcept;

/// True when data or window probes are unacknowledged and no acknowledgement has arrived for `period_ns`.
/// A host whose process does not read acknowledges the probes, so it is not silent.
bool is_silent(int fd, std::uint64_t period_ns) noexcept;

/// Bytes sent that the other host has not acknowledged; 0 after an error.
std::size_t unacknowledged(int fd) noexcept;

}  // namespace opal::btl::tcp
