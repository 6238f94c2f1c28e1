// SPDX-License-Identifier: Apache-2.0
// opal/capi/internal.hpp — what the files of the C interface share.
#pragma once
#include "opal/am/context.hpp"
#include "opal/capi/opal.h"

namespace opal::capi {

am::Context& context_of(opal_context_t& handle) noexcept;
/// The code of `error`, and its text for opal_last_error().
opal_status_t fail(const Error& error) noexcept;
opal_status_t misuse(const char* where) noexcept;

}  // namespace opal::capi
