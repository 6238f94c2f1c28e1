// SPDX-License-Identifier: Apache-2.0
#include "runtime/tools/perf/tests/pairing.hpp"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "opal/core/environment.hpp"
#include "runtime/packing.hpp"

namespace opal::perf {
namespace {

constexpr std::size_t kPage = 4096;

Result<Mapping> map_page(int memory) {
  if (::ftruncate(memory, static_cast<off_t>(kPage)) != 0) return Error{Errc::os, errno, "ftruncate(floor page)"};
  return Mapping::shared(memory, kPage);
}

/// Where rank 0 has the page.
struct Place {
  pid_t pid = 0;
  int fd = 0;
  std::string host;
};

/// Puts the calling process on the n-th of the cores that it may use; a refusal only makes the figures noisier.
void pin(int core) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  (void)::sched_getaffinity(0, sizeof allowed, &allowed);
  if (CPU_COUNT(&allowed) < 2) return;
  int skip = core;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed) || skip-- != 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    (void)::sched_setaffinity(0, sizeof one, &one);
    return;
  }
}

}  // namespace

Result<std::unique_ptr<Pairing>> Pairing::create() {
  OPAL_TRY_ASSIGN(auto client, ::runtime::Client::open());
  const bool alone = client->singleton();
  if (!alone && client->size() != 2) {
    return Error{Errc::invalid_argument, 0, "opal-perf measures between two processes: opalrun -n 2 opal-perf ...",
                 client->size()};
  }
  OPAL_TRY_ASSIGN(const Secret secret,
                  alone ? Secret::from_text(Secret::random_text()) : client->secret(config::Store::from_environment()));
  std::unique_ptr<Pairing> pair{new Pairing{secret}};
  if (alone) {
    OPAL_TRY(pair->fork_second());
  } else {
    pair->rank_ = static_cast<int>(client->rank());
    pair->client_ = std::move(client);
    OPAL_TRY(pair->share_page());
  }
  return pair;
}

Pairing::~Pairing() {
  socket_.reset();
  if (child_ > 0) ::waitpid(child_, nullptr, 0);
}

/// A parent, which measures, and its child.
Result<void> Pairing::fork_second() {
  const Fd memory{::memfd_create("opal-perf", MFD_CLOEXEC)};
  if (!memory) return Error{Errc::os, errno, "memfd_create(floor page)"};
  OPAL_TRY_ASSIGN(page_, map_page(memory.get()));
  int sockets[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) {
    return Error{Errc::os, errno, "socketpair"};
  }
  Fd ends[] = {Fd{sockets[0]}, Fd{sockets[1]}};
  child_ = ::fork();
  if (child_ < 0) return Error{Errc::os, errno, "fork"};
  if (child_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    rank_ = 1;
  }
  socket_ = std::move(ends[rank_]);
  pin(rank_);
  return {};
}

Result<std::vector<std::byte>> Pairing::exchange(ByteSpan mine) {
  if (client_) {
    const std::string key = "opal-perf." + std::to_string(round_++);
    OPAL_TRY(client_->put(key, mine));
    OPAL_TRY(client_->commit());
    OPAL_TRY(client_->fence());
    return client_->get(1U - client_->rank(), key);
  }
  if (::send(socket_.get(), mine.data(), mine.size(), MSG_NOSIGNAL) < 0) return Error{Errc::os, errno, "send(pairing)"};
  std::vector<std::byte> theirs(std::size_t{64} * 1024);
  const ssize_t size = TEMP_FAILURE_RETRY(::recv(socket_.get(), theirs.data(), theirs.size(), 0));
  if (size <= 0) return Error{Errc::peer_gone, size < 0 ? errno : 0, "the other process of the measurement ended"};
  theirs.resize(static_cast<std::size_t>(size));
  return theirs;
}

/// Maps a page of rank 0's in both ranks of a launcher.
Result<void> Pairing::share_page() {
  Fd memory;
  if (rank_ == 0) {
    memory = Fd{::memfd_create("opal-perf", MFD_CLOEXEC)};
    if (!memory) return Error{Errc::os, errno, "memfd_create(floor page)"};
  }
  const std::string mine = ::runtime::pack(Place{::getpid(), memory.get(), host_name()});
  OPAL_TRY_ASSIGN(const std::vector<std::byte> bytes, exchange(std::as_bytes(std::span{mine})));
  OPAL_TRY_ASSIGN(const Place theirs, ::runtime::unpack<Place>(bytes));
  const bool same_host = theirs.host == host_name();
  if (same_host && rank_ == 1) {
    const std::string path = "/proc/" + std::to_string(theirs.pid) + "/fd/" + std::to_string(theirs.fd);
    memory = Fd{::open(path.c_str(), O_RDWR | O_CLOEXEC)};
  }
  if (same_host && memory) {
    OPAL_TRY_ASSIGN(page_, map_page(memory.get()));
  }
  // Rank 0's descriptor must live until rank 1 has opened it.
  OPAL_TRY(exchange(std::as_bytes(std::span{mine})));
  return {};
}

}  // namespace opal::perf
