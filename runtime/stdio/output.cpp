// SPDX-License-Identifier: Apache-2.0
#include "runtime/stdio/output.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <filesystem>

namespace runtime::stdio {
namespace {

constexpr std::size_t kReadSize = 1U << 16;
constexpr std::chrono::milliseconds kPromptDelay{200};  // after which an unfinished line is shown on a terminal
constexpr int kLauncherSource = -1;

bool same_file(int a, int b) {
  struct stat first {};
  struct stat second {};
  return ::fstat(a, &first) == 0 && ::fstat(b, &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

/// "2014-07-01T12:00:00.123+0200 ": now, in local time.
std::string timestamp() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  tm parts{};
  ::localtime_r(&now.tv_sec, &parts);
  std::array<char, 64> date{};
  std::array<char, 16> zone{};
  std::strftime(date.data(), date.size(), "%FT%T", &parts);
  std::strftime(zone.data(), zone.size(), "%z", &parts);
  return fmt::format("{}.{:03}{} ", date.data(), now.tv_nsec / 1'000'000, zone.data());
}

}  // namespace

/// The target of streams: an output of the launcher, or a file.
struct Output::Sink {
  Sink(Writer& its_writer, std::string name, int fd)
      : writer(its_writer),
        target(std::make_shared<Writer::Target>(std::move(name), fd)),
        terminal(::isatty(fd) == 1) {}
  Sink(Writer& its_writer, std::string its_path, Fd file)
      : writer(its_writer),
        path(its_path),
        target(std::make_shared<Writer::Target>(std::move(its_path), std::move(file))) {}

  void write(std::string_view text) { writer.write(target, text); }

  Writer& writer;
  const std::string path;  // of a file
  std::shared_ptr<Writer::Target> target;
  const bool terminal = false;
  LineMerger merger;
  std::size_t streams = 0;  // number of open streams with this target
};

struct Output::Stream {
  int source;  // differs between all streams
  Sink& sink;
  std::string prefix;
  Fd fd;
  event::Watch watch;
  LineBuffer line;
};

Output::Output(event::Loop& loop, const OutputOptions& options, std::function<void(const std::string&)> on_trouble)
    : loop_(loop), options_(options), on_trouble_(std::move(on_trouble)) {
  out_ = std::make_unique<Sink>(add_writer(), "stdout", options.out_fd);
  if (!same_file(options.out_fd, options.err_fd)) err_ = std::make_unique<Sink>(add_writer(), "stderr", options.err_fd);
  if (!options.directory.empty()) file_writer_ = &add_writer();
}

Writer& Output::add_writer() {
  const std::size_t index = writers_.size();
  return *writers_.emplace_back(std::make_unique<Writer>(loop_, [this, index] { drained(*writers_[index]); }));
}

Output::~Output() = default;

Output::Sink& Output::sink_of(Channel channel) noexcept { return channel == Channel::err && err_ ? *err_ : *out_; }

Result<Fd> Output::open(int rank, Channel channel) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return Error{Errc::os, errno, "pipe2(output of a rank)"};
  Fd reader{ends[0]};
  Fd writer{ends[1]};
  ::fcntl(reader.get(), F_SETFL, O_NONBLOCK);
  OPAL_TRY_ASSIGN(Stream* const added, add(rank, channel, std::move(reader)));
  Stream& stream = *added;
  stream.watch = loop_.on_readable(stream.fd.get(), [this, &stream] { read_some(stream); });
  if (stream.sink.writer.full()) stream.watch.pause();
  return writer;
}

/// The target of a stream: the launcher's own output, or the rank's file, which the first stream opens.
Result<Output::Sink*> Output::sink_for(int rank, Channel channel) {
  if (options_.merge) channel = Channel::out;
  if (options_.directory.empty()) return &sink_of(channel);
  const std::size_t digits = fmt::formatted_size("{}", std::max(options_.ranks, 1U) - 1);
  const std::string directory = fmt::format("{}/rank.{:0{}}", options_.directory, rank, digits);
  const std::string path = directory + (channel == Channel::out ? "/stdout" : "/stderr");
  std::unique_ptr<Sink>& sink = files_[path];
  if (sink) return sink.get();
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  Fd file{error ? -1 : ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666)};
  if (!file) {
    const int code = error ? error.value() : errno;
    files_.erase(path);
    return Error{Errc::os, code, "--output-filename: a rank's file cannot be made"};
  }
  sink = std::make_unique<Sink>(*file_writer_, path, std::move(file));
  return sink.get();
}

/// Removes one stream from `sink`; closes the file of a sink without streams.
void Output::release(Sink& sink) {
  if (--sink.streams != 0 || sink.path.empty()) return;
  sink.writer.close(std::move(sink.target));
  files_.erase(std::string{sink.path});
}

