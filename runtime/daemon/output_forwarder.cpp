// SPDX-License-Identifier: Apache-2.0
#include "runtime/daemon/output_forwarder.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace runtime::daemon {
namespace {

constexpr std::size_t kReadSize = 1U << 16;  // most bytes of one read()

}  // namespace

Result<Fd> OutputForwarder::open(unsigned rank, stdio::Channel channel) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return Error{Errc::os, errno, "pipe2(output of a rank)"};
  Fd writer{ends[1]};
  streams_.push_back({rank, channel, Fd{ends[0]}, {}});
  Stream& stream = streams_.back();
  ::fcntl(stream.fd.get(), F_SETFL, O_NONBLOCK);  // not the writing end: the rank blocks when the pipe is full
  stream.watch = loop_.on_readable(stream.fd.get(), [this, &stream] { read_some(stream); });
  if (paused_) stream.watch.pause();
  return writer;
}

/// Forwards the result of one read().  At the end of the stream, or after a read error, it forwards an empty text and
/// destroys `stream` with its Watch.  Returns false in that case, and when the pipe is empty now.
bool OutputForwarder::read_some(Stream& stream) {
  std::string text(kReadSize, '\0');
  const ssize_t size = TEMP_FAILURE_RETRY(::read(stream.fd.get(), text.data(), text.size()));
  if (size < 0 && errno == EAGAIN) return false;
  if (size <= 0) {
    end_of(stream);
    return false;
  }
  text.resize(static_cast<std::size_t>(size));
  under_way_ += text.size();
  text_(stream.rank, stream.channel, std::move(text));
  if (under_way_ >= kWindow && !paused_) {
    paused_ = true;
    for (Stream& other : streams_) other.watch.pause();
  }
  return true;
}

void OutputForwarder::end_of(Stream& stream) {
  text_(stream.rank, stream.channel, {});
  streams_.remove_if([&](const Stream& other) { return &other == &stream; });
}

void OutputForwarder::drop(unsigned rank, stdio::Channel channel) {
  const auto stream =
      std::ranges::find_if(streams_, [&](const Stream& each) { return each.rank == rank && each.channel == channel; });
  if (stream != streams_.end()) end_of(*stream);
}

void OutputForwarder::credit(std::uint64_t bytes) {
  under_way_ -= std::min(bytes, under_way_);  // too large a Credit must not wrap the counter
  if (!paused_ || under_way_ >= kWindow / 2) return;
  paused_ = false;
  for (Stream& stream : streams_) stream.watch.resume();
}

void OutputForwarder::drain() {
  for (auto next = streams_.begin(); next != streams_.end();) {
    Stream& stream = *next++;  // advanced first: read_some() may destroy the stream
    while (read_some(stream)) continue;
  }
}

}  // namespace runtime::daemon
