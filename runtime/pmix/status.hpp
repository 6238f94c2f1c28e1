// SPDX-License-Identifier: Apache-2.0
// runtime/pmix/status.hpp — converts libpmix's status codes into Error.
#pragma once
#include <pmix.h>

#include "runtime/core_names.hpp"

namespace runtime::pmix {

/// The error for a failed call; `where` is a string literal, the detail is the absolute value of the status.
inline Error to_error(pmix_status_t status, const char* where) noexcept {
  Errc code = Errc::internal;
  switch (status) {
    case PMIX_ERR_TIMEOUT: code = Errc::timed_out; break;
    case PMIX_ERR_NOMEM:
    case PMIX_ERR_OUT_OF_RESOURCE: code = Errc::no_memory; break;
    case PMIX_ERR_BAD_PARAM:
    case PMIX_ERR_NOT_FOUND:
    case PMIX_EXISTS:
    case PMIX_ERR_DUPLICATE_KEY: code = Errc::invalid_argument; break;
    case PMIX_ERR_NOT_SUPPORTED: code = Errc::not_supported; break;
    case PMIX_ERR_NO_PERMISSIONS: code = Errc::permission; break;
    case PMIX_ERR_UNREACH:
    case PMIX_ERR_LOST_CONNECTION:
    case PMIX_ERR_COMM_FAILURE: code = Errc::unreachable; break;
    case PMIX_ERR_PARTIAL_SUCCESS:  // a collective operation of ranks of one host, one of which has died
    case PMIX_ERR_PROC_TERM_WO_SYNC: code = Errc::peer_gone; break;
    default: break;
  }
  return Error{code, 0, where, static_cast<std::uint64_t>(status < 0 ? -static_cast<std::int64_t>(status) : status)};
}

/// The error of a call that has not succeeded.
inline Result<void> check(pmix_status_t status, const char* where) {
  if (status != PMIX_SUCCESS && status != PMIX_OPERATION_SUCCEEDED) return to_error(status, where);
  return {};
}

}  // namespace runtime::pmix
