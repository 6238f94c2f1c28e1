// SPDX-License-Identifier: Apache-2.0
// runtime/stdio/output.hpp — writes the stdout and stderr of all ranks to the launcher's own, or to files per rank.
// Owns the reading ends of the ranks' pipes and the writers.  While an output is slow, the pipes of its ranks are not
// read: they fill, and the ranks block in write().  Threads: the loop's thread.
#pragma once
#include <chrono>
#include <map>
#include <memory>
#include <vector>

#include "runtime/event/loop.hpp"
#include "runtime/stdio/line_merger.hpp"
#include "runtime/stdio/writer.hpp"

namespace runtime::stdio {

enum class Channel { out, err };

struct OutputOptions {
  bool tag = false;        ///< "[1,rank]<stdout>: " before every line
  bool timestamp = false;  ///< "2014-07-01T12:00:00.123+0200 ", the time of reading, before every line and tag
  bool merge = false;      ///< the stderr of ranks goes to the target of their stdout
  std::string directory;   ///< empty, or output goes to "directory/rank.N/stdout" and ".../stderr"
  unsigned ranks = 1;      ///< of the job; N has the digits of the highest rank
  bool whole = true;       ///< keep lines whole; false: pass text on as it comes (a job of one rank)
  int out_fd = 1;
  int err_fd = 2;
};

class Output {
 public:
  /// `on_trouble` runs in the loop with a message when an output or a file cannot be written; later text for it is
  /// dropped.  `loop` must outlive the object.
  Output(event::Loop& loop, const OutputOptions& options, std::function<void(const std::string&)> on_trouble);
  ~Output();

  /// Makes the pipe for `channel` of `rank`; returns its writing end, for the rank.  Errors: os (also: the rank's file
  /// cannot be made).
  Result<Fd> open(int rank, Channel channel);

  // For a rank of another host, whose daemon reads the pipe: its text, and the end of the stream.
  /// False: the target is broken, and no more text of the stream is wanted.
  bool feed(int rank, Channel channel, std::string_view text);
  void feed_end(int rank, Channel channel);

  /// True while a writer is full: the caller acknowledges no more output to the daemons until on_drained.
  [[nodiscard]] bool full() const;
  /// Called when full() may have become false.
  std::function<void()> on_drained = [] {};

  /// Prints `line`, which has no newline, on stderr.
  void say(std::string_view line);

  /// Reads what the pipes hold now.  Does not wait for a process that keeps a pipe open.
  void drain();

  /// Writes all text that was read.  Gives up after `timeout` without progress (zero: never).
  /// Returns false when text is left; the process must then end with _exit.
  bool finish(std::chrono::milliseconds timeout);

  /// Empty, or the first error of a write.  EPIPE (the reader has closed) does not count.
  [[nodiscard]] std::string problem() const;

 private:
  struct Sink;
  struct Stream;
  Sink& sink_of(Channel channel) noexcept;
  Result<Sink*> sink_for(int rank, Channel channel);
  Result<Stream*> add(int rank, Channel channel, Fd reader);
  static int source_of(int rank, Channel channel) noexcept;
  Stream* find(int rank, Channel channel);
  bool read_some(Stream& stream);
  void take(Stream& stream, std::string_view text);
  void emit(Stream& stream, std::string_view text);
  void end_of(Stream& stream);
  void set_reading(const Writer& writer, bool on);
  void release(Sink& sink);
  Writer& add_writer();
  void drained(const Writer& writer);
  void flush_prompts();

  event::Loop& loop_;
  const OutputOptions options_;
  const std::function<void(const std::string&)> on_trouble_;
  std::vector<std::unique_ptr<Writer>> writers_;  // for stdout, stderr (unless the same file), the files per rank
  Writer* file_writer_ = nullptr;                 // null without OutputOptions::directory
  std::unique_ptr<Sink> out_;
  std::unique_ptr<Sink> err_;                           // null when stderr is the same file as stdout
  std::map<std::string, std::unique_ptr<Sink>> files_;  // open ones, by path
  std::map<int, Stream> streams_;                       // by source
  event::Timer prompt_timer_;
};

}  // namespace runtime::stdio
