// SPDX-License-Identifier: Apache-2.0
// libpmix's server does not set TCP_NODELAY on the connections it accepts, so that events and some answers wait 40 ms
// for the client's delayed acknowledgement.  This accept() takes the place of libc's within the launcher's process
// (the dynamic linker prefers the executable's symbol) and sets it.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "opal/core/export.hpp"

extern "C" OPAL_EXPORT int accept(int listener, sockaddr* address, socklen_t* size) {
  const int fd = ::accept4(listener, address, size, 0);
  if (fd >= 0) {
    const int on = 1;
    ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);  // fails on a Unix socket, which needs none
  }
  return fd;
}
