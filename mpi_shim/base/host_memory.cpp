// SPDX-License-Identifier: Apache-2.0
#include "mpi_shim/base/host_memory.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "opal/btl/peer_id.hpp"
#include "opal/core/system/fd.hpp"
#include "opal/core/system/random.hpp"

namespace mpi_shim {
namespace {

constexpr std::uint64_t kHeader =
    4096;  // bytes in front of the memory, which begins on a page; the first 8 are the token

}  // namespace

Result<HostMemory> HostMemory::create(std::uint64_t size) {
  if (size > (std::uint64_t{1} << 46)) return Error{Errc::limit_reached, 0, "memory of a host", size};
  OPAL_TRY_ASSIGN(auto pool, opal::mpool::SharedPool::create("opal-mpi-host", kHeader + size));
  OPAL_TRY_ASSIGN(const auto block, pool.allocate(kHeader + size, kHeader));
  HostMemory memory;
  memory.info_.token = opal::random_u64();
  std::memcpy(block.address, &memory.info_.token, sizeof memory.info_.token);
  memory.bytes_ = {block.address + kHeader, size};
  memory.info_.offset = block.offset;
  memory.info_.size = size;
  memory.info_.pid = ::getpid();
  memory.info_.fd = pool.fd();
  memory.pool_.emplace(std::move(pool));
  return memory;
}

Result<HostMemory> HostMemory::attach(const AttachInfo& made) {
  const std::string path = "/proc/" + std::to_string(made.pid) + "/fd/" + std::to_string(made.fd);
  const opal::Fd fd{::open(path.c_str(), O_RDWR | O_CLOEXEC)};
  if (!fd) return Error{errno == EACCES ? Errc::permission : Errc::os, errno, "open /proc/PID/fd/N"};
  HostMemory memory;
  OPAL_TRY_ASSIGN(memory.mapping_, opal::mpool::SharedPool::attach(fd.get()));
  const MutableBytes all = memory.mapping_.bytes();
  std::uint64_t token = 0;
  if (made.offset > all.size() || all.size() - made.offset < kHeader ||
      made.size > all.size() - made.offset - kHeader ||
      (std::memcpy(&token, all.data() + made.offset, sizeof token), token != made.token)) {
    return Error{Errc::protocol, 0, "shared memory of a host: wrong size or token", made.size};
  }
  memory.bytes_ = all.subspan(made.offset + kHeader, made.size);
  return memory;
}

}  // namespace mpi_shim
