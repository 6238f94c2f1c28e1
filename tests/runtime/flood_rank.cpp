// SPDX-License-Identifier: Apache-2.0
// A rank that prints as fast as it can: flood_rank LINES.  Its lines are "rank R line N xxx..." (flood.hpp), which the
// borders of its writes cut anywhere.  Before and after them it says on stderr how much memory its launcher or
// daemon, the process guard's parent, has ever used: "rank R KIB".
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "tests/runtime/flood.hpp"

namespace {

/// The number after `key` in a file of /proc; 0 when there is none.
long field(pid_t pid, const std::string& key) {
  std::ifstream status{"/proc/" + std::to_string(pid) + "/status"};
  for (std::string word; status >> word;) {
    long value = 0;
    if (word == key && status >> value) return value;
  }
  return 0;
}

bool write_all(const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t written = ::write(1, text.data() + done, text.size() - done);
    if (written < 0) return false;
    done += static_cast<std::size_t>(written);
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  const char* const name = std::getenv("OMPI_COMM_WORLD_RANK");
  if (argc < 2 || name == nullptr) return 2;
  const auto rank = static_cast<unsigned>(std::atoi(name));
  const auto server = static_cast<pid_t>(field(::getppid(), "PPid:"));
  std::fprintf(stderr, "rank %u %ld\n", rank, field(server, "VmHWM:"));
  constexpr std::size_t kWrite = 65'521;  // a prime
  std::string buffer;
  const long lines = std::atol(argv[1]);
  for (long i = 0; i < lines; ++i) {
    buffer += runtime::test::flood_line(rank, static_cast<std::uint64_t>(i));
    if (buffer.size() < kWrite) continue;
    if (!write_all(buffer.substr(0, kWrite))) return 1;
    buffer.erase(0, kWrite);
  }
  if (!write_all(buffer)) return 1;
  std::fprintf(stderr, "rank %u %ld\n", rank, field(server, "VmHWM:"));
  return 0;
}
