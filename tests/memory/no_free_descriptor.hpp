// SPDX-License-Identifier: Apache-2.0
// tests/memory/no_free_descriptor.hpp — while it exists, every open() of this process fails with EMFILE.  poll() of
// more descriptors than `limit` fails, too.
#pragma once
#include <gtest/gtest.h>
#include <sys/resource.h>

namespace opal::test {

class NoFreeDescriptor {
 public:
  /// Requires: all descriptors below `limit` are in use.
  explicit NoFreeDescriptor(rlim_t limit = 0) {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    const rlimit none{limit, before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  }
  ~NoFreeDescriptor() { EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before_), 0); }
  NoFreeDescriptor(const NoFreeDescriptor&) = delete;
  NoFreeDescriptor& operator=(const NoFreeDescriptor&) = delete;

 private:
  rlimit before_{};
};

}  // namespace opal::test
