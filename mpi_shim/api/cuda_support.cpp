// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/include/mpi-ext.h"
#include "opal/core/export.hpp"
#include "opal/gpu/gpu.hpp"

extern "C" OPAL_EXPORT int MPIX_Query_cuda_support(void) { return opal::gpu::active() ? 1 : 0; }
