// SPDX-License-Identifier: Apache-2.0
// opal/core/sanitizer.hpp — which sanitizer instruments this source; g++ and clang have different macros for it.
// OPAL_ADDRESS_SANITIZER and OPAL_THREAD_SANITIZER are always defined, as 0 or 1.
#pragma once

#if defined(__has_feature)  // clang
#define OPAL_ADDRESS_SANITIZER __has_feature(address_sanitizer)
#define OPAL_THREAD_SANITIZER __has_feature(thread_sanitizer)
#else
#if defined(__SANITIZE_ADDRESS__)
#define OPAL_ADDRESS_SANITIZER 1
#else
#define OPAL_ADDRESS_SANITIZER 0
#endif
#if defined(__SANITIZE_THREAD__)
#define OPAL_THREAD_SANITIZER 1
#else
#define OPAL_THREAD_SANITIZER 0
#endif
#endif
