// SPDX-License-Identifier: Apache-2.0
// What launcher and daemons may send each other (runtime/daemon/tree/messages.hpp): each input is messages, of two
// bytes of length, one that names the kind, and the content.  What unpacks packs into the same bytes; what a daemon
// sends about ranks reaches the job only for ranks of its own host; a plan of the job that passes for valid can be
// used.
#include <fcntl.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "runtime/daemon/remote_host.hpp"
#include "runtime/daemon/tree/bootstrap.hpp"
#include "runtime/daemon/tree/process_map.hpp"

namespace {

using namespace runtime;
using namespace runtime::daemon;

constexpr std::uint32_t kOwn[] = {1, 2, 5};  // ranks of the host

void must(bool holds) {
  if (!holds) std::abort();
}

template <class News>
void must_be_own(const News& news) {
  if constexpr (requires { news.rank; }) must(std::find(std::begin(kOwn), std::end(kOwn), news.rank) != std::end(kOwn));
}

template <class M>
void round_trip(Kind kind, ByteSpan content) {
  if (kind != kKind<M>) return;
  const auto message = unpack<M>(content);
  must(!message || pack(*message) == oob::as_text(content));
}

template <class... M>
void round_trips(Kind kind, ByteSpan content, std::tuple<M...>* /*list*/) {
  (round_trip<M>(kind, content), ...);
}

void use(const Launch& launch) {
  if (!ProcessMap::valid(launch.hosts)) return;
  ProcessMap process_map{launch.hosts};
  process_map.end(overlay::IdSet::of(0));
  for (unsigned rank = 0; rank < process_map.ranks(); ++rank) {
    const std::vector<std::uint32_t>& ranks = launch.hosts.at(process_map.host_of(rank)).ranks;
    must(std::binary_search(ranks.begin(), ranks.end(), rank));
  }
}

/// The launcher's view of one host, in a loop of its own.
struct Launcher {
  std::unique_ptr<event::Loop> loop = event::Loop::create().value();
  int null = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  stdio::Output output{*loop, {.tag = true, .ranks = 6, .out_fd = null, .err_fd = null}, [](const std::string&) {}};

  /// What was posted, before anything that it needs goes.
  void settle() {
    loop->post([this] { loop->stop(); });
    loop->run();
  }
};

void feed(RemoteHost& host, ProcessMap& process_map, Kind kind, ByteSpan content) {
  round_trips(kind, content, static_cast<Messages*>(nullptr));
  if (const auto launch = unpack<Launch>(content)) use(*launch);
  if (const auto ended = unpack<Ended>(content)) process_map.end(ended->ranks);
  (void)process_map.absent(std::string{oob::as_text(content)});
  if (!host.is_lost()) (void)host.handle(kind, content);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ByteSpan rest = std::as_bytes(std::span{data, size});
  (void)from_line(oob::as_text(rest));
  static Launcher& launcher = *new Launcher;
  RemoteHost host{*launcher.loop,
                  "host",
                  Timeouts{},
                  launcher.output,
                  [](const launch::Report& report) { std::visit([](const auto& news) { must_be_own(news); }, report); },
                  {.send = [](Kind, std::string) -> Result<void> { return {}; },
                   .on_lost = [](int, const std::string&) {},
                   .expel = [] {},
                   .on_settled = [] {}}};
  host.set_launch({}, {std::begin(kOwn), std::end(kOwn)});
  ProcessMap process_map{{{"here", {0}}, {"host", {1, 2}}, {"other", {3, 4, 5}}}};
  while (rest.size() > 3) {
    const std::size_t length = std::to_integer<std::size_t>(rest[0]) + 256 * std::to_integer<std::size_t>(rest[1]);
    const auto kind = static_cast<Kind>(kKind<Join> + std::to_integer<unsigned>(rest[2]) % 40);
    rest = rest.subspan(3);
    const std::size_t taken = std::min(length, rest.size());
    feed(host, process_map, kind, rest.first(taken));
    rest = rest.subspan(taken);
  }
  launcher.settle();
  return 0;
}
