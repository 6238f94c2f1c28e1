// SPDX-License-Identifier: Apache-2.0
// tests/runtime/cut_local_sockets.hpp — cuts the connections of btl/sm in this process, as if the peer had died: each
// keeps a Unix socket, whose end is the end of the connection.
#pragma once
#include <sys/socket.h>
#include <sys/un.h>

#include <dirent.h>

#include <cstdlib>

namespace runtime::test {

/// Shuts every connected packet socket of the Unix domain down, which is what btl/sm uses; returns how many.
inline int cut_local_sockets() {
  int count = 0;
  DIR* const directory = ::opendir("/proc/self/fd");
  if (directory == nullptr) return 0;
  while (const dirent* entry = ::readdir(directory)) {
    const int fd = std::atoi(entry->d_name);
    sockaddr_un address{};
    socklen_t size = sizeof address;
    int type = 0;
    socklen_t type_size = sizeof type;
    if (::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_size) != 0 || type != SOCK_SEQPACKET) continue;
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0 || address.sun_family != AF_UNIX) continue;
    if (::shutdown(fd, SHUT_RDWR) == 0) ++count;
  }
  ::closedir(directory);
  return count;
}

}  // namespace runtime::test
