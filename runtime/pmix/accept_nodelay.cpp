// SPDX-License-Identifier: Apache-2.0
// This accept() takes the place of libc's within opalrun and opald (the dynamic linker prefers the executable's
// symbol); only libpmix's listener thread calls it.  It hands over connections of this user whose first message is
// there, which libpmix would else wait for in the thread that does all its work.  It also sets TCP_NODELAY, which
// libpmix does not: events and some answers would wait 40 ms for the client's delayed acknowledgement.
#include <sys/socket.h>

#include "opal/core/export.hpp"
#include "runtime/pmix/admission.hpp"

extern "C" OPAL_EXPORT int accept(int listener, sockaddr* address, socklen_t* size) {
  static auto* const admission = new runtime::pmix::Admission;  // lives as long as libpmix's threads
  const int fd = admission->next(listener);
  if (fd >= 0 && address != nullptr && size != nullptr) ::getpeername(fd, address, size);
  return fd;
}
