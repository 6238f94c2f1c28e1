// SPDX-License-Identifier: Apache-2.0
// A rank that talks with its daemon: oob_rank SCENARIO.
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <thread>

#include "opal/am/context.hpp"
#include "opal/core/config/store.hpp"
#include "runtime/client/client.hpp"
#include "runtime/oob/link.hpp"
#include "tests/runtime/cut_local_sockets.hpp"

namespace {

using runtime::oob::Link;
using runtime::oob::Topic;

int fail(const char* what, const opal::Error& error) {
  std::printf("%s: %s\n", what, opal::to_string(error).c_str());
  return 1;
}

/// From nothing to more than a transport takes at once.
int echo(Link& link) {
  for (const std::size_t size : {0U, 1U, 7U, 4096U, 65536U, 1'000'000U, 8'000'000U}) {
    std::string content(size, 'x');
    for (std::size_t i = 0; i < size; ++i) content[i] = static_cast<char>(i * 7 + size);
    if (auto done = link.echo(runtime::oob::as_bytes(content)); !done) return fail("echo", done.error());
  }
  const std::string huge(runtime::oob::kLargestMessage + 1, 'x');
  if (link.echo(runtime::oob::as_bytes(huge))) return std::puts("a message beyond the limit was taken"), 1;
  std::puts("echoed");
  return 0;
}

int many(Link& link) {
  for (int i = 0; i < 2000; ++i) {
    if (auto done = link.echo(runtime::oob::as_bytes("ping")); !done) return fail("echo", done.error());
  }
  std::puts("echoed");
  return 0;
}

/// Sends until the link is over another transport than `before`; empty when it never is.
std::string echo_until_moved(Link& link, std::string_view before) {
  for (int i = 0; i < 20'000; ++i) {
    const std::string content(static_cast<std::size_t>(i % 100), static_cast<char>(i));
    if (auto done = link.echo(runtime::oob::as_bytes(content)); !done) return fail("echo", done.error()), "";
    const std::string_view now = link.endpoint().attributes().transport;
    if (now != before && now != "none") return std::string{now};  // between two transports there is none
  }
  return "";
}

/// From tcp to something better; then with that cut `cuts` times.
int upgrade(Link& link, int cuts) {
  std::string way{link.endpoint().attributes().transport};
  std::string all = "from " + way;
  for (int move = 0; move < 1 + 2 * cuts; ++move) {
    if (move % 2 == 1 && runtime::test::cut_local_sockets() == 0) return std::puts("nothing to cut"), 1;
    way = echo_until_moved(link, way);
    if (way.empty()) return std::printf("%s for good\n", all.c_str()), 1;
    all += " to " + way;
  }
  std::puts(all.c_str());
  return echo(link);
}

/// Malformed messages must do no harm.
int garbage(opal::am::Context& context, Link& link) {
  const std::string bad[] = {"", "short", std::string(40, '\xff'), std::string(1000, '\0')};
  for (const std::string& bytes : bad) {
    while (link.endpoint().send_inline(runtime::oob::kActiveMessageTag, {}, runtime::oob::as_bytes(bytes)) ==
           opal::Post::again) {
      context.progress();
    }
  }
  return echo(link);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const std::string scenario = argv[1];
  auto client = runtime::Client::open();
  if (!client) return fail("client", client.error());
  const unsigned rank = (*client)->rank();
  auto context = opal::am::Context::open(opal::config::Store::from_environment());
  if (!context) return fail("context", context.error());
  auto link = Link::open(**context, scenario == "wrong_rank" ? 99 : rank);
  if (!link) return fail("link", link.error());
  if (scenario == "echo") return echo(**link);
  if (scenario == "many") return many(**link);
  if (scenario == "upgrade") return upgrade(**link, 0);
  if (scenario == "cut") return upgrade(**link, 1);
  if (scenario == "garbage") return garbage(**context, **link);
  if (scenario == "reopen") {  // with the same Context, by which the daemon knows it
    for (int i = 0; i < 3; ++i) {
      link->reset();
      link = Link::open(**context, rank);
      if (!link) return fail("link", link.error());
      if (const int status = upgrade(**link, 0); status != 0) return status;
    }
    return 0;
  }
  if (scenario == "again") {  // leaves the channel and comes back with a new Context
    link->reset();
    context->reset();
    context = opal::am::Context::open(opal::config::Store::from_environment());
    if (!context) return fail("context", context.error());
    link = Link::open(**context, rank);
    return link ? echo(**link) : fail("link", link.error());
  }
  std::printf("unknown scenario %s\n", scenario.c_str());
  return 2;
}
