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
#include <cstring>
#include <string>

#include "opal/core/system/fd.hpp"
#include "opal/core/system/mapping.hpp"
#include "runtime/client/client.hpp"

namespace opal::perf {
namespace {

constexpr std::size_t kPage = 4096;

Result<Mapping> map_page(int memory) {
  if (::ftruncate(memory, static_cast<off_t>(kPage)) != 0) return Error{Errc::os, errno, "ftruncate(floor page)"};
  return Mapping::shared(memory, kPage);
}

/// Puts the calling process on the n-th of these cores; a refusal only makes the figures noisier.
void pin(const cpu_set_t& allowed, int core) {
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

/// Two processes that one command line started: a parent, which measures, and its child.
class Forked final : public Pairing {
 public:
  Forked(const Secret& secret, int rank, Fd socket, Mapping page, pid_t child, const cpu_set_t& cores) noexcept
      : Pairing(secret), rank_(rank), socket_(std::move(socket)), page_(std::move(page)), child_(child), cores_(cores) {
    pin(cores_, rank_);
  }
  ~Forked() override {
    socket_.reset();
    if (child_ > 0) ::waitpid(child_, nullptr, 0);
  }
  [[nodiscard]] int rank() const noexcept override { return rank_; }
  [[nodiscard]] MutableBytes shared_page() noexcept override { return page_.bytes(); }

  bool place(int core) noexcept override {
    pin(cores_, core);
    return true;
  }

  Result<std::vector<std::byte>> exchange(ByteSpan mine) override {
    if (::send(socket_.get(), mine.data(), mine.size(), MSG_NOSIGNAL) < 0)
      return Error{Errc::os, errno, "send(pairing)"};
    std::vector<std::byte> theirs(std::size_t{64} * 1024);
    ssize_t size = 0;
    do {
      size = ::recv(socket_.get(), theirs.data(), theirs.size(), 0);
    } while (size < 0 && errno == EINTR);
    if (size <= 0) return Error{Errc::peer_gone, size < 0 ? errno : 0, "the other process of the measurement ended"};
    theirs.resize(static_cast<std::size_t>(size));
    return theirs;
  }

 private:
  int rank_;
  Fd socket_;
  Mapping page_;
  pid_t child_;
  cpu_set_t cores_;  // that the pair may use
};

Result<std::unique_ptr<Pairing>> fork_pair() {
  Fd memory{::memfd_create("opal-perf", MFD_CLOEXEC)};
  if (!memory) return Error{Errc::os, errno, "memfd_create(floor page)"};
  OPAL_TRY_ASSIGN(Mapping page, map_page(memory.get()));
  int sockets[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0)
    return Error{Errc::os, errno, "socketpair"};
  Fd mine{sockets[0]};
  Fd theirs{sockets[1]};
  cpu_set_t cores;
  CPU_ZERO(&cores);
  (void)::sched_getaffinity(0, sizeof cores, &cores);
  OPAL_TRY_ASSIGN(const Secret secret, Secret::from_text(Secret::random_text()));
  const pid_t child = ::fork();
  if (child < 0) return Error{Errc::os, errno, "fork"};
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    return std::unique_ptr<Pairing>{std::make_unique<Forked>(secret, 1, std::move(theirs), std::move(page), -1, cores)};
  }
  return std::unique_ptr<Pairing>{std::make_unique<Forked>(secret, 0, std::move(mine), std::move(page), child, cores)};
}

/// Ranks 0 and 1 of a job; the launcher binds them.
class Launched final : public Pairing {
 public:
  Launched(const Secret& secret, std::unique_ptr<::runtime::Client> client) noexcept
      : Pairing(secret), client_(std::move(client)) {}
  [[nodiscard]] int rank() const noexcept override { return static_cast<int>(client_->rank()); }
  [[nodiscard]] MutableBytes shared_page() noexcept override { return page_.bytes(); }

  Result<std::vector<std::byte>> exchange(ByteSpan mine) override {
    const std::string key = "opal-perf." + std::to_string(round_++);
    OPAL_TRY(client_->put(key, mine));
    OPAL_TRY(client_->commit());
    OPAL_TRY(client_->fence());
    return client_->get(1U - client_->rank(), key);
  }

  /// Maps a page of rank 0's in both.
  Result<void> share_page() {
    Fd memory;
    if (rank() == 0) {
      memory = Fd{::memfd_create("opal-perf", MFD_CLOEXEC)};
      if (!memory) return Error{Errc::os, errno, "memfd_create(floor page)"};
    }
    struct Place {
      pid_t pid;
      int fd;
      char host[64];
    } mine{::getpid(), memory.get(), {}};
    (void)::gethostname(mine.host, sizeof mine.host - 1);
    OPAL_TRY_ASSIGN(const std::vector<std::byte> bytes, exchange(bytes_of(mine)));
    Place theirs{};
    if (!read_object(ByteSpan{bytes}, theirs)) return Error{Errc::protocol, 0, "pairing: garbled place"};
    const bool same_host = std::strncmp(mine.host, theirs.host, sizeof mine.host) == 0;
    if (same_host && rank() == 1) {
      const std::string path = "/proc/" + std::to_string(theirs.pid) + "/fd/" + std::to_string(theirs.fd);
      memory = Fd{::open(path.c_str(), O_RDWR | O_CLOEXEC)};
    }
    if (same_host && memory) {
      OPAL_TRY_ASSIGN(page_, map_page(memory.get()));
    }
    // Rank 0's descriptor must live until rank 1 has opened it.
    OPAL_TRY(exchange(bytes_of(mine)));
    return {};
  }

 private:
  std::unique_ptr<::runtime::Client> client_;
  Mapping page_;
  int round_ = 0;
};

}  // namespace

Result<std::unique_ptr<Pairing>> Pairing::create() {
  OPAL_TRY_ASSIGN(auto client, ::runtime::Client::open());
  if (client->singleton()) {
    client.reset();
    return fork_pair();
  }
  if (client->size() != 2) {
    return Error{Errc::invalid_argument, 0, "opal-perf measures between two processes: opalrun -n 2 opal-perf ...",
                 client->size()};
  }
  OPAL_TRY_ASSIGN(const Secret secret, client->secret(config::Store::from_environment()));
  auto pair = std::make_unique<Launched>(secret, std::move(client));
  OPAL_TRY(pair->share_page());
  return std::unique_ptr<Pairing>{std::move(pair)};
}

}  // namespace opal::perf
