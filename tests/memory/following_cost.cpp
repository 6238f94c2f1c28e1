// SPDX-License-Identifier: Apache-2.0
// What it costs a program that its mappings are followed (Context::register_address_space()): the same calls with and
// without, in turns, the minimum of the rounds.  Prints the table of docs/results/following.md.
//   memory_following_cost [--quick]
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <vector>

#include "opal/core/config/store.hpp"
#include "opal/memory/address_space/address_space.hpp"
#include "opal/memory/events/monitor.hpp"

namespace {

using opal::memory::MappingTable;
using opal::memory::SharedMappings;

constexpr std::size_t kPage = 4096;

double now_ns() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

void* map(std::size_t size) {
  return ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

struct Case {
  const char* name;
  void (*call)();
};

constexpr Case kCases[] = {
    {"mmap + munmap, 64 KiB", [] { ::munmap(map(65536), 65536); }},
    {"mprotect twice, one page of 16",
     [] {
       static auto* const area = static_cast<std::byte*>(map(16 * kPage));
       ::mprotect(area + 4 * kPage, kPage, PROT_READ);
       ::mprotect(area + 4 * kPage, kPage, PROT_READ | PROT_WRITE);
     }},
    {"brk up and down, 64 KiB", [] { ::sbrk(65536), ::sbrk(-65536); }},
    {"malloc + free, 64 B", [] { std::free(std::malloc(64)); }},
    {"malloc + free, 1 MiB",
     [] {
       auto* const block = static_cast<volatile char*>(std::malloc(1 << 20));
       *block = 1;
       std::free(const_cast<char*>(block));  // NOLINT
     }},
};

/// Nanoseconds of one call.
double cost(const Case& of, int calls) {
  const double begin = now_ns();
  for (int i = 0; i < calls; ++i) of.call();
  return (now_ns() - begin) / calls;
}

}  // namespace

int main(int argc, char** argv) {
  const bool quick = argc > 1 && std::string_view{argv[1]} == "--quick";
  const auto config = opal::config::Store::from_environment().load(opal::memory::kGroup);
  if (!config || opal::memory::start_monitor(*config).monitor == nullptr) {
    std::puts("needs the patcher: x86-64, and a program that starts with one thread");
    return 77;
  }
  auto* const shared = static_cast<SharedMappings*>(::mmap(nullptr, sizeof(SharedMappings), PROT_READ | PROT_WRITE,
                                                           MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
  auto table = MappingTable::create(*shared);
  if (!table) return 1;
  std::puts("| other mappings | calls | alone, ns | followed, ns | ratio |\n|---|---|---|---|---|");
  const int rounds = quick ? 1 : 15;
  std::size_t others = 0;
  for (const std::size_t wanted : {std::size_t{0}, std::size_t{1000}, std::size_t{10'000}, std::size_t{60'000}}) {
    if (quick && wanted > 1000) break;
    for (; others < wanted; ++others) {  // each of its own: neighbours differ
      if (::mmap(nullptr, kPage, others % 2 == 0 ? PROT_READ : PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
          MAP_FAILED)
        break;
    }
    for (const Case& each : kCases) {
      double alone = 1e12;
      double followed = 1e12;
      for (int round = 0; round < rounds; ++round) {
        const int calls = quick ? 10 : 2000;
        alone = std::min(alone, cost(each, calls));
        if (!opal::memory::address_space::follow(*table)) return 1;
        followed = std::min(followed, cost(each, calls));
        opal::memory::address_space::unfollow(*table);
      }
      std::printf("| %zu | %s | %.0f | %.0f | %.2f |\n", others, each.name, alone, followed, followed / alone);
    }
  }
  return 0;
}
