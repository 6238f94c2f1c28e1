// SPDX-License-Identifier: Apache-2.0
// opal/rcache/registrations/page_hold.hpp — with policy page_refcount: the pages that one lease uses.  A page's count
// is the number of holds that contain it; kept as ranges, since a range of a gigabyte has many pages, and GPU addresses
// have none. Owned by its Lease, linked to its registration.  Threads: under the cache's lock.
#pragma once
#include "opal/rcache/registrations/registration.hpp"

namespace opal::rcache {

struct PageHold {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  PageHold* previous = nullptr;
  PageHold* next = nullptr;
};

}  // namespace opal::rcache
