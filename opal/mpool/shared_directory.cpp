// SPDX-License-Identifier: Apache-2.0
#include "opal/mpool/shared_directory.hpp"

#include <fcntl.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <vector>

namespace opal::mpool {
namespace {

struct Entry {
  std::uint32_t number;
  MutableBytes memory;
  int fd;
  const std::atomic<bool>* whole;  // the pool's memory is all there
};

struct Directory {
  std::mutex mutex;
  std::vector<Entry> entries;
  std::uint32_t last_number = 0;
  std::atomic<std::size_t> count{0};
};

Directory& directory() noexcept {
  static Directory instance;  // outlives pools of static lifetime: they are made after the first use
  return instance;
}

}  // namespace

SharedDirectoryEntry::SharedDirectoryEntry(MutableBytes memory, int fd)
    : memory_(memory::Range::pages(reinterpret_cast<std::uintptr_t>(memory.data()), memory.size())) {
  // Without the memory to listen the pool's blocks count as private memory.
  whole_.store(static_cast<bool>(memory::add_listener(*this)), std::memory_order_relaxed);
  Directory& all = directory();
  const std::lock_guard lock{all.mutex};
  number_ = ++all.last_number;
  all.entries.push_back({number_, memory, fd, &whole_});
  all.count.store(all.entries.size(), std::memory_order_release);
}

void SharedDirectoryEntry::released(memory::Range range) noexcept {
  if (range.overlaps(memory_)) whole_.store(false, std::memory_order_relaxed);
}

SharedDirectoryEntry::~SharedDirectoryEntry() {
  memory::remove_listener(*this);
  Directory& all = directory();
  const std::lock_guard lock{all.mutex};
  std::erase_if(all.entries, [&](const Entry& entry) { return entry.number == number_; });
  all.count.store(all.entries.size(), std::memory_order_release);
}

std::uint32_t shared_pool_of(const void* base, std::size_t size) noexcept {
  Directory& all = directory();
  if (all.count.load(std::memory_order_acquire) == 0) return 0;
  const auto address = reinterpret_cast<std::uintptr_t>(base);
  const std::lock_guard lock{all.mutex};
  for (const Entry& entry : all.entries) {
    const auto distance = address - reinterpret_cast<std::uintptr_t>(entry.memory.data());
    if (distance < entry.memory.size() && size <= entry.memory.size() - distance) {
      return entry.whole->load(std::memory_order_relaxed) ? entry.number : 0;
    }
  }
  return 0;
}

Result<SharedPoolAccess> open_shared_pool(std::uint32_t number) {
  Directory& all = directory();
  const std::lock_guard lock{all.mutex};
  const auto found =
      std::find_if(all.entries.begin(), all.entries.end(), [&](const Entry& entry) { return entry.number == number; });
  if (found == all.entries.end()) return Error{Errc::invalid_argument, 0, "shared pool: there is none", number};
  Fd copy{::fcntl(found->fd, F_DUPFD_CLOEXEC, 0)};
  if (!copy) return Error{errno == EMFILE ? Errc::limit_reached : Errc::os, errno, "dup(shared pool)", number};
  return SharedPoolAccess{std::move(copy), reinterpret_cast<std::uint64_t>(found->memory.data())};
}

}  // namespace opal::mpool
