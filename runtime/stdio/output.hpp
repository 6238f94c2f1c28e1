// SPDX-License-Identifier: Apache-2.0
// runtime/stdio/output.hpp — stdout and stderr of all ranks, gathered into the launcher's own or into files per rank.
// Owns the reading ends of the ranks' pipes and the writers.  Reads no faster than the outputs take it: pipes fill and
// ranks wait, as they would on a terminal of their own.  Threads: the loop's thread.
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
  bool timestamp = false;  ///< "2014-07-01T12:00:00.123+0200 " before every line, and before the tag: when it was read
  bool merge = false;      ///< stderr of ranks goes where their stdout goes
  std::string directory;   ///< empty, or output goes to "directory/rank.N/stdout" and ".../stderr"
  unsigned ranks = 1;      ///< of the job: N has as many digits as the last one
  bool whole = true;       ///< keep lines whole; false passes everything through as it comes (a job of one rank)
  int out_fd = 1;
  int err_fd = 2;
};

class Output {
 public:
  /// `on_trouble` gets a message when an output or a file cannot be written; what is for it is dropped from then on.
  /// Called from the loop.
  Output(event::Loop& loop, const OutputOptions& options, std::function<void(const std::string&)> on_trouble);
  ~Output();

  /// Makes the pipe for `channel` of `rank`; returns the end for the rank to write to.  Errors: os (also: the rank's
  /// file cannot be made).
  Result<Fd> open(int rank, Channel channel);

  /// The same for a rank of another host, whose daemon reads the pipe: `text` as it came, and its end.
  void feed(int rank, Channel channel, std::string_view text);
  void feed_end(int rank, Channel channel);

  /// True while a reader is slow: feed no more than what is in flight.
  [[nodiscard]] bool full() const;
  /// Called when full() may have become false.
  std::function<void()> on_drained = [] {};

  /// One line of the launcher's own on stderr, without the newline.
  void say(std::string_view line);

  /// Whether stderr is a terminal that this process is in the foreground of: the only place for a line of progress.
  [[nodiscard]] bool has_status_line() const;
  /// Shows `text`, cut to the terminal's width, below what is written, in the place of what it showed before; it goes
  /// when something is written.  Empty: takes it away.  Nothing happens without has_status_line().
  void show_status(std::string_view text);

  /// Reads what the pipes still hold, without waiting for a process that keeps one open.
  void drain();

  /// Writes everything read; waits for a slow reader for as long as `timeout` without progress (zero: for ever).
  /// False when something was left behind; the process must then end with _exit.
  bool finish(std::chrono::milliseconds timeout);

  /// Empty, or why output was lost: it could not be written.  A reader that has gone is no reason.
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
  std::vector<std::unique_ptr<Writer>> writers_;  // of stdout, of stderr unless that is the same file, of files
  Writer* file_writer_ = nullptr;                 // null without OutputOptions::directory
  std::unique_ptr<Sink> out_;
  std::unique_ptr<Sink> err_;                           // null when stderr is the same file as stdout
  std::map<std::string, std::unique_ptr<Sink>> files_;  // open ones, by path
  std::map<int, Stream> streams_;                       // by source
  event::Timer prompt_timer_;
};

}  // namespace runtime::stdio
