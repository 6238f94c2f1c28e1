// SPDX-License-Identifier: Apache-2.0
#include "runtime/launch/control.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "opal/core/text.hpp"
#include "runtime/host/session.hpp"

namespace runtime::launch {
namespace {

constexpr int kBacklog = 16;
constexpr std::size_t kLongestRequest = 64;
constexpr std::chrono::milliseconds kBetweenAttempts{100};
constexpr std::uint64_t kLongestTimeoutMs = 1'000'000'000'000;  // the options' bound
constexpr std::string_view kQuiesce = "quiesce ";               // and milliseconds
constexpr std::string_view kResume = "resume";
constexpr std::string_view kDone = "ok\n";
constexpr std::string_view kRefusal = "no ";  // and why, and the line's end

/// The socket in `directory`, however long its path is.
struct ControlAddress {
  explicit ControlAddress(const std::string& directory)
      : opened{::open(directory.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)} {
    name.sun_family = AF_UNIX;
    fmt::format_to_n(name.sun_path, sizeof name.sun_path - 1, "/proc/self/fd/{}/control", opened.get());
  }
  [[nodiscard]] const sockaddr* get() const noexcept { return reinterpret_cast<const sockaddr*>(&name); }
  Fd opened;
  sockaddr_un name{};
};

bool is_own_user(int fd) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == ::geteuid();
}

int refuse_command(const std::string& name, const std::string& why) {
  fmt::print(stderr, "{}: {}\n", name, why);
  return 1;
}

/// What the launcher answers; empty when it ends before.
std::string exchange_lines(int fd, const std::string& request) {
  std::string answer;
  if (::send(fd, request.data(), request.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(request.size())) return answer;
  std::array<char, 512> piece;
  for (ssize_t size = 0; (size = TEMP_FAILURE_RETRY(::read(fd, piece.data(), piece.size()))) > 0;) {
    answer.append(piece.data(), static_cast<std::size_t>(size));
  }
  return answer;
}

int command_job(const std::string& name, pid_t launcher, const std::string& request) {
  const std::string directory = find_session(launcher);
  const ControlAddress address{directory};
  const Fd fd{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  if (directory.empty() || !address.opened || ::connect(fd.get(), address.get(), sizeof address.name) != 0) {
    return refuse_command(name, fmt::format("process {} is no opalrun of this user with a running job", launcher));
  }
  if (!is_own_user(fd.get())) return refuse_command(name, "the socket of the job is another user's");
  std::string answer = exchange_lines(fd.get(), request);
  if (answer == kDone) return 0;
  if (!answer.starts_with(kRefusal)) return refuse_command(name, "the job has ended");
  answer.pop_back();
  return refuse_command(name, answer.substr(kRefusal.size()));
}

}  // namespace

Result<std::unique_ptr<Control>> Control::open(event::Loop& loop, const std::string& directory,
                                               Quiescence& quiescence) {
  const ControlAddress address{directory};
  Fd listener{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  if (!listener || ::bind(listener.get(), address.get(), sizeof address.name) != 0 ||
      ::chmod(address.name.sun_path, 0600) != 0 || ::listen(listener.get(), kBacklog) != 0) {
    return Error{Errc::os, errno, "socket(control of the job)"};
  }
  return std::unique_ptr<Control>{new Control{loop, std::move(listener), quiescence}};
}

Control::Control(event::Loop& loop, Fd listener, Quiescence& quiescence)
    : loop_(loop), listener_(std::move(listener)), quiescence_(quiescence) {
  arrivals_ = loop_.on_readable(listener_.get(), [this] { admit(); });
}

void Control::admit() {
  Fd fd{::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
  if (!fd) {  // no descriptors left, perhaps: the client stays in the queue, and readable
    arrivals_.pause();
    retry_ = loop_.after(kBetweenAttempts, [this] { arrivals_.resume(); });
    return;
  }
  if (!is_own_user(fd.get())) return;
  const auto client = clients_.emplace(clients_.end());
  client->fd = std::move(fd);
  client->readable = loop_.on_readable(client->fd.get(), [this, client] { read(client); });
}

void Control::drop(Clients::iterator client) {
  if (client->asks) quiescence_.give_up();
  clients_.erase(client);
}

void Control::read(Clients::iterator client) {
  std::array<char, kLongestRequest> piece;
  const ssize_t size = ::read(client->fd.get(), piece.data(), piece.size());
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (size <= 0) return drop(client);
  if (client->asks) return;  // what follows its request
  client->line.append(piece.data(), static_cast<std::size_t>(size));
  if (client->line.find('\n') != std::string::npos) return serve(client);
  if (client->line.size() > kLongestRequest) drop(client);
}

void Control::serve(Clients::iterator client) {
  const std::string_view line = std::string_view{client->line}.substr(0, client->line.find('\n'));
  if (line == kResume) return answer(client, quiescence_.resume());
  const auto milliseconds =
      line.starts_with(kQuiesce) ? opal::parse_number<std::uint64_t>(line.substr(kQuiesce.size())) : std::nullopt;
  if (!milliseconds || *milliseconds > kLongestTimeoutMs) return answer(client, "no such request");
  client->asks = true;
  quiescence_.quiesce(std::chrono::milliseconds{*milliseconds}, [this, client](const std::string& problem) {
    client->asks = false;
    answer(client, problem);
  });
}

/// Into the empty buffer of its socket: it never waits.
void Control::answer(Clients::iterator client, const std::string& problem) {
  const std::string line = problem.empty() ? std::string{kDone} : fmt::format("{}{}\n", kRefusal, problem);
  (void)::send(client->fd.get(), line.data(), line.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  drop(client);
}

int quiesce_job(const std::string& name, pid_t launcher, std::chrono::milliseconds timeout) {
  return command_job(name, launcher, fmt::format("{}{}\n", kQuiesce, timeout.count()));
}

int resume_job(const std::string& name, pid_t launcher) {
  return command_job(name, launcher, fmt::format("{}\n", kResume));
}

}  // namespace runtime::launch
