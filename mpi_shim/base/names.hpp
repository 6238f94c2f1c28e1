// SPDX-License-Identifier: Apache-2.0
// mpi_shim/base/names.hpp — the names of opal that mpi_shim uses without the prefix opal::.
#pragma once
#include "opal/btl/memory_handle.hpp"
#include "opal/btl/post.hpp"
#include "opal/btl/tag.hpp"
#include "opal/core/bytes.hpp"
#include "opal/core/error.hpp"
#include "opal/core/result.hpp"

namespace opal {
namespace am {}
namespace btl {}
namespace config {}
namespace log {}
}  // namespace opal

namespace mpi_shim {

namespace am = opal::am;
namespace btl = opal::btl;
namespace config = opal::config;
namespace log = opal::log;

using opal::align_up;
using opal::bytes_of;
using opal::ByteSize;
using opal::ByteSpan;
using opal::Completion;
using opal::Errc;
using opal::Error;
using opal::kMpiTags;
using opal::MemoryHandle;
using opal::MutableBytes;
using opal::Post;
using opal::read_object;
using opal::Result;
using opal::Rights;
using opal::Tag;
using opal::to_string;
using namespace opal::literals;

}  // namespace mpi_shim
