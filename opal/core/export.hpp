// SPDX-License-Identifier: Apache-2.0
// opal/core/export.hpp — marks the exported symbols of a shared library; all others are hidden (-fvisibility=hidden).
#pragma once

#define OPAL_EXPORT __attribute__((visibility("default")))
