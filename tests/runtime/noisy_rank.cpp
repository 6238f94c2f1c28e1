// SPDX-License-Identifier: Apache-2.0
// A rank that prints: noisy_rank LINES WIDTH.  Every line is written in two halves, so that only a launcher that keeps
// lines together shows them whole; odd lines go to stderr.
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace {

bool write_all(int fd, const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t written = ::write(fd, text.data() + done, text.size() - done);
    if (written < 0) return false;
    done += static_cast<std::size_t>(written);
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const char* const rank = std::getenv("OMPI_COMM_WORLD_RANK");
  const long lines = std::atol(argv[1]);
  const auto width = static_cast<std::size_t>(std::atol(argv[2]));
  for (long i = 0; i < lines; ++i) {
    std::string line = "rank " + std::string{rank == nullptr ? "?" : rank} + " line " + std::to_string(i) + " ";
    line.resize(width - 1, static_cast<char>('a' + i % 26));
    line += '\n';
    const int fd = 1 + static_cast<int>(i % 2);
    if (!write_all(fd, line.substr(0, width / 2)) || !write_all(fd, line.substr(width / 2))) return 1;
  }
  return 0;
}
