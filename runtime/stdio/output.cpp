// SPDX-License-Identifier: Apache-2.0
#include "runtime/stdio/output.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

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

}  // namespace

struct Output::Sink {
  Sink(event::Loop& loop, int fd, std::function<void()> on_drained)
      : writer(loop, fd, std::move(on_drained)), terminal(::isatty(fd) == 1) {}
  LineMerger merger;
  Writer writer;
  const bool terminal;
};

struct Output::Stream {
  int source;  // differs between all streams
  Sink& sink;
  std::string prefix;
  Fd fd;
  event::Watch watch;
  LineBuffer line;
};

Output::Output(event::Loop& loop, const OutputOptions& options, std::function<void()> on_all_closed)
    : loop_(loop), options_(options), on_all_closed_(std::move(on_all_closed)) {
  out_ = std::make_unique<Sink>(loop, options.out_fd, [this] { drained(*out_); });
  if (!same_file(options.out_fd, options.err_fd)) {
    err_ = std::make_unique<Sink>(loop, options.err_fd, [this] { drained(*err_); });
  }
}

Output::~Output() = default;

Output::Sink& Output::sink_of(Channel channel) noexcept { return channel == Channel::err && err_ ? *err_ : *out_; }

Result<Fd> Output::open(int rank, Channel channel) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return Error{Errc::os, errno, "pipe2(output of a rank)"};
  Fd reader{ends[0]};
  Fd writer{ends[1]};
  ::fcntl(reader.get(), F_SETFL, O_NONBLOCK);
  Stream& stream = add(rank, channel, std::move(reader));
  stream.watch = loop_.on_readable(stream.fd.get(), [this, &stream] { read_some(stream); });
  if (stream.sink.writer.full()) stream.watch.pause();
  return writer;
}

Output::Stream& Output::add(int rank, Channel channel, Fd reader) {
  const char* const name = channel == Channel::out ? "stdout" : "stderr";
  const std::string prefix = options_.tag ? fmt::format("[1,{}]<{}>: ", rank, name) : "";
  streams_.push_back({rank * 2 + static_cast<int>(channel), sink_of(channel), prefix, std::move(reader), {}, {}});
  return streams_.back();
}

Output::Stream* Output::find(int rank, Channel channel) {
  const int source = rank * 2 + static_cast<int>(channel);
  const auto found =
      std::find_if(streams_.begin(), streams_.end(), [&](const Stream& stream) { return stream.source == source; });
  return found == streams_.end() ? nullptr : &*found;
}

void Output::feed(int rank, Channel channel, std::string_view text) {
  Stream* const known = find(rank, channel);
  take(known != nullptr ? *known : add(rank, channel, {}), text);
}

void Output::feed_end(int rank, Channel channel) {
  if (Stream* const known = find(rank, channel); known != nullptr) end_of(*known);
}

bool Output::full() const { return out_->writer.full() || (err_ && err_->writer.full()); }

void Output::drained(Sink& sink) {
  set_reading(sink, true);
  on_drained();
}

void Output::say(std::string_view line) {
  Sink& sink = sink_of(Channel::err);
  sink.writer.write(sink.merger.merge(kLauncherSource, "", fmt::format("{}\n", line)));
}

/// False at the end of the stream, which is then gone, or when there is nothing to read now.
bool Output::read_some(Stream& stream) {
  std::array<char, kReadSize> buffer;
  ssize_t size = -1;
  do {
    size = ::read(stream.fd.get(), buffer.data(), buffer.size());
  } while (size < 0 && errno == EINTR);
  if (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
  if (size <= 0 || stream.sink.writer.broken()) {
    // With nobody to read it, closing the pipe gives the rank what a shell's pipe would: SIGPIPE.
    end_of(stream);
    return false;
  }
  take(stream, {buffer.data(), static_cast<std::size_t>(size)});
  return true;
}

void Output::take(Stream& stream, std::string_view text) {
  if (!options_.whole && !options_.tag) {
    stream.sink.writer.write(text);
  } else {
    emit(stream, stream.line.append(text));
    if (stream.sink.terminal && !stream.line.empty() && !prompt_timer_) {
      prompt_timer_ = loop_.after(kPromptDelay, [this] { flush_prompts(); });
    }
  }
  if (stream.sink.writer.full()) set_reading(stream.sink, false);
}

void Output::emit(Stream& stream, std::string_view text) {
  if (!text.empty()) stream.sink.writer.write(stream.sink.merger.merge(stream.source, stream.prefix, text));
}

void Output::end_of(Stream& stream) {
  emit(stream, stream.line.take());
  streams_.remove_if([&](const Stream& other) { return &other == &stream; });
  if (streams_.empty()) on_all_closed_();
}

void Output::set_reading(Sink& sink, bool on) {
  for (Stream& stream : streams_) {
    if (&stream.sink == &sink) on ? stream.watch.resume() : stream.watch.pause();
  }
}

void Output::flush_prompts() {
  prompt_timer_ = {};
  for (Stream& stream : streams_) {
    if (stream.sink.terminal) emit(stream, stream.line.take());
  }
}

void Output::drain() {
  for (auto next = streams_.begin(); next != streams_.end();) {
    Stream& stream = *next++;  // read_some() removes the stream at its end
    while (stream.fd && read_some(stream)) continue;
  }
  for (Stream& stream : streams_) emit(stream, stream.line.take());
}

bool Output::finish(std::chrono::milliseconds patience) {
  streams_.clear();
  const bool out_done = out_->writer.finish(patience);
  const bool err_done = !err_ || err_->writer.finish(patience);
  return out_done && err_done;
}

}  // namespace runtime::stdio
