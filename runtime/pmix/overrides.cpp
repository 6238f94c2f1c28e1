// SPDX-License-Identifier: Apache-2.0
// Functions that take the place of libc's and libpmix's within opalrun and opald (the dynamic linker prefers the
// executable's symbols).
// accept() and select(): libpmix's listener thread waits in select() and then calls accept(), which hands over
// connections of this user whose first message is there: libpmix would else wait for it in the thread that does all its
// work.  accept() also sets TCP_NODELAY, which libpmix does not: events and some answers would wait 40 ms for the
// client's delayed acknowledgement.
#include <dlfcn.h>
#include <pmix.h>
#include <sys/select.h>
#include <sys/socket.h>

#include <cerrno>

#include "opal/core/export.hpp"
#include "runtime/pmix/admission.hpp"

namespace {

thread_local runtime::pmix::Admission* t_admission = nullptr;  // of a thread that has called accept()
thread_local int t_listener = -1;

}  // namespace

extern "C" OPAL_EXPORT int accept(int listener, sockaddr* address, socklen_t* size) {
  if (t_admission == nullptr) t_admission = new runtime::pmix::Admission;  // NOLINT: lives as long as libpmix's thread
  t_listener = listener;
  const int fd = t_admission->next(listener);
  if (fd >= 0 && address != nullptr && size != nullptr) ::getpeername(fd, address, size);
  return fd;
}

/// While a connection waits for its first message, reports the listener as readable at once: accept() then waits for
/// that connection and for new ones.
extern "C" OPAL_EXPORT int select(int count, fd_set* readable, fd_set* writable, fd_set* exceptional,
                                  timeval* timeout) {
  if (t_admission != nullptr && t_admission->waiting() != 0 && readable != nullptr && FD_ISSET(t_listener, readable)) {
    FD_ZERO(readable);
    FD_SET(t_listener, readable);
    return 1;
  }
  static const auto libc = reinterpret_cast<decltype(&::select)>(::dlsym(RTLD_NEXT, "select"));
  if (libc == nullptr) return errno = ENOSYS, -1;
  return libc(count, readable, writable, exceptional, timeout);
}

/// Refuses the queries of clients, which libpmix's server passes to this function: it would crash on a PMIX_RANK
/// without a namespace before it found that there is no upcall for queries.
extern "C" OPAL_EXPORT pmix_status_t PMIx_Query_info_nb(pmix_query_t* /*queries*/, size_t /*nqueries*/,
                                                        pmix_info_cbfunc_t /*answer*/, void* /*cookie*/) {
  return PMIX_ERR_NOT_SUPPORTED;
}
