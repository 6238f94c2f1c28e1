// SPDX-License-Identifier: Apache-2.0
// runtime/core_names.hpp — imports the names of opal/core that the runtime uses unqualified.
#pragma once
#include "opal/core/bytes.hpp"
#include "opal/core/error.hpp"
#include "opal/core/result.hpp"
#include "opal/core/system/fd.hpp"

namespace runtime {

using opal::ByteSpan;
using opal::Errc;
using opal::Error;
using opal::Fd;
using opal::Result;

}  // namespace runtime
