// SPDX-License-Identifier: Apache-2.0
// tests/memory/shareable_fixture.hpp — a process in which large private mappings are shareable, one such block, and
// how peers and children see it.
#pragma once
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <functional>

#include "opal/core/bytes.hpp"
#include "opal/memory/events.hpp"
#include "opal/memory/monitor.hpp"
#include "opal/memory/shareable.hpp"

namespace opal::memory::shareable {

inline constexpr std::size_t kPage = 4096;
inline constexpr std::size_t kFrom = std::size_t{1} << 20;
inline constexpr std::size_t kAll = std::size_t{256} << 20;
inline constexpr std::size_t kSize = 3 * kFrom + kPage;

inline const Config kShareable{.shareable_from = {kFrom}, .shareable_size = {kAll}};

inline Range range_of(const void* at, std::size_t size) {
  const auto begin = reinterpret_cast<std::uintptr_t>(at);
  return {begin, begin + size};
}
inline bool shareable(const void* at, std::size_t size) { return holds(range_of(at, size)); }

[[gnu::noinline]] inline std::byte* map(std::size_t size, int flags = 0) {
  void* const at = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
  return at == MAP_FAILED ? nullptr : static_cast<std::byte*>(at);
}

inline bool all_are(const std::byte* at, std::size_t size, int value) {
  for (std::size_t i = 0; i < size; ++i) {
    if (at[i] != static_cast<std::byte>(value)) return false;
  }
  return true;
}

/// The file's own bytes, as a peer has them.
class PeersView {
 public:
  explicit PeersView() {
    auto file = access();
    EXPECT_TRUE(file) << to_string(file.error());
    base_ = file->base;
    view_ = ::mmap(nullptr, kAll, PROT_READ | PROT_WRITE, MAP_SHARED, file->fd.get(), 0);
    EXPECT_NE(view_, MAP_FAILED);
    fd_ = std::move(file->fd);
  }
  ~PeersView() { ::munmap(view_, kAll); }
  PeersView(const PeersView&) = delete;
  PeersView& operator=(const PeersView&) = delete;
  [[nodiscard]] std::byte* of(const void* at) const {
    return static_cast<std::byte*>(view_) + (reinterpret_cast<std::uintptr_t>(at) - base_);
  }
  /// Memory behind the file.
  [[nodiscard]] std::size_t bytes() const {
    struct stat status {};
    ::fstat(fd_.get(), &status);
    return static_cast<std::size_t>(status.st_blocks) * 512;
  }

 private:
  Fd fd_;
  std::uintptr_t base_ = 0;
  void* view_ = nullptr;
};

/// What a forked child says: its exit status, or 128 and the signal that ended it; -errno of fork().
inline int in_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child < 0) return -errno;
  if (child == 0) {
    ::signal(SIGSEGV, SIG_DFL);  // a sanitizer would end it with a status instead
    ::_exit(body());
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

class Shareable : public ::testing::Test {
 protected:
  void SetUp() override {
    start_monitor(kShareable);
    std::byte* const probe = map(kFrom);
    const bool there = shareable(probe, kFrom);
    ::munmap(probe, kFrom);
    if (!there) GTEST_SKIP() << "needs patcher: x86-64, and a program that starts with one thread";
    block = map(kSize);
    ASSERT_TRUE(shareable(block, kSize));
    std::memset(block, 1, kSize);
  }
  void TearDown() override {
    if (block != nullptr) ::munmap(block, kSize);
  }
  std::byte* block = nullptr;
};

}  // namespace opal::memory::shareable