int Output::source_of(int rank, Channel channel) noexcept { return rank * 2 + static_cast<int>(channel); }

Result<Output::Stream*> Output::add(int rank, Channel channel, Fd reader) {
  OPAL_TRY_ASSIGN(Sink* const sink, sink_for(rank, channel));
  const char* const name = channel == Channel::out ? "stdout" : "stderr";
  const std::string prefix = options_.tag ? fmt::format("[1,{}]<{}>: ", rank, name) : "";
  ++sink->streams;
  const int source = source_of(rank, channel);
  return &streams_.emplace(source, Stream{source, *sink, prefix, std::move(reader), {}, {}}).first->second;
}

Output::Stream* Output::find(int rank, Channel channel) {
  const auto found = streams_.find(source_of(rank, channel));
  return found == streams_.end() ? nullptr : &found->second;
}

bool Output::feed(int rank, Channel channel, std::string_view text) {
  Stream* known = find(rank, channel);
  if (known == nullptr) {
    const auto added = add(rank, channel, {});
    if (!added) {
      on_trouble_(opal::to_string(added.error()));
      return false;
    }
    known = *added;
  }
  take(*known, text);
  return !known->sink.target->broken();
}

void Output::feed_end(int rank, Channel channel) {
  if (Stream* const known = find(rank, channel); known != nullptr) end_of(*known);
}

bool Output::full() const {
  return std::ranges::any_of(writers_, [](const auto& writer) { return writer->full(); });
}

void Output::drained(const Writer& writer) {
  if (const std::string lost = problem(); !lost.empty()) on_trouble_(lost);
  set_reading(writer, true);
  on_drained();
}

void Output::say(std::string_view line) {
  Sink& sink = sink_of(Channel::err);
  sink.write(sink.merger.merge(kLauncherSource, "", fmt::format("{}\n", line)));
}

/// Returns false when nothing can be read now, or at the end of the stream, which is then removed.
bool Output::read_some(Stream& stream) {
  std::array<char, kReadSize> buffer;
  const ssize_t size = TEMP_FAILURE_RETRY(::read(stream.fd.get(), buffer.data(), buffer.size()));
  if (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
  if (size <= 0 || stream.sink.target->broken()) {
    if (const std::string lost = problem(); !lost.empty()) on_trouble_(lost);
    // When the output is broken, closing the pipe gives the rank SIGPIPE, as in a shell.
    end_of(stream);
    return false;
  }
  take(stream, {buffer.data(), static_cast<std::size_t>(size)});
  return true;
}

void Output::take(Stream& stream, std::string_view text) {
  if (!options_.whole && !options_.tag && !options_.timestamp && stream.sink.path.empty()) {
    stream.sink.write(text);
  } else {
    emit(stream, stream.line.append(text));
    if (stream.sink.terminal && !stream.line.empty() && !prompt_timer_) {
      prompt_timer_ = loop_.after(kPromptDelay, [this] { flush_prompts(); });
    }
  }
  if (stream.fd && stream.sink.writer.full()) set_reading(stream.sink.writer, false);
}

void Output::emit(Stream& stream, std::string_view text) {
  if (text.empty()) return;
  const std::string prefix = options_.timestamp ? timestamp() + stream.prefix : stream.prefix;
  stream.sink.write(stream.sink.merger.merge(stream.source, prefix, text));
}

void Output::end_of(Stream& stream) {
  emit(stream, stream.line.take());
  Sink& sink = stream.sink;
  streams_.erase(int{stream.source});
  release(sink);
}

void Output::set_reading(const Writer& writer, bool on) {
  for (auto& [source, stream] : streams_) {
    if (&stream.sink.writer == &writer) on ? stream.watch.resume() : stream.watch.pause();
  }
}

void Output::flush_prompts() {
  prompt_timer_ = {};
  for (auto& [source, stream] : streams_) {
    if (stream.sink.terminal) emit(stream, stream.line.take());
  }
}

void Output::drain() {
  for (auto next = streams_.begin(); next != streams_.end();) {
    Stream& stream = (next++)->second;  // read_some() removes the stream at its end
    while (stream.fd && read_some(stream)) continue;
  }
  for (auto& [source, stream] : streams_) emit(stream, stream.line.take());
}

std::string Output::problem() const {
  for (const auto& writer : writers_) {
    if (std::string lost = writer->problem(); !lost.empty()) return lost;
  }
  return {};
}

bool Output::finish(std::chrono::milliseconds timeout) {
  streams_.clear();
  for (auto& [path, sink] : files_) sink->writer.close(std::move(sink->target));
  files_.clear();
  bool done = true;
  for (const auto& writer : writers_) done = writer->finish(timeout) && done;
  return done;
}

}  // namespace runtime::stdio
