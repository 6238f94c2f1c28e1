// SPDX-License-Identifier: Apache-2.0
#include "tests/gpu/double/store.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <optional>
#include <string>

namespace opal::cuda_double {
namespace {

constexpr const char* kName = "opal-cuda-double-%" PRIx64;

/// The serial number in the name that the kernel shows for a descriptor.
std::optional<std::uint64_t> serial_of(const std::string& link) {
  std::array<char, 128> target{};
  if (::readlink(link.c_str(), target.data(), target.size() - 1) <= 0) return std::nullopt;
  std::uint64_t serial = 0;
  if (std::sscanf(target.data(), ("/memfd:" + std::string{kName}).c_str(), &serial) != 1) return std::nullopt;
  return serial;
}

std::string link_of(pid_t pid, int fd) { return "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(fd); }

}  // namespace

std::shared_ptr<Store> Store::create(std::size_t size) {
  static std::atomic<std::uint32_t> next{1};
  const std::uint64_t serial = (std::uint64_t(::getpid()) << 32) | next.fetch_add(1);
  std::array<char, 64> name{};
  std::snprintf(name.data(), name.size(), kName, serial);
  const int fd = ::memfd_create(name.data(), MFD_CLOEXEC);
  if (fd < 0) return nullptr;
  if (::ftruncate(fd, static_cast<off_t>(size)) != 0) {
    ::close(fd);
    return nullptr;
  }
  return map(fd, serial);
}

std::shared_ptr<Store> Store::open(pid_t pid, int fd, std::uint64_t serial) {
  const std::string link = link_of(pid, fd);
  const int own = ::open(link.c_str(), O_RDWR | O_CLOEXEC);
  if (own < 0) return nullptr;
  if (serial_of(link_of(::getpid(), own)) != serial) {  // the number may name another file by now
    ::close(own);
    return nullptr;
  }
  return map(own, serial);
}

std::shared_ptr<Store> Store::adopt(int fd) {
  const auto serial = serial_of(link_of(::getpid(), fd));
  const int own = serial ? ::fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
  return own < 0 ? nullptr : map(own, *serial);
}

std::shared_ptr<Store> Store::map(int fd, std::uint64_t serial) {
  struct stat status {};
  void* address = MAP_FAILED;
  if (::fstat(fd, &status) == 0 && status.st_size > 0) {
    address = ::mmap(nullptr, static_cast<std::size_t>(status.st_size), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  }
  if (address == MAP_FAILED) {
    ::close(fd);
    return nullptr;
  }
  return std::shared_ptr<Store>{
      new Store{fd, static_cast<std::byte*>(address), static_cast<std::size_t>(status.st_size), serial}};
}

Store::~Store() {
  ::munmap(bytes_, size_);
  ::close(fd_);
}

}  // namespace opal::cuda_double
