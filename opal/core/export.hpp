// SPDX-License-Identifier: Apache-2.0
// opal/core/export.hpp — marks what a shared library shows; everything else is hidden (-fvisibility=hidden).
#pragma once

#define OPAL_EXPORT __attribute__((visibility("default")))
