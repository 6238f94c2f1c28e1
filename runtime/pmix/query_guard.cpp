// SPDX-License-Identifier: Apache-2.0
// libpmix's server looks at a client's questions itself before it hands them on, and some crash it.  This function
// takes the place of libpmix's within opalrun and opald (the dynamic linker prefers the executable's symbol), as
// accept_nodelay.cpp does; runs in libpmix's thread.
#include <dlfcn.h>

#include "opal/core/export.hpp"
#include "runtime/pmix/upcalls.hpp"

extern "C" OPAL_EXPORT pmix_status_t PMIx_Query_info_nb(pmix_query_t queries[], size_t nqueries,
                                                        pmix_info_cbfunc_t answer, void* cookie) {
  static const auto libpmix = reinterpret_cast<decltype(&PMIx_Query_info_nb)>(::dlsym(RTLD_NEXT, "PMIx_Query_info_nb"));
  if (libpmix == nullptr) return PMIX_ERR_NOT_SUPPORTED;
  const pmix_status_t status = runtime::pmix::make_safe({queries, nqueries}, runtime::pmix::job_name());
  return status == PMIX_SUCCESS ? libpmix(queries, nqueries, answer, cookie) : status;
}
