// SPDX-License-Identifier: Apache-2.0
#include "opal/allocator/resource.hpp"

#include <cstdlib>
#include <new>

#include "opal/core/log.hpp"

namespace opal::allocator {

void* Resource::do_allocate(std::size_t bytes, std::size_t alignment) {
  auto block = allocator_.allocate(bytes, alignment);
  if (!block) throw std::bad_alloc{};
  return *block;
}

void Resource::do_deallocate(void* address, std::size_t, std::size_t) {
  const auto freed = allocator_.deallocate(static_cast<std::byte*>(address));
  if (freed) return;
  log::error("allocator", "{}, address {}", freed.error().where, address);
  std::abort();
}

bool Resource::do_is_equal(const std::pmr::memory_resource& other) const noexcept {
  const auto* resource = dynamic_cast<const Resource*>(&other);
  return resource != nullptr && &resource->allocator_ == &allocator_;
}

}  // namespace opal::allocator
