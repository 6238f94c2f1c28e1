// SPDX-License-Identifier: Apache-2.0
// tests/memory/no_free_descriptor.hpp — while it exists, every open() of this process fails with EMFILE.
#pragma once
#include <gtest/gtest.h>
#include <sys/resource.h>

namespace opal::test {

class NoFreeDescriptor {
 public:
  NoFreeDescriptor() {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    const rlimit none{0, before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  }
  ~NoFreeDescriptor() { EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before_), 0); }
  NoFreeDescriptor(const NoFreeDescriptor&) = delete;
  NoFreeDescriptor& operator=(const NoFreeDescriptor&) = delete;

 private:
  rlimit before_{};
};

}  // namespace opal::test
